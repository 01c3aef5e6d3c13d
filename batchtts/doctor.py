"""`batchtts doctor`: what this machine has and what it lacks."""

import importlib.util
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from batchtts import devices, host, models, probe_cache
from batchtts.errors import BatchttsError

EXTRAS = {
    "asr": ("faster_whisper", "hear what was spoken: batchtts verify --asr"),
    "monitor": ("pynvml", "load, memory and power of GPUs beside a run"),
    "parquet": ("pyarrow", "export to parquet"),
    "piper": ("piper", "Piper voices that need espeak-ng"),
    "qc": ("onnxruntime", "score how it sounds: batchtts verify --mos"),
    "ray": ("ray", "workers on a cluster: --pool ray"),
    "remote": ("obstore", "output to s3://, gs://, az://"),
    "transformers": ("transformers", "VITS voices from Hugging Face"),
    "xlsx": ("python_calamine", "spreadsheets as input"),
}
"""Extra -> (module that shows it is installed, what it is for)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the examination."""

    name: str
    state: str
    """"ok", "missing" (something works without it) or "broken"."""
    text: str


def examine(voice: str) -> Iterator[Finding]:
    """Look at everything that a run of this voice needs."""
    yield Finding("batchtts", "ok", f"{version('batchtts')}, Python {platform.python_version()}")
    cpu = f"{host.cpu_name()}, {host.cores()} cores, {host.available_memory() / 2**30:.1f} GiB free"
    yield Finding("host", "ok", cpu)
    yield _torch()
    yield from _devices()
    yield _voice(voice)
    yield _cache()
    for extra, (module, purpose) in EXTRAS.items():
        found = importlib.util.find_spec(module) is not None
        text = purpose if found else f"{purpose}: pip install 'batchtts[{extra}]'"
        yield Finding(f"extra {extra}", "ok" if found else "missing", text)


def _torch() -> Finding:
    try:
        return Finding("torch", "ok", version("torch"))
    except PackageNotFoundError:
        return Finding("torch", "broken", "not installed: pip install torch")


def _devices() -> Iterator[Finding]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        yield Finding("CUDA_VISIBLE_DEVICES", "ok", repr(visible))
    try:
        for slot in devices.slots("auto"):
            yield Finding("device", "ok", f"{slot.label}, {slot.threads} CPU threads")
    except BatchttsError as error:
        yield Finding("device", "broken", str(error))


def _voice(voice: str) -> Finding:
    try:
        family, name = models.split(voice)
        adapter = models.adapter(family)
        info = adapter.voice(name)
        device = devices.slots("auto")[0].device
        precisions = ", ".join(adapter.precisions(device))
    except BatchttsError as error:
        return Finding("voice", "broken", str(error))
    text = f"{family}:{name}, {info.sample_rate} Hz, {info.license}; precisions here: {precisions}"
    return Finding("voice", "ok", text)


def _cache() -> Finding:
    folder = probe_cache.default_folder()
    if folder is None:
        return Finding("cache", "missing", "no folder can be written: each run measures anew")
    free = shutil.disk_usage(_existing(folder)).free / 2**30
    return Finding("cache", "ok", f"{folder}, {free:.1f} GiB free")


def _existing(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.parents) if parent.exists())
