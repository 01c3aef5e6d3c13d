"""YAML text -> plain data, each value with its place; refuses what YAML 1.1 would quietly misread."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from batchtts.encoding import looks_like
from batchtts.errors import ConfigError

Keys = tuple[str | int, ...]
"""Path of keys and list positions to a value, from the top."""


@dataclass(frozen=True, slots=True)
class Misread:
    """A plain scalar that YAML 1.1 takes for something that was hardly meant; fits no field."""

    written: str
    reads_as: str
    """What YAML makes of it, for the message: "the octal number 8"."""
    flag: bool | None = None
    """Its value, where it is a boolean such as `no`."""


@dataclass(slots=True)
class ConfigFile:
    """What a YAML file holds."""

    name: str
    """How messages call the file."""
    text: str
    data: dict[str, Any] = field(default_factory=dict)
    nodes: dict[Keys, yaml.Node] = field(default_factory=dict)
    """The node of every value, by its keys."""
    key_marks: dict[Keys, yaml.Mark] = field(default_factory=dict)
    """Where the key of a value stands."""
    problems: list[tuple[int, str]] = field(default_factory=list)
    """Line and message of each fault, the place in front."""

    def fault(self, mark: yaml.Mark, message: str) -> None:
        """Note a fault that does not stop the reading."""
        self.problems.append((mark.line + 1, f"{self.place(mark)}: {message}"))

    def place(self, mark: yaml.Mark) -> str:
        """Write a mark as "file:line:column", from 1."""
        return f"{self.name}:{mark.line + 1}:{mark.column + 1}"

    def written(self, keys: Keys) -> str:
        """Cut a value out of the file as it was written, on one line, shortened."""
        node = self.nodes[keys]
        text = " ".join(self.text[node.start_mark.index : node.end_mark.index].split())
        return text if len(text) <= 60 else text[:57] + "..."


def read_config_file(path: Path) -> ConfigFile:
    """Read a YAML file; faults that do not stop the reading are listed in `problems`.

    Raises:
        ConfigError: it is missing, not UTF-8, or not YAML.
    """
    file = ConfigFile(str(path), _read_text(path))
    try:
        top = yaml.compose(file.text, yaml.SafeLoader)
        if top is not None:
            value = _value(file, (), top)
            if isinstance(value, dict):
                file.data = value
            else:
                file.fault(top.start_mark, "a config is keys with values, such as `speed: 1.2`")
    except yaml.YAMLError as error:
        raise ConfigError(_syntax_message(file, error)) from error
    except RecursionError as error:
        message = f"{path}: nested too deeply, or an alias that holds itself"
        raise ConfigError(message) from error
    return file


def _read_text(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except FileNotFoundError as error:
        there = sorted(p.name for pattern in ("*.yaml", "*.yml") for p in path.parent.glob(pattern))
        hint = f"; there are: {', '.join(there[:10])}" if there else ""
        message = f"no config file {path}{hint}"
        raise ConfigError(message) from error
    except OSError as error:
        message = f"cannot read the config file {path}: {error.strerror}"
        raise ConfigError(message) from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # utf-8-sig counts from behind a byte-order mark, so it is decoded once more without.
        bad = _first_bad_byte(raw)
        line = raw.count(b"\n", 0, bad) + 1
        likely = looks_like(raw[:65_536], bad)
        message = (
            f"{path}:{line}: byte 0x{raw[bad]:02X} at offset {bad} is not UTF-8; "
            f"save the file as UTF-8{likely}"
        )
        raise ConfigError(message) from error


def _first_bad_byte(raw: bytes) -> int:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _syntax_message(file: ConfigFile, error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        line = file.text.count("\n", 0, error.position) + 1
        return f"{file.name}:{line}: the control character {chr(error.character)!a}; take it out"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return f"{file.name}: {error}"
    mark = error.problem_mark
    if file.text[mark.index : mark.index + 1] == "\t":
        return f"{file.place(mark)}: a tab; YAML indents with spaces only"
    context = f" ({error.context})" if error.context else ""
    hint = ""
    if error.problem is not None and "cannot start any token" in error.problem:
        hint = "; put the value in quotes"
    return f"{file.place(mark)}: {error.problem}{context}{hint}"


def _value(file: ConfigFile, keys: Keys, node: yaml.Node) -> Any:  # noqa: ANN401
    """The plain value of a node; records its place and that of everything in it."""
    file.nodes[keys] = node
    if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
        return _mapping(file, keys, node)
    if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
        return [_value(file, (*keys, i), item) for i, item in enumerate(node.value)]
    try:
        return _SCALARS[node.tag](node.value)
    except (KeyError, ValueError):
        raise yaml.MarkedYAMLError(
            problem=f"{dotted(keys)}: the tag {node.tag} has no place in a config",
            problem_mark=node.start_mark,
        ) from None


def _mapping(file: ConfigFile, keys: Keys, node: yaml.MappingNode) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in node.value:
        if key.tag == _MERGE:
            for other in _merged(value):
                # The first of several merged mappings wins, as YAML's merge keys say.
                values = _value(file, keys, other) | values
    file.nodes[keys] = node
    lines: dict[str, int] = {}
    for key, value in node.value:
        if key.tag == _MERGE:
            continue
        if not isinstance(key, yaml.ScalarNode):
            file.fault(key.start_mark, "a key must be a plain word")
            continue
        name = key.value  # as written, whatever YAML makes of it
        inner = (*keys, name)
        if name in lines:
            first = f"already set on line {lines[name]}"
            file.fault(key.start_mark, f"{dotted(inner)}: {first}; keep one of the two")
            continue
        lines[name] = key.start_mark.line + 1
        file.key_marks[inner] = key.start_mark
        values[name] = _value(file, inner, value)
    return values


def _merged(node: yaml.Node) -> Iterator[yaml.MappingNode]:
    for other in node.value if isinstance(node, yaml.SequenceNode) else [node]:
        if not isinstance(other, yaml.MappingNode):
            raise yaml.MarkedYAMLError(
                problem="<< takes a mapping or a list of mappings", problem_mark=other.start_mark
            )
        yield other


def dotted(keys: Keys) -> str:
    """Write keys as "output.sample_rate", list positions as "[0]"."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


