from pathlib import Path
from typing import Any

import pytest

from batchtts.config import Config, load_config
from batchtts.errors import ConfigError, Exit
from tests.conftest import CASES


def load(tmp_path: Path, text: str, **options: Any) -> Config:
    path = tmp_path / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, {key.replace("__", "."): value for key, value in options.items()})


def faults(tmp_path: Path, text: str, **options: Any) -> list[str]:
    """The lines of the error, without the folder."""
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, **options)
    assert caught.value.exit_code == Exit.USAGE
    return str(caught.value).replace(f"{tmp_path}/", "").split("\n")


def case_faults(name: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_config(CASES / name)
    return str(caught.value).replace(f"{CASES}/{name}:", "").split("\n")


def test_without_a_file_the_defaults_count() -> None:
    assert load_config(None) == Config()
    assert load_config(None, {"voice": None}) == Config()


def test_an_empty_file_and_empty_sections_are_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, "# nothing yet\n") == Config()
    assert load(tmp_path, "text:\n  # on_unspeakable: skip\nbatch:\n") == Config()


def test_options_beat_the_file_and_the_file_beats_the_defaults(tmp_path: Path) -> None:
    text = "speed: 1.5\nbatch: {size: 8, max_size: 16}\n"
    config = load(tmp_path, text, batch__size=4, output__dir="out")
    assert (config.speed, config.batch.size, config.batch.max_size) == (1.5, 4, 16)
    assert config.output.dir == "out"  # of the command line: begins at the current folder
    assert config.lang == ""


def test_words_of_the_command_line_become_what_the_field_is(tmp_path: Path) -> None:
    config = load(tmp_path, "", batch__size="16", speed="1.25", lang="no", voice="007")
    assert (config.batch.size, config.speed) == (16, 1.25)
    assert (config.lang, config.voice) == ("no", "007")
    assert faults(tmp_path, "", batch__size="many") == [
        "command line: batch.size: many: must be auto or a whole number of at least 1"
    ]


def test_a_switch_of_the_command_line_is_true_or_false(tmp_path: Path) -> None:
    assert load(tmp_path, "", output__trim_silence="true").output.trim_silence is True
    assert faults(tmp_path, "", output__trim_silence="maybe") == [
        "command line: output.trim_silence: maybe: must be true or false"
    ]


def test_an_option_does_not_hide_a_fault_of_the_file(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "output: 5", output__dir="out")
    assert fault.startswith("run.yaml:1:9: output: 5: must be a section with")


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "night.yaml").touch()
    with pytest.raises(ConfigError, match=r"no config file .*nihgt.yaml; there are: night.yaml"):
        load_config(tmp_path / "nihgt.yaml")


