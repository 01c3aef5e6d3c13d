"""What measured and what it can do: names, versions, and the rate of matrix products.

    python -m tests.bench.machine

prints the rates of one thread as JSON; `rates` runs it alone, and once on every core at a time.
"""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any

from batchtts import host

PACKAGES = ("batchtts", "torch", "numpy", "hibari-tts", "piper-tts", "onnxruntime", "scipy")
LARGE = (2048, 2048, 2048)
MODEL = (1024, 256, 1024)
"""Rows, inputs, outputs: a decoder block of the default voice."""
SECONDS = 0.6
"""How long each product is repeated."""


def facts(command: list[str]) -> dict[str, Any]:
    """Machine, versions, commit and command."""
    return {
        "cpu": host.cpu_name(),
        "cores": host.cores(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "commit": _commit(),
        "command": " ".join(command),
        "started": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "load_before": round(os.getloadavg()[0], 1),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", "batchtts")
    return f"{git('rev-parse', '--short', 'HEAD') or 'unknown'}{' + changes' if changed else ''}"


def rates() -> dict[str, Any]:
    """Rates of one core alone, and the mean of a core while all of them work."""
    (alone,) = _measure(1)
    together = _measure(host.cores())
    return {
        "alone": alone,
        "all_cores": {kind: _mean([rate[kind] for rate in together]) for kind in alone},
    }


def _mean(found: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(rate[name] for rate in found) / len(found) for name in found[0]}


def _measure(processes: int) -> list[dict[str, dict[str, float]]]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.bench.machine"]
    env = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    started = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE) for _ in range(processes)]
    return [json.loads(process.communicate()[0]) for process in started]


def measured_rates() -> dict[str, dict[str, float]]:
    """Number type -> "large" and "model": 1e9 operations per second, an addition counts as one."""
    import torch

    torch.set_num_threads(1)
    found: dict[str, dict[str, float]] = {}
    for kind, product in _products().items():
        found[kind] = {}
        for name, shape in (("large", LARGE), ("model", MODEL)):
            rows, inputs, outputs = shape
            with torch.inference_mode():
                seconds = _seconds(product(rows, inputs, outputs))
            found[kind][name] = 2e-9 * rows * inputs * outputs / seconds
    return found


def _products() -> dict[str, Callable[[int, int, int], Callable[[], object]]]:
    """Number type -> makes a product of a shape."""
    import torch
    from torch.nn import functional

    def plain(dtype: torch.dtype) -> Callable[[int, int, int], Callable[[], object]]:
        def make(rows: int, inputs: int, outputs: int) -> Callable[[], object]:
            x = torch.randn(rows, inputs).to(dtype)
            weight = torch.randn(outputs, inputs).to(dtype)
            return lambda: functional.linear(x, weight)

        return make

    def int8(rows: int, inputs: int, outputs: int) -> Callable[[], object]:
        torch.backends.quantized.engine = "onednn"
        weight = torch.quantize_per_tensor(torch.randn(outputs, inputs), 0.05, 0, torch.qint8)
        packed = torch.ops.quantized.linear_prepack(weight, None)
        x = torch.randn(rows, inputs)
        return lambda: torch.ops.quantized.linear_dynamic(x, packed)

    return {"fp32": plain(torch.float32), "bf16": plain(torch.bfloat16), "int8": int8}


def _seconds(product: Callable[[], object]) -> float:
    """Seconds of the core in the median call: waiting for others on the machine does not count."""
    for _ in range(3):
        product()
    taken: list[float] = []
    while len(taken) < 5 or sum(taken) < SECONDS:
        started = time.process_time()
        product()
        taken.append(time.process_time() - started)
    return median(taken)


if __name__ == "__main__":
    print(json.dumps(measured_rates()))  # noqa: T201
