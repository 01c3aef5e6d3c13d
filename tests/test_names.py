"""File names: cases C20-C27, portable and distinct."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchtts import names
from batchtts.errors import InputError

RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
LONGEST_TEMPORARY = 25
"""Bytes of "." and ".tmp-" and a lease of 19 digits."""


def stem(id: str) -> str:
    file = names.file_for(id, "wav", layout_folders=False)
    assert file.startswith("audio/")
    assert file.endswith(".wav")
    return file[len("audio/") : -len(".wav")]


def is_portable(stem: str) -> bool:
    name = stem + ".wav"
    return (
        len(name.encode()) + LONGEST_TEMPORARY <= 143
        and not re.search(r'[<>:"/\\|?*\x00-\x1f\x7f]', stem)
        and not RESERVED.fullmatch(name)
        and stem == stem.strip()
        and stem[0] not in ".-~"
        and stem[-1] != "."
        and unicodedata.is_normalized("NFC", stem)
    )


@pytest.mark.parametrize("id", ["001", "0010", "04", "4", "000", "LJ001-0001", "a_b", "v1.2 final"])
def test_an_id_that_every_system_can_hold_is_the_name(id: str) -> None:
    assert stem(id) == id


@pytest.mark.parametrize("id", ["내일", "Müller", "कि", "日本語", "👍"])
def test_letters_of_all_scripts_stay(id: str) -> None:
    assert stem(id) == unicodedata.normalize("NFC", id)


@pytest.mark.parametrize(
    "id",
    [
        *("a/b", "../../escape", "/tmp/batchtts_abs", "C:\\x", ".", "..", "~", "-rf", ""),
        *("CON", "nul", "aux.v2", "COM1", "com¹", "x.", "y ", " y", "q?*:z", "a\tb", "CON .x"),
        *("L" * 300 + "a", "L" * 300 + "b", "내일" * 60, "\ud800", "a\u202eb", "a~b", ".hidden"),
    ],
)
def test_an_awkward_id_gets_a_safe_name_with_a_hash(id: str) -> None:
    assert is_portable(stem(id))
    assert re.search("~[0-9a-f]{16}$", stem(id))


def test_names_that_look_alike_stay_apart() -> None:
    ids = ["a/b", "a_b", "a\\b", "a:b", "L" * 300 + "a", "L" * 300 + "b", "x", "x.", "x ", " x"]
    ids += ["Mu\u0308ller", "M\u00fcller", "a_b~0debd2558bca8fa0"]
    assert len({stem(id) for id in ids}) == len(ids)


@given(st.sets(st.text(), min_size=2, max_size=20))
def test_any_ids_get_distinct_portable_names(ids: set[str]) -> None:
    stems = {stem(id) for id in ids}
    assert len(stems) == len(ids)
    assert all(map(is_portable, stems))


@given(st.text(alphabet="/\\.:~-_ aA\u0308", max_size=6), st.booleans())
def test_a_file_never_leaves_its_folder(id: str, folders: bool) -> None:
    parts = names.file_for(id, "wav", folders).split("/")
    assert parts[0] == "audio"
    assert len(parts) == 2 + folders
    assert not {"", ".", ".."} & set(parts)


def test_folders_spread_the_files_evenly() -> None:
    count = 20_000
    files = [names.file_for(f"{n:06}", "opus", layout_folders=True) for n in range(count)]
    folders = [file.split("/")[1] for file in files]
    assert all(re.fullmatch("[0-9a-f]{2}", folder) for folder in folders)
    assert len(set(folders)) == 256
    assert max(map(folders.count, set(folders))) < 2 * count / 256


def test_the_name_is_stable() -> None:
    assert names.file_for("a/b", "wav", False) == "audio/a_b~0debd2558bca8fa0.wav"
    assert names.file_for("greeting", "wav", True) == "audio/d8/greeting.wav"


def test_names_that_differ_in_case_alone_are_found_and_can_be_told_apart() -> None:
    upper, lower = (names.file_for(id, "wav", False) for id in ("Straße", "STRASSE"))
    assert names.collision_key(upper) == names.collision_key(lower)
    hashed = names.file_for("STRASSE", "wav", False, hashed=True)
    assert names.collision_key(hashed) != names.collision_key(upper)
    assert is_portable(hashed[len("audio/") : -len(".wav")])


def test_a_row_may_ask_for_a_file_name_with_or_without_extension() -> None:
    assert names.safe_file("welcome", "wav") == "audio/welcome.wav"
    assert names.safe_file("welcome.WAV", "wav") == "audio/welcome.wav"
    assert names.safe_file("v1.2", "wav") == "audio/v1.2.wav"
    assert re.fullmatch(r"audio/___up~\w{16}\.wav", names.safe_file("../up", "wav"))


def test_a_row_cannot_ask_for_another_format() -> None:
    with pytest.raises(InputError, match=r"'welcome\.mp3', but the output is \.wav"):
        names.safe_file("welcome.mp3", "wav")
