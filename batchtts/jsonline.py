"""A record as a line of the journal, there and back; what is no record is told from one."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from batchtts.data import Record

FIELDS = tuple(field.name for field in fields(Record))
_values = attrgetter(*FIELDS)

_TYPES: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(FIELDS, str),
    **dict.fromkeys(("duration", "speed"), (int, float)),
    **dict.fromkeys(("sample_rate", "seed", "attempts"), int),
    "checks": dict,
}


def _plain(value: object) -> object:
    """What JSON has no word for: numpy's numbers, tuples' kin."""
    if hasattr(value, "item"):
        return value.item()
    return dict(value) if isinstance(value, Mapping) else str(value)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain).encode
_encode_ascii = json.JSONEncoder(allow_nan=False, default=_plain).encode


def encode(record: Record) -> bytes:
    """A record's line, with its line feed: fields in their order, UTF-8."""
    line = dict(zip(FIELDS, _values(record), strict=True))
    try:
        return _encode(line).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair: JSON can say it in ASCII only
        return _encode_ascii(line).encode() + b"\n"
    except ValueError:
        return _encode_ascii(_finite(line)).encode() + b"\n"


def _finite(value: object) -> object:
    """The same without the floats that JSON lacks: they become null."""
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parse(line: bytes, names: Sequence[str] = FIELDS) -> dict[str, Any] | None:
    """These fields of a line; None where it is no record. Unknown keys are left out."""
    try:
        found = json.loads(line.decode())
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("id"), str):
        return None
    if found.get("status") not in ("ok", "failed", "skipped"):
        return None
    known = {name: found[name] for name in names if name in found}
    fits = all(map(isinstance, known.values(), map(_TYPES.__getitem__, known)))
    return known if fits else None
