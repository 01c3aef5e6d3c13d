"""id -> file name: portable, distinct for distinct ids, a pure function of the id.

An id is its own name where every system can hold it: `001` -> `audio/001.wav`. Any other id keeps
what it can and ends in `~` and a hash of the id: `a/b` -> `audio/a_b~0debd2558bca8fa0.wav`. No
plain name holds a `~`, so a mapped name is never the plain name of another id.

Two ids that differ in case alone have names that Windows and macOS take for one: `collision_key`
is the same for both. The plan gives the later row its `hashed` name.
"""

import hashlib
import re
import unicodedata

from batchtts.errors import InputError

FOLDER = "audio"
"""Every audio file lies under this folder of the output folder."""

MAX_NAME_BYTES = 118
"""With a temporary file's frame (25 bytes at most) a name fits the 143 bytes of eCryptfs homes."""

KNOWN_EXTENSIONS = ("wav", "flac", "ogg", "opus", "mp3")

_FORBIDDEN = frozenset('<>:"/\\|?*~')
"""Forbidden on Windows or Linux, and the mark of mapped names."""

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories that hide in a name, or that no file system can hold."""

_DEVICE = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|clock\$|(com|lpt)[0-9\u00b9\u00b2\u00b3]) *(\.|$)",
    re.IGNORECASE,
)
"""Names of Windows devices, with or without an extension."""


def file_for(id: str, extension: str, layout_folders: bool, hashed: bool = False) -> str:
    """The audio file of an id, relative to the output folder, with forward slashes.

    Args:
        id: The utterance's id.
        extension: Of the file, without the dot.
        layout_folders: Spread the files over 256 folders: `audio/3f/...`.
        hashed: Give the mapped name to a plain id too: the way out of a collision.
    """
    plain = not hashed and _is_plain(id, extension)
    name = id if plain else _mapped(id, extension)
    folder = f"{FOLDER}/{_hash(id)[:2]}" if layout_folders else FOLDER
    return f"{folder}/{name}.{extension}"


def safe_file(name: str, extension: str, layout_folders: bool = False, hashed: bool = False) -> str:
    """The audio file for a name that the row asks for, with or without its extension.

    Raises:
        InputError: the name asks for another format than the one that is written.
    """
    stem, dot, asked = name.rpartition(".")
    if dot and asked.lower() in KNOWN_EXTENSIONS:
        if asked.lower() != extension:
            message = f"the row asks for the file {name!r}, but the output is .{extension}"
            raise InputError(message)
        name = stem
    return file_for(name, extension, layout_folders, hashed)


def collision_key(file: str) -> str:
    """Equal for files that some system takes for one: case and composition do not count."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", file).casefold())


def _is_plain(id: str, extension: str) -> bool:
    """Whether the id can be the name as it is."""
    if id.isascii() and id.replace("_", "").replace("-", "").isalnum():  # most ids, fast
        clean = id[0] != "-"
    else:
        clean = _is_clean(id)
    size = len(id.encode(errors="surrogatepass")) + len(extension) + 1
    return clean and size <= MAX_NAME_BYTES and not _DEVICE.match(id)


def _is_clean(id: str) -> bool:
    edges_ok = id != "" and id[0] not in "-." and id[-1] != "." and id.strip() == id
    return (
        edges_ok
        and not any(c in _FORBIDDEN or unicodedata.category(c) in _INVISIBLE for c in id)
        and unicodedata.is_normalized("NFC", id)
    )


def _mapped(id: str, extension: str) -> str:
    """What can be kept of an id, cut to length, with the hash that tells it from all others."""
    text = "".join(
        "_" if c in _FORBIDDEN or c == "." or unicodedata.category(c) in _INVISIBLE else c
        for c in unicodedata.normalize("NFC", id)
    )
    mark = "~" + _hash(id)
    room = MAX_NAME_BYTES - len(mark) - len(extension) - 1
    text = text.encode()[:room].decode(errors="ignore").strip()
    return ("_" + text if text[:1] in ("", "-") else text) + mark


def _hash(id: str) -> str:
    """16 hexadecimal digits: 10 million ids collide once in 300 000 runs."""
    return hashlib.blake2b(id.encode(errors="surrogatepass"), digest_size=8).hexdigest()