def test_a_folder_is_no_config(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the config file"):
        load_config(tmp_path)


def test_paths_of_the_file_begin_at_its_folder(tmp_path: Path) -> None:
    (tmp_path / "voices" / "kor").mkdir(parents=True)
    config = load(tmp_path, "voice: piper:voices/a.onnx\noutput: {dir: out, cache: /var/cache}\n")
    assert config.voice == f"piper:{tmp_path}/voices/a.onnx"
    assert config.output.dir == f"{tmp_path}/out"
    assert config.output.cache == "/var/cache"
    assert load(tmp_path, "voice: mms:voices/kor").voice == f"mms:{tmp_path}/voices/kor"
    assert load(tmp_path, "voice: mms:facebook/kor").voice == "mms:facebook/kor"
    assert load(tmp_path, "output: {dir: ~/out}").output.dir == str(Path.home() / "out")


def test_keys_with_x_are_free_and_merge_keys_work(tmp_path: Path) -> None:
    text = """
x-notes: whatever, [1, 2]
x-common: &common {size: 4, max_size: 8}
x-more: &more {max_size: 64, margin: 0.5}
batch:
  <<: [*common, *more]
  size: 2
"""
    batch = load(tmp_path, text).batch
    assert (batch.size, batch.max_size, batch.margin) == (2, 8, 0.5)


def test_c120_no_is_never_false(tmp_path: Path) -> None:
    assert case_faults("C120_norway.yaml") == [
        (
            "2:7: lang: no: must be text, but YAML reads no as the boolean false; "
            'write it in quotes, "no"'
        )
    ]
    assert load(tmp_path, 'lang: "no"').lang == "no"


def test_words_that_yaml_takes_for_booleans_are_words_where_they_are_choices(
    tmp_path: Path,
) -> None:
    config = load(tmp_path, "input: {header: no}\nbatch: {probe: off}\noutput: {trim_silence: yes}")
    assert (config.input.header, config.batch.probe) == ("no", "off")
    assert config.output.trim_silence is True


def test_c122_octal_and_base_60_are_refused_and_text_is_as_written(tmp_path: Path) -> None:
    assert case_faults("C122_octal.yaml") == [
        (
            "2:7: seed: 010: must be a whole number from 0 to 9223372036854775807, "
            "but YAML reads 010 as the octal number 8; write the plain value"
        ),
        (
            "3:20: options.speaker: 010: YAML reads it as the octal number 8; "
            'write that, or "010" in quotes'
        ),
        (
            "5:22: text.sentence_pause_ms: 1:30: must be a whole number from 0 to 10000, "
            "but YAML reads 1:30 as a number to the base 60; write the plain value"
        ),
    ]
    config = load(tmp_path, "lang: 0042\nvoice: 1.10\ndeadline: 7:30\noptions: {a: [3, x, 1.5]}")
    assert (config.lang, config.voice, config.deadline) == ("0042", "1.10", "7:30")
    assert config.options == {"a": [3, "x", 1.5]}


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("1e-3", "; write 0.001, without quotes"),
        ("08", "; write 8, without quotes"),
        ("0x10", ", but YAML reads 0x10 as the number 16; write the plain value"),
        ("1_0", ", but YAML reads 1_0 as the number 10; write the plain value"),
        ("1_0.5", ", but YAML reads 1_0.5 as the number 10.5; write the plain value"),
        ("yes", ", but YAML reads yes as the boolean true; write the plain value"),
        (".nan", ""),
        (".inf", ""),
        ("", ""),
        ("fast", ""),
    ],
)
def test_a_number_is_written_plainly(tmp_path: Path, written: str, hint: str) -> None:
    (fault,) = faults(tmp_path, f"speed: {written}")
    assert fault.startswith("run.yaml:1:")
    assert fault.endswith(f": {written or 'nothing'}: must be a number from 0.25 to 4.0{hint}")


def test_whole_numbers_are_numbers(tmp_path: Path) -> None:
    assert load(tmp_path, "speed: 1\noutput: {loudness: -18}").speed == 1.0
    assert faults(tmp_path, "output: {loudness: 3}") == [
        "run.yaml:1:20: output.loudness: 3: must be a number from -60 to 0 or null"
    ]


def test_c124_duplicate_keys_name_both_lines() -> None:
    assert case_faults("C124_duplicate_keys.yaml") == [
        "4:3: output.sample_rate: already set on line 3; keep one of the two",
        "5:1: speed: already set on line 1; keep one of the two",
    ]


def test_c125_unknown_keys_get_near_matches() -> None:
    assert case_faults("C125_unknown_keys.yaml") == [
        "1:1: voise: unknown key; did you mean voice?",
        "2:1: bach_size: unknown key; did you mean batch.size?",
        "3:1: Speed: unknown key; did you mean speed?",
        "5:3: output.sampel_rate: unknown key; did you mean output.sample_rate?",
    ]


def test_an_unknown_key_like_no_other_gets_the_list(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, "checks: {zzz: 1}")
    assert fault == (
        "run.yaml:1:10: checks.zzz: unknown key; the keys here are retries, on_suspect"
    )


