"""Plain data -> pydantic model; each fault with its place, key, value and what is allowed."""

import difflib
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Le, Lt
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from batchtts.configfile import ConfigFile, Keys, Misread, dotted, plain_value
from batchtts.errors import ConfigError

M = TypeVar("M", bound=BaseModel)

_Faults = dict[Keys, dict[str, str]]
"""Keys of a value that does not fit -> pydantic's error types, each with its message."""


def check(model: type[M], data: dict[str, Any], file: ConfigFile, given: Mapping[Keys, Any]) -> M:
    """Make the model, or say everything that is wrong.

    Args:
        model: the whole config.
        data: the file's values with the options of the command line laid over.
        file: where the values stand.
        given: the options of the command line.

    Raises:
        ConfigError: one line for each fault.
    """
    result = _validate(model, data, file, given)
    first_reading: dict[Keys, Any] = {}
    if isinstance(result, dict):
        first_reading = _read_again(data, result, file, given)
        result = _validate(model, data, file, given)
    if not isinstance(result, dict) and not file.problems:
        return result
    lines = list(file.problems)
    for keys, kinds in result.items() if isinstance(result, dict) else ():
        value = first_reading.get(keys, _at(data, keys))
        lines.append(_message(model, value, file, given, keys, kinds))
    raise ConfigError("\n".join(text for _, text in sorted(lines)))


def _validate(
    model: type[M], data: dict[str, Any], file: ConfigFile, given: Mapping[Keys, Any]
) -> M | _Faults:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults: _Faults = {}
        for fault in error.errors(include_url=False):
            # Unions and dict keys put words into `loc` that are no keys of the file.
            keys = fault["loc"]
            while keys not in file.nodes and keys not in given:
                keys = keys[:-1]
            faults.setdefault(keys, {})[fault["type"]] = fault["msg"]
        return faults


def _read_again(
    data: dict[str, Any], faults: _Faults, file: ConfigFile, given: Mapping[Keys, Any]
) -> dict[Keys, Any]:
    """Take the other reading of a scalar where only that can fit the field.

    A text field takes 0042 as it is written, `probe: off` is the word, `trim_silence: yes` is true,
    and "16" on the command line is a number.

    Returns:
        The first reading of what was changed in `data`.
    """
    first_reading = {}
    for keys, kinds in faults.items():
        value = other = _at(data, keys)
        if keys in given:
            if isinstance(value, str) and kinds.keys() & {"int_type", "float_type", "bool_type"}:
                other = plain_value(value)
        elif isinstance(value, Misread) and value.flag is not None:
            if "literal_error" in kinds:
                other = value.written
            elif "bool_type" in kinds:
                other = value.flag
        elif kinds.keys() & {"literal_error", "string_type"} and _is_number(value):
            other = file.nodes[keys].value
        if other is not value:
            first_reading[keys] = value
            _at(data, keys[:-1])[keys[-1]] = other
    return first_reading


def _is_number(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, Misread | int | float) and not isinstance(value, bool)


def _at(data: Any, keys: Keys) -> Any:  # noqa: ANN401
    for key in keys:
        data = data[key]
    return data


def _message(
    model: type[BaseModel],
    value: Any,  # noqa: ANN401
    file: ConfigFile,
    given: Mapping[Keys, Any],
    keys: Keys,
    kinds: dict[str, str],
) -> tuple[int, str]:
    """The line of the file that it stands on, and the message."""
    unknown = "extra_forbidden" in kinds
    if keys in given:
        line, place, written = 0, "command line", str(given[keys])
    else:
        mark = file.key_marks[keys] if unknown else file.nodes[keys].start_mark
        line, place, written = mark.line + 1, file.place(mark), file.written(keys)
    place = f"{place}: {dotted(keys)}"
    if unknown:
        return line, f"{place}: unknown key; {_near(model, keys)}"
    if "string_too_short" in kinds:
        return line, f"{place}: must not be empty"
    place = f"{place}: {written or 'nothing'}"
    if "value_error" in kinds:
        return line, f"{place}: {kinds['value_error'].removeprefix('Value error, ')}"
    allowed = _describe(*_field(model, keys))
    return line, f"{place}: must be {allowed}{_hint(value, allowed)}"


