"""Hugging Face checkpoints: equal to the library's own model alone, exact in a batch."""

import csv
import json
import pickle
import unicodedata
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from batchtts.errors import MissingExtraError, VoiceError
from batchtts.models.base import Features, Item, UnspeakableError
from batchtts.models.contract import check
from batchtts.models.transformers_vits import adapter
from tests.conftest import CASES
from tests.models.sameness import difference, worst_difference

transformers = pytest.importorskip("transformers")

LATIN = "_abcdefghijklmnopqrstuvwxyz' -"
HANGUL = "_ 안녕하세요예약이확인되었습니다감사합"
CHECK_TEXTS = ["yes", "good morning to you", "the train to the coast leaves when the sun is up"]
SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "ffn_dim": 32,
    "flow_size": 16,
    "spectrogram_bins": 9,
    "upsample_initial_channel": 32,
    "upsample_rates": [8, 4],
    "upsample_kernel_sizes": [16, 8],
    "resblock_kernel_sizes": [3, 5],
    "resblock_dilation_sizes": [[1, 3], [1, 3]],
    "prior_encoder_num_flows": 2,
    "prior_encoder_num_wavenet_layers": 2,
    "posterior_encoder_num_wavenet_layers": 1,
    "duration_predictor_flow_bins": 4,
    "initializer_range": 0.15,
}
MakeCheckpoint = Callable[..., Path]


def save_checkpoint(folder: Path, letters: str, speakers: int, language: str) -> None:
    vocabulary = {letter: number for number, letter in enumerate(dict.fromkeys(letters))}
    torch.manual_seed(0)
    config = transformers.VitsConfig(
        vocab_size=len(vocabulary) + 1,
        num_speakers=speakers,
        speaker_embedding_size=8 if speakers > 1 else 0,
        **SMALL,
    )
    model = transformers.VitsModel(config)
    model.duration_predictor.flows[0].translate.data.fill_(1.5)  # random durations are long
    folder.mkdir()
    model.save_pretrained(folder)
    source = folder / "letters.json"
    source.write_text(json.dumps(vocabulary | {"<unk>": len(vocabulary)}), encoding="utf-8")
    transformers.VitsTokenizer(
        str(source), pad_token="_", phonemize=False, is_uroman=False, language=language
    ).save_pretrained(folder)


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> MakeCheckpoint:
    """(letters, speakers, language) -> folder of a small random checkpoint, made once."""
    transformers.utils.logging.disable_progress_bar()

    @cache
    def make(letters: str = LATIN, speakers: int = 1, language: str = "eng") -> Path:
        folder = tmp_path_factory.mktemp("hf") / "tiny"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            save_checkpoint(folder, letters, speakers, language)
        return folder

    return make


def changed(source: Path, folder: Path, file: str, **changes: Any) -> Path:
    """A copy of a checkpoint with one of its files changed."""
    folder.mkdir(exist_ok=True)
    for path in source.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    content = json.loads((folder / file).read_text(encoding="utf-8")) | changes
    (folder / file).write_text(json.dumps(content), encoding="utf-8")
    return folder


def prepare(folder: Path, texts: list[str], **options: Any) -> list[Features]:
    frontend = adapter.frontend(str(folder))
    return [
        frontend.prepare(Item(text=text, voice="", seed=seed, options=options))
        for seed, text in enumerate(texts)
    ]


@pytest.mark.parametrize("speakers", [1, 3])
def test_equals_the_library_alone_without_noise(
    speakers: int, make_checkpoint: MakeCheckpoint
) -> None:
    folder = make_checkpoint(speakers=speakers)
    truth = transformers.VitsModel.from_pretrained(folder).eval()
    truth.noise_scale = truth.noise_scale_duration = 0.0
    tokenizer = transformers.VitsTokenizer.from_pretrained(folder)
    speaker = speakers - 1
    features = prepare(folder, CHECK_TEXTS, noise_scale=0, noise_w=0, speaker=speaker)
    audios = adapter.load(str(folder), "cpu", "fp32").synthesize(features)
    for text, item, audio in zip(CHECK_TEXTS, features, audios, strict=True):
        inputs = tokenizer(text, return_tensors="pt")
        assert inputs.input_ids[0].tolist() == list(item.data.sentences[0])
        with torch.inference_mode():
            wave = truth(**inputs, speaker_id=speaker if speakers > 1 else None).waveform
        assert difference(audio.wave, wave[0].numpy()) < 1e-5


