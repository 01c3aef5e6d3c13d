import csv

import pytest

from batchtts.config import TextConfig
from batchtts.text import clean
from tests.conftest import CASES

STRIP = TextConfig(markup="strip")


def test_c58_markup_is_literal_unless_asked_for() -> None:
    with (CASES / "C58_markup.csv").open(encoding="utf-8", newline="") as file:
        texts = {row["id"]: row["text"] for row in csv.DictReader(file)}
    for text in texts.values():
        assert clean(text, TextConfig()).text == text
    assert clean(texts["k1"], STRIP).text == "Hi\nthere"
    result = clean(texts["k2"], STRIP)
    assert result.text == "Use bold & 'quotes'\nand a new line."
    assert result.notes == {"markup": 6}
    assert clean(texts["k3"], STRIP).text == texts["k3"]
    assert clean(texts["k4"], STRIP).text == texts["k4"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>One.</p><ul><li>Two<li>Three</ul>", "One.\n\nTwo\nThree"),
        ("A List<String> and the <Enter> key.", "A List<String> and the <Enter> key."),
        ("Mail <ann@example.com> now.", "Mail <ann@example.com> now."),
        ("<a href=\"x\" title='y'>link</a><br/>next", "link\nnext"),
        ("<style>p {x: 1}</style>Seen.<script>if (a<b) {}</script>", "Seen."),
        ("<!-- note\n -->Said. <?xml version='1.0'?>", "Said."),
        ("&lt;b&gt; &nbsp;&shy;&amp;amp; &#0;&bogus; 5 &#8364;", "<b> &amp; \ufffd&bogus; 5 €"),
        ("x <b and c", "x <b and c"),
    ],
)
def test_tags_and_entities_are_taken_out(text: str, expected: str) -> None:
    assert clean(text, STRIP).text == expected
