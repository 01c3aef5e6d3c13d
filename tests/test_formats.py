"""Presets and the combinations that cannot work."""

from typing import Any

import pytest
from pydantic import ValidationError

from batchtts import formats
from batchtts.config import OutputConfig
from batchtts.errors import ConfigError


def resolve(**keys: Any) -> OutputConfig:
    return formats.resolve(OutputConfig(**keys))


def test_without_keys_the_output_is_plain_wav() -> None:
    output = resolve()
    assert (output.format, output.encoding, output.sample_rate) == ("wav", "pcm_16", None)
    assert output.true_peak is None


@pytest.mark.parametrize("preset", formats.PRESETS)
def test_every_preset_resolves_and_is_valid(preset: str) -> None:
    output = resolve(preset=preset)
    wanted = formats.PRESETS[preset]
    assert {key: getattr(output, key) for key in wanted} == dict(wanted)
    try:
        OutputConfig(**output.model_dump())
    except ValidationError as error:  # pragma: no cover
        pytest.fail(str(error))


def test_telephony_is_8_khz_mu_law() -> None:
    output = resolve(preset="telephony")
    assert (output.format, output.encoding, output.sample_rate) == ("wav", "mulaw", 8000)


def test_written_keys_win_over_the_preset_even_as_null() -> None:
    output = resolve(preset="telephony", loudness=None, sample_rate=16_000)
    assert (output.loudness, output.sample_rate, output.encoding) == (None, 16_000, "mulaw")


def test_resolving_twice_changes_nothing() -> None:
    once = resolve(preset="audiobook", format="mp3")
    assert formats.resolve(once) == once


def test_a_preset_is_the_same_as_its_keys_written_out() -> None:
    assert resolve(preset="asr-dataset") == resolve(sample_rate=16_000, encoding="pcm_16")


def test_loudness_comes_with_a_ceiling() -> None:
    assert resolve(loudness=-23.0).true_peak == formats.LOUDNESS_CEILING


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"preset": "phone"}, "no 'phone'; valid: telephony, telephony-alaw, web, audiobook"),
        ({"format": "opus", "sample_rate": 44_100}, "44100 Hz; valid: 8000, 12000, 16000, 24000"),
        ({"format": "opus", "sample_rate": 22_050}, "cannot hold 22050 Hz"),
        ({"format": "flac", "encoding": "mulaw"}, "cannot hold mulaw; valid: pcm_16, pcm_24"),
        ({"format": "mp3", "encoding": "pcm_16"}, "cannot hold pcm_16; valid: none, leave it out"),
        ({"format": "mp3", "preset": "telephony"}, r"mp3 \(preset telephony\) cannot hold mulaw"),
        ({"tags": {"mood": "calm"}}, "no file can carry 'mood'; valid: title, artist"),
    ],
)
def test_bad_combinations_name_what_is_allowed(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(**keys)


@pytest.mark.parametrize(
    ("keys", "rate", "expected"),
    [
        ({}, 22_050, 22_050),
        ({"format": "opus"}, 22_050, 24_000),
        ({"format": "opus"}, 44_100, 48_000),
        ({"format": "opus"}, 96_000, 48_000),
        ({"format": "mp3"}, 24_000, 24_000),
        ({"sample_rate": 8_000}, 24_000, 8_000),
    ],
)
def test_the_rate_is_what_is_asked_for_or_the_next_that_fits(
    keys: dict[str, Any], rate: int, expected: int
) -> None:
    assert formats.output_rate(resolve(**keys), rate) == expected


def test_every_format_has_an_extension_of_its_own() -> None:
    extensions = [formats.extension(resolve(format=name)) for name in formats.FORMATS]
    assert extensions == ["wav", "flac", "ogg", "opus", "mp3"]