def test_the_contract(make_checkpoint: MakeCheckpoint) -> None:
    check(adapter, str(make_checkpoint()), texts=CHECK_TEXTS, unspeakable="7", tolerance=1e-4)


def test_a_pad_that_is_the_blank_hides_nothing(make_checkpoint: MakeCheckpoint) -> None:
    """Id 0 is both in MMS: huggingface/transformers issue 28173."""
    with (CASES / "C72_mms_pad.csv").open(encoding="utf-8") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    folder = make_checkpoint()
    features = prepare(folder, texts)
    assert [f.size for f in features] == [2 * len(text) + 1 for text in texts]
    model = adapter.load(str(folder), "cpu", "fp32")
    assert worst_difference(model, features) < 1e-4


def test_digits_are_refused_by_name(make_checkpoint: MakeCheckpoint) -> None:
    """They used to be filtered out: the sentence was spoken without its numbers."""
    with (CASES / "C38_digits_vocab.csv").open(encoding="utf-8") as file:
        rows = {row["id"]: row["text"] for row in csv.DictReader(file)}
    with pytest.raises(UnspeakableError, match="characters not in the vocabulary: 4 8 1 5 2"):
        prepare(make_checkpoint(), [rows["d1"]])
    (spelled,) = prepare(make_checkpoint(), [rows["d2"]])
    assert spelled.size == 2 * len(rows["d2"].rstrip(".")) + 1


def test_letters_are_found_in_other_forms(make_checkpoint: MakeCheckpoint) -> None:
    folder = make_checkpoint()
    plain, capital, curly = prepare(folder, ["don't", "DON'T!", "don\u2019t."])
    assert plain.data.sentences == capital.data.sentences == curly.data.sentences
    with pytest.raises(UnspeakableError, match="é"):
        prepare(folder, ["café"])
    for text in ("", "?!", "' -"):
        with pytest.raises(UnspeakableError, match="nothing to speak"):
            prepare(folder, [text])


def test_korean_is_spoken_composed_or_not(make_checkpoint: MakeCheckpoint) -> None:
    folder = make_checkpoint(HANGUL, language="kor")
    with (CASES / "C40_korean_mms.csv").open(encoding="utf-8") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    composed = prepare(folder, texts)
    apart = prepare(folder, [unicodedata.normalize("NFD", text) for text in texts])
    assert [f.data for f in composed] == [f.data for f in apart]
    assert composed[1].size == 2 * len("감사합니다") + 1
    waves = [a.wave for a in adapter.load(str(folder), "cpu", "fp32").synthesize(composed)]
    assert all(wave.std() > 0.01 for wave in waves)
    with pytest.raises(UnspeakableError, match="3 시"):
        prepare(folder, ["3시"])
    assert adapter.voice(str(folder)).languages == ("kor",)


def test_a_vocabulary_of_jamo_reads_syllables(make_checkpoint: MakeCheckpoint) -> None:
    folder = make_checkpoint("_" + unicodedata.normalize("NFD", "한글"))
    (features,) = prepare(folder, ["한글"])
    assert features.size == 2 * 6 + 1


