"""A model taken apart from the outside: seconds and operations of each of its parts.

The parts of a model are the public methods and the callable attributes of the objects that it
holds, such as `network.text` or `signal.pulses`; what is left is the model's own.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

OWN = "layout, noise, copies"
"""What belongs to no part."""
PACKAGE = "batchtts.models"


class Parts:
    """Counts the seconds of the core in each part, the parts inside of it left out."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._inside = [OWN]
        self._since = 0.0

    @property
    def current(self) -> str:
        """The part that works now."""
        return self._inside[-1]

    @contextmanager
    def entered(self, name: str) -> Iterator[None]:
        """Work inside belongs to this part."""
        self._settle()
        self._inside.append(name)
        try:
            yield
        finally:
            self._settle()
            self._inside.pop()

    def _settle(self) -> None:
        now = time.process_time()
        self.seconds[self.current] += now - self._since
        self._since = now

    def begin(self) -> None:
        """Count from here."""
        self.seconds.clear()
        self._since = time.process_time()

    def end(self) -> dict[str, float]:
        """Seconds of each part since `begin`."""
        self._settle()
        return dict(self.seconds)

    def attach(self, model: object) -> None:
        """Have the parts of a model announce themselves."""
        for held in vars(model).values():
            if not type(held).__module__.startswith(PACKAGE) or not hasattr(held, "__dict__"):
                continue
            for name in (*vars(held), *vars(type(held))):
                part = getattr(held, name)
                ours = getattr(part, "__module__", "").startswith(PACKAGE)
                if not name.startswith("_") and callable(part) and ours:
                    setattr(held, name, _Announced(self, name, part))


class _Announced:
    """A part that says when it works, and is otherwise the same."""

    def __init__(self, parts: Parts, name: str, part: Callable[..., Any]) -> None:
        self._parts, self._name, self._part = parts, name, part

    def __call__(self, *args: Any, **options: Any) -> Any:
        with self._parts.entered(self._name):
            return self._part(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


class Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operations of products and convolutions by part and number type, from shapes.

    A multiplication and an addition are two. Element-wise work and Fourier transforms are not
    counted: they are no part of the limit that the products set.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._parts = parts
        self.counted: Counter[tuple[str, str]] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        del types
        result = func(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, (tuple, list)) else result
        if isinstance(first, Tensor):
            namespace, _, name = func._schema.name.partition("::")
            count = _operations(name, args, first)
            if count:
                self.counted[self._parts.current, _kind(namespace, args)] += count
        return result


def _kind(namespace: str, args: Any) -> str:
    """The number type of a product; integer products take in floats too, and round them there."""
    if namespace in ("onednn", "quantized") or args[0].dtype in (torch.int8, torch.uint8):
        return "int8"
    return "bf16" if args[0].dtype == torch.bfloat16 else "fp32"


def _operations(name: str, args: Any, result: Tensor) -> int:
    if "attention" in name:  # scores and their sums: [..., queries, width] each
        return int(4 * result.numel() * args[1].shape[-2])
    if "conv" in name:  # [out, in / groups, *kernel]
        return int(2 * result.numel() * args[1].numel() // args[1].shape[0])
    if "linear" in name and "prepack" not in name:
        return int(2 * result.numel() * args[0].shape[-1])
    if name in ("mm", "bmm", "matmul", "_int_mm", "_scaled_mm"):
        return int(2 * result.numel() * args[0].shape[-1])
    if name in ("addmm", "baddbmm"):
        return int(2 * result.numel() * args[1].shape[-1])
    return 0