def _hint(value: Any, allowed: str) -> str:  # noqa: ANN401
    if isinstance(value, Misread):
        if "text" in allowed and value.flag is not None:
            way_out = f'; write it in quotes, "{value.written}"'
        else:
            way_out = "; write the plain value"
        return f", but YAML reads {value.written} as {value.reads_as}{way_out}"
    if isinstance(value, str) and "number" in allowed:
        try:
            number = float(value)
        except ValueError:
            return ""
        plain = int(number) if number.is_integer() and "." not in value else number
        return f"; write {plain}, without quotes"
    if isinstance(value, bool) and "text" in allowed:
        return f'; write it in quotes, "{str(value).lower()}"'
    return ""


def _near(model: type[BaseModel], keys: Keys) -> str:
    """The known keys that a misspelled one may be meant for, at any level."""
    known: dict[str, str] = {}
    for other in _all_keys(model):
        if other == keys[:-1]:  # the section that it stands in
            continue
        known.setdefault(_plain(dotted(other)), dotted(other))
        known.setdefault(_plain(str(other[-1])), dotted(other))
    near = [
        known[name]
        for wanted in (dotted(keys), str(keys[-1]))
        for name in difflib.get_close_matches(_plain(wanted), known, n=1, cutoff=0.75)
    ]
    if near:
        return f"did you mean {' or '.join(dict.fromkeys(near))}?"
    section, _ = _field(model, keys[:-1])
    return f"the keys here are {', '.join(section.model_fields)}"


def _plain(name: str) -> str:
    return name.lower().replace(".", "_").replace("-", "_")


def _all_keys(model: type[BaseModel], above: Keys = ()) -> Iterator[Keys]:
    for name, field in model.model_fields.items():
        yield (*above, name)
        section: Any = field.annotation
        if _is_section(section):
            yield from _all_keys(section, (*above, name))


def _is_section(annotation: Any) -> bool:  # noqa: ANN401
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _field(model: Any, keys: Keys) -> tuple[Any, Sequence[Any]]:  # noqa: ANN401
    """The type of the value at these keys, and its bounds."""
    annotation, bounds = model, []
    for key in keys:
        if _is_section(annotation):
            field = annotation.model_fields[str(key)]
            annotation, bounds = field.annotation, field.metadata
        elif get_origin(annotation) is dict:
            annotation, bounds = get_args(annotation)[1], []
    return annotation, bounds


def _describe(annotation: Any, bounds: Sequence[Any]) -> str:  # noqa: ANN401
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = [b for a in args[1:] for b in (a.metadata if isinstance(a, FieldInfo) else [a])]
        return _describe(args[0], [*inner, *bounds])
    if origin in {Union, types.UnionType}:
        return " or ".join(_describe(arg, bounds) for arg in args)
    if origin is Literal:
        words = ", ".join(map(str, args))
        return words if len(args) == 1 else f"one of {words}"
    if origin is dict:
        return f"names, each with {_describe(args[1], [])}"
    if _is_section(annotation):
        return f"a section with {', '.join(annotation.model_fields)}"
    if annotation in {int, float}:
        return ("a whole number" if annotation is int else "a number") + _range(bounds)
    return {str: "text", bool: "true or false", types.NoneType: "null"}.get(annotation, "a value")


def _range(bounds: Sequence[Any]) -> str:
    limits: dict[type, Any] = {type(bound): bound for bound in bounds}
    low, high, below = limits.get(Ge), limits.get(Le), limits.get(Lt)
    if low and high:
        return f" from {low.ge} to {high.le}"
    words = [f"at least {low.ge}"] if low else []
    words += [f"below {below.lt}"] if below else []
    return " of " + " and ".join(words) if words else ""


def no_misread(value: Any) -> Any:  # noqa: ANN401
    """Refuse a misread scalar where any value is allowed; a pydantic validator.

    Raises:
        ValueError: YAML would take it for something else than was written.
    """
    match value:
        case Misread():
            message = (
                f'YAML reads it as {value.reads_as}; write that, or "{value.written}" in quotes'
            )
            raise ValueError(message)
        case dict():
            for inner in value.values():
                no_misread(inner)
        case list():
            for inner in value:
                no_misread(inner)
        case _:
            pass
    return value