def test_romanised_voices_need_uroman(
    make_checkpoint: MakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Raw Hangul in a Latin vocabulary was discarded letter by letter: fairseq issue 5125."""
    pytest.importorskip("uroman")
    folder = changed(make_checkpoint(), tmp_path, "tokenizer_config.json", is_uroman=True)
    korean, latin = prepare(folder, ["감사합니다.", "gamsahabnida"])
    assert korean.data.sentences == latin.data.sentences
    assert "romanised" in adapter.voice(str(folder)).description
    monkeypatch.setattr(
        "batchtts.models.transformers_vits.checkpoint.find_spec", lambda _name: None
    )
    with pytest.raises(MissingExtraError, match=r"pip install 'batchtts\[transformers\]'"):
        adapter.voice(str(folder))


@pytest.mark.parametrize(
    ("card", "folder_name", "expected", "non_commercial"),
    [
        ("---\nlicense: cc-by-nc-4.0\n---\n", "a", "cc-by-nc-4.0", True),
        ("---\nlicense: apache-2.0\n---\n", "mms-tts-kor", "apache-2.0", False),
        ("", "mms-tts-kor", "CC-BY-NC-4.0", True),
        ("", "other", "unknown", False),
    ],
)
def test_the_licence_is_on_the_card(
    card: str,
    folder_name: str,
    expected: str,
    non_commercial: bool,
    make_checkpoint: MakeCheckpoint,
    tmp_path: Path,
) -> None:
    folder = changed(make_checkpoint(), tmp_path / folder_name, "config.json")
    if card:
        (folder / "README.md").write_text(card)
    info = adapter.voice(str(folder))
    assert (info.license, info.non_commercial) == (expected, non_commercial)


def test_what_is_not_on_this_machine_is_not_fetched() -> None:
    with pytest.raises(VoiceError, match="hf download facebook/mms-tts-kor"):
        adapter.voice("facebook/mms-tts-kor")


def test_a_checkpoint_is_found_by_name(
    make_checkpoint: MakeCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed(make_checkpoint(), tmp_path / "ours", "config.json")
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    monkeypatch.setenv("BATCHTTS_VOICES", str(tmp_path))
    assert [info.name for info in adapter.voices().values()] == ["ours"]
    assert adapter.voice("ours").sample_rate == 16000


@pytest.mark.parametrize(
    ("file", "changes", "complaint"),
    [
        ("config.json", {"model_type": "bert"}, "model_type is bert, batchtts speaks only vits"),
        ("config.json", {"use_stochastic_duration_prediction": False}, "use_stochastic"),
        ("config.json", {"upsample_kernel_sizes": [15, 8]}, "upsample_kernel_sizes"),
        ("tokenizer_config.json", {"phonemize": True}, "wants phonemes"),
    ],
)
def test_other_checkpoints_are_refused(
    file: str,
    changes: dict[str, Any],
    complaint: str,
    make_checkpoint: MakeCheckpoint,
    tmp_path: Path,
) -> None:
    folder = changed(make_checkpoint(), tmp_path, file, **changes)
    with pytest.raises(VoiceError, match=complaint):
        adapter.voice(str(folder))


def test_missing_and_broken_files_are_named(
    make_checkpoint: MakeCheckpoint, tmp_path: Path
) -> None:
    folder = changed(make_checkpoint(), tmp_path, "config.json")
    (folder / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(VoiceError, match=r"model\.safetensors: cannot be read"):
        adapter.load(str(folder), "cpu", "fp32")
    (folder / "model.safetensors").unlink()
    with pytest.raises(VoiceError, match=r"not a VITS checkpoint: model\.safetensors missing"):
        adapter.voice(str(folder))
    (folder / "model.safetensors").touch()
    (folder / "vocab.json").write_text("{")
    with pytest.raises(VoiceError, match="not a VITS checkpoint"):
        adapter.voice(str(folder))


def test_speakers_are_numbered(make_checkpoint: MakeCheckpoint) -> None:
    folder = make_checkpoint(speakers=3)
    first, last = prepare(folder, ["yes"], speaker=0)[0], prepare(folder, ["yes"], speaker="2")[0]
    waves = [a.wave for a in adapter.load(str(folder), "cpu", "fp32").synthesize([first, last])]
    assert len(waves[0]) != len(waves[1]) or np.abs(waves[0] - waves[1]).max() > 1e-3
    with pytest.raises(VoiceError, match="no speaker 3; there are: 0 to 2"):
        prepare(folder, ["yes"], speaker=3)


def test_a_front_end_can_be_sent_to_another_process(make_checkpoint: MakeCheckpoint) -> None:
    frontend = adapter.frontend(str(make_checkpoint()))
    assert pickle.loads(pickle.dumps(frontend)) == frontend
