from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchtts import encoding
from batchtts.encoding import choose_encoding
from batchtts.errors import InputError


def file(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    return path


def chosen(path: Path, configured: str | None = None) -> str:
    codec = choose_encoding(path, configured, lambda _: None)
    return path.read_bytes().decode(codec)


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_utf_8_and_marked_files_are_read(tmp_path: Path, codec: str) -> None:
    path = file(tmp_path, "Grüße, 서울.\n".encode(codec))
    assert chosen(path) == "Grüße, 서울.\n"
    assert chosen(path, "cp949") == "Grüße, 서울.\n"  # a mark or valid UTF-8 beats the config


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["Plain English.\n", "서울에서 만나요, soon.\n"])
def test_utf_16_without_its_mark_is_named(tmp_path: Path, codec: str, text: str) -> None:
    path = file(tmp_path, (text * 10).encode(codec))
    with pytest.raises(InputError) as caught:
        chosen(path)
    if text.isascii():
        assert f"looks like {codec.upper()} without a byte-order mark" in str(caught.value)
    assert chosen(path, codec) == text * 10


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        ("cp949", "똠방각하와 안녕하세요.\n"),
        ("cp932", "こんにちは、世界です。\n"),
        ("cp1251", "Привет, как дела? Всё хорошо.\n"),
        ("cp1252", "Café crème à la carte.\n"),
        ("big5", "歡迎光臨本店，謝謝您的惠顧。\n"),
    ],
)
def test_the_likely_encoding_is_named_with_the_line_as_it_then_reads(
    tmp_path: Path, codec: str, text: str
) -> None:
    path = file(tmp_path, b"First line.\n" + text.encode(codec))
    with pytest.raises(InputError) as caught:
        chosen(path)
    assert f"{codec} (the line then reads: {text.strip()})" in str(caught.value)
    assert chosen(path, codec) == "First line.\n" + text


def test_the_configured_encoding_must_fit_too(tmp_path: Path) -> None:
    path = file(tmp_path, b"First.\nCaf\xe9 \x81.\n")
    with pytest.raises(InputError, match=r"a.txt:2: byte 0x81 at offset 12 is not CP1252"):
        chosen(path, "cp1252")


def test_half_a_character_at_the_end_is_a_fault(tmp_path: Path) -> None:
    path = file(tmp_path, "One.\n둘".encode()[:-1])
    with pytest.raises(InputError, match=r"a.txt:2: byte 0xEB at offset 5 is not UTF-8"):
        chosen(path)
    path = file(tmp_path, "One.".encode("utf-16")[:-1])
    with pytest.raises(InputError, match=r"a.txt:1: byte 0x2E at offset 8 is not UTF-16"):
        chosen(path)


def test_utf_16_is_not_taken_for_marked_when_it_is_not(tmp_path: Path) -> None:
    path = file(tmp_path, "Plain English.\n".encode("utf-16-le"))
    with pytest.raises(InputError, match=r"a.txt:1: byte 0x50 at offset 0 is not UTF-16"):
        chosen(path, "utf-16")


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40), st.integers(1, 7), st.booleans())
def test_the_bad_byte_is_found_wherever_the_pieces_are_cut(
    tmp_path_factory: pytest.TempPathFactory, before: str, after: str, chunk: int, marked: bool
) -> None:
    head = (b"\xef\xbb\xbf" if marked else b"") + before.replace("\0", "").encode()
    path = file(tmp_path_factory.mktemp("bytes"), head + b"\xff" + after.replace("\0", "").encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "_CHUNK", chunk)
        with pytest.raises(InputError) as caught:
            chosen(path)
    line = head.count(b"\n") + 1
    assert f"a.txt:{line}: byte 0xFF at offset {len(head)} is not UTF-8" in str(caught.value)
