import random
from dataclasses import replace

from batchtts.data import Record
from batchtts.durations import outliers, spoken_length


def run_of(count: int, voice: str = "v", tempo: float = 0.07, seed: int = 0) -> list[Record]:
    """Rows of 5 to 90 characters whose durations vary by 5 %."""
    chance = random.Random(seed)
    sizes = [chance.randint(5, 90) for _ in range(count)]
    return [
        Record(
            id=f"{voice}{number}",
            status="ok",
            text="a" * size,
            voice=voice,
            duration=(0.5 + tempo * size) * chance.gauss(1, 0.05),
        )
        for number, size in enumerate(sizes)
    ]


def test_a_regular_voice_has_no_outliers() -> None:
    assert outliers(run_of(2000)) == {}


def test_runaways_and_cut_files_are_found_although_there_are_many() -> None:
    records = run_of(300)
    wrong = {r.id: replace(r, duration=r.duration * 4) for r in records[::10] if len(r.text) > 20}
    wrong |= {r.id: replace(r, duration=r.duration / 3) for r in records[5::10] if len(r.text) > 30}
    found = outliers(wrong.get(record.id, record) for record in records)
    assert found.keys() == wrong.keys()
    assert {str(outlier).partition(":")[0] for outlier in found.values()} == {
        "too long",
        "too short",
    }


def test_voices_are_judged_apart_and_few_files_are_not() -> None:
    slow, fast = run_of(200, "slow", 0.2), run_of(200, "fast", 0.05)
    assert outliers(slow + fast) == {}
    assert outliers([*run_of(10), replace(run_of(1)[0], duration=99)]) == {}


def test_equal_texts_are_compared_with_their_median() -> None:
    records = [replace(record, text="same", duration=1.0) for record in run_of(40)]
    records[7] = replace(records[7], duration=3.0)
    assert outliers(records).keys() == {records[7].id}


def test_numbers_count_as_they_are_spoken() -> None:
    assert spoken_length("$7,476") > 3 * spoken_length("seven")
    assert spoken_length("8,000") < spoken_length("8,008") < spoken_length("8,123")
    assert spoken_length("a, b!") == 2