_WHOLE = r"[-+]?(0|[1-9][0-9]*)"
_MERGE = "tag:yaml.org,2002:merge"


def _boolean(written: str) -> bool | Misread:
    flag = written.lower() in {"yes", "true", "on"}
    if written.lower() in {"true", "false"}:
        return flag
    return Misread(written, f"the boolean {str(flag).lower()}", flag)


def _whole_number(written: str) -> int | Misread:
    if re.fullmatch(_WHOLE, written):
        return int(written)
    if ":" in written:
        return Misread(written, "a number to the base 60")
    if re.match(r"[-+]?0[0-7_]", written):
        return Misread(written, f"the octal number {int(written.replace('_', ''), 8)}")
    return Misread(written, f"the number {int(written.replace('_', ''), 0)}")


def _float(written: str) -> float | Misread:
    if ":" in written:
        return Misread(written, "a number to the base 60")
    if "_" in written:
        return Misread(written, f"the number {float(written.replace('_', ''))}")
    return float(written.lower().replace(".inf", "inf").replace(".nan", "nan"))


_SCALARS: dict[str, Callable[[str], Any]] = {
    "tag:yaml.org,2002:str": str,
    # A date stays as written: no field is a date, and a deadline reads better so.
    "tag:yaml.org,2002:timestamp": str,
    "tag:yaml.org,2002:value": str,
    "tag:yaml.org,2002:null": lambda _: None,
    "tag:yaml.org,2002:bool": _boolean,
    "tag:yaml.org,2002:int": _whole_number,
    "tag:yaml.org,2002:float": _float,
}


def plain_value(written: str) -> str | int | float | bool:
    """What a word of the command line is as a value: "16" is the number, "true" the boolean."""
    if written.lower() in {"true", "false"}:
        return written.lower() == "true"
    if re.fullmatch(_WHOLE, written):
        return int(written)
    try:
        return float(written)
    except ValueError:
        return written
