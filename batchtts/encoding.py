"""Which encoding a file of texts is in: byte-order mark, then strict UTF-8, then what the user says."""

import codecs
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from batchtts.errors import InputError

_CHUNK = 1 << 20
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LIKELY = ["cp949", "cp932", "gb18030", "big5", "cp1252", "cp1251"]
"""What spreadsheets write on Windows: the encodings that are worth naming to a user."""


class _Fault(NamedTuple):
    offset: int
    """Of the first byte that cannot be read, from the start of the file."""
    line: int
    """From 1."""


def choose_encoding(path: Path, configured: str | None, log: Callable[[str], None]) -> str:
    """Read the whole file once to be sure of its encoding; nothing is ever guessed.

    Args:
        path: the file.
        configured: `input.encoding`, used where the file is neither marked nor UTF-8.
        log: gets one line when it is not UTF-8.

    Raises:
        InputError: it cannot be read in any of them; names line, byte and the likely encoding.
    """
    with path.open("rb") as file:
        head = file.read(4096)
    marked = next((codec for bom, codec in _BOMS if head.startswith(bom)), None)
    if b"\0" in head and not (marked or configured):
        _refuse_unmarked_utf16(path, head)
    # UTF-16 without its mark is valid UTF-8 where it is plain English, so it is asked for first.
    first = configured if configured and b"\0" in head else "utf-8"
    codec = marked or first
    fault = _first_fault(path, codec)
    if fault and configured and not marked:
        codec = configured
        fault = _first_fault(path, codec)
    if fault:
        raise InputError(_fault_message(path, codec, fault))
    if codec != "utf-8":
        log(f"{path}: encoding {codec}, {'by its byte-order mark' if marked else 'as configured'}")
    return "utf-8-sig" if codec == "utf-8" else codec


def _fault_message(path: Path, codec: str, fault: _Fault) -> str:
    begin = max(0, fault.offset - 4096)
    with path.open("rb") as file:
        file.seek(begin)
        raw = file.read(3 * 4096)
    bad = fault.offset - begin
    what = f"byte 0x{raw[bad]:02X}" if bad < len(raw) else "the end"
    return (
        f"{path}:{fault.line}: {what} at offset {fault.offset} is not {codec.upper()}; save the "
        "file as UTF-8, or name its encoding in the config, `input: {encoding: ...}`"
        f"{looks_like(raw, bad)}"
    )


def _refuse_unmarked_utf16(path: Path, head: bytes) -> None:
    for start, codec in ((1, "utf-16-le"), (0, "utf-16-be")):
        if head[start::2].count(0) > len(head) // 4:
            message = (
                f"{path}: looks like {codec.upper()} without a byte-order mark; save it as UTF-8, "
                f"or set `input: {{encoding: {codec}}}` in the config"
            )
            raise InputError(message)


def _first_fault(path: Path, codec: str) -> _Fault | None:
    """Decode the whole file in pieces; the first byte that fails, if any."""
    decoder = codecs.getincrementaldecoder(codec)()
    offset, lines = 0, 0
    for chunk, last in _chunks(path):
        pending = decoder.getstate()[0]
        try:
            lines += decoder.decode(chunk, last).count("\n")
        except UnicodeDecodeError as error:
            text = error.object[: error.start].decode(codec, "replace")
            return _Fault(offset - len(pending) + error.start, lines + text.count("\n") + 1)
        except UnicodeError:  # UTF-16 without its mark
            return _Fault(offset, lines + 1)
        offset += len(chunk)
    return None


def _chunks(path: Path) -> Iterator[tuple[bytes, bool]]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk, False
    yield b"", True


def looks_like(raw: bytes, bad: int) -> str:
    """Name the encodings that could be meant, each with the line as it then reads.

    Args:
        raw: bytes of the file, enough to judge by.
        bad: offset in `raw` of the byte that is not UTF-8.
    """
    from charset_normalizer import from_bytes

    start = raw.rfind(b"\n", 0, bad) + 1
    line = raw[start : raw.find(b"\n", bad) if b"\n" in raw[bad:] else len(raw)]
    readings = {
        match.encoding: line.decode(match.encoding, "replace").strip()[:60]
        for match in from_bytes(raw, cp_isolation=_LIKELY)
    }
    if not readings:
        return ""
    names = [f"{codec} (the line then reads: {text})" for codec, text in readings.items()]
    return f"; it looks like {', or '.join(names[:2])}"