def test_c126_all_wrong_values_are_listed_at_once() -> None:
    assert case_faults("C126_types.yaml") == [
        '1:8: speed: "1.0": must be a number from 0.25 to 4.0; write 1.0, without quotes',
        "3:9: batch.size: 10.5: must be auto or a whole number of at least 1",
        "4:13: batch.max_size: 0: must be a whole number of at least 1",
        (
            "5:10: devices: 0: must be auto, cpu or devices by name: "
            "cuda:0 or cuda:0,cuda:2 or [cuda:0, cpu]"
        ),
        "6:7: seed: -1: must be a whole number from 0 to 9223372036854775807",
        (
            "7:1: workers: unknown key; the keys here are voice, lang, speed, seed, options, precision, "
            "devices, deadline, input, text, batch, output, checks"
        ),
        "8:8: voice: [a, b]: must be text",
    ]


def test_devices_are_a_list_or_words_with_commas(tmp_path: Path) -> None:
    assert load(tmp_path, "devices: [cuda:0, cuda:2]").devices == "cuda:0,cuda:2"
    assert load(tmp_path, "devices: cuda:0, cpu").devices == "cuda:0,cpu"
    for wrong in ("[0, 1]", "'0,1'", "[]", "true", "''"):
        (fault,) = faults(tmp_path, f"devices: {wrong}")
        assert "must be auto, cpu or devices by name" in fault


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("output: 5", "1:9: output: 5: must be a section with dir, preset"),
        ("voice: true", '1:8: voice: true: must be text; write it in quotes, "true"'),
        ("options: {a: {b: [010]}}", "1:14: options.a: {b: [010]}: YAML reads it as the octal"),
        ("- a", "1:1: a config is keys with values, such as `speed: 1.2`"),
        ("text: {lexicon: {a: 5, '': x}}", "1:28: text.lexicon.: must not be empty"),
        ("text: {lexicon: {on: off}}", "text.lexicon.on: off: must be text, but YAML reads off"),
        ("text: {lexicon: [a]}", "1:17: text.lexicon: [a]: must be names, each with text"),
        ("output: {format: wave}", "must be one of wav, flac, ogg, opus, mp3"),
        ("input: {encoding: utf9}", "1:19: input.encoding: utf9: is no encoding; such as utf-8"),
        ("input: {delimiter: ab}", "1:20: input.delimiter: ab: must be one character"),
        ("speed: !!python/name:os.system x", "1:8: speed: the tag tag:yaml.org,2002:python/name"),
        ("? [a]\n: 1", "1:3: a key must be a plain word"),
        ("<<: 5", "1:5: << takes a mapping or a list of mappings"),
        ("speed: 1\n---\nspeed: 2", "2:1: but found another document"),
        ("voice: @x", "1:8: found character '@' that cannot start any token"),
        ("voice: a: b", "1:9: mapping values are not allowed here"),
        ("voice: 'x", "found unexpected end of stream"),
        ("voice: y\nlang: x\a", r"run.yaml:2: the control character '\x07'; take it out"),
        ("options: &a {b: *a}", "nested too deeply, or an alias that holds itself"),
        ("options: " + "[" * 5000, "nested too deeply, or an alias that holds itself"),
    ],
)
def test_what_is_no_config_says_where(tmp_path: Path, text: str, fault: str) -> None:
    assert fault in "\n".join(faults(tmp_path, text))


def test_c129_byte_order_mark_and_crlf_are_fine() -> None:
    config = load_config(CASES / "C129_bom_crlf.yaml")
    assert (config.speed, config.lang, config.output.dir) == (1.1, "ko", str(CASES / "결과"))


def test_c129_another_encoding_is_named() -> None:
    (fault,) = case_faults("C129_cp949.yaml")
    assert fault.startswith("1: byte 0xBE at offset 2 is not UTF-8; save the file as UTF-8; it ")
    assert "looks like cp949 (the line then reads: # 야간 작업 설정)" in fault


def test_c129_a_tab_is_named() -> None:
    assert case_faults("C129_tab.yaml") == ["3:1: a tab; YAML indents with spaces only"]
