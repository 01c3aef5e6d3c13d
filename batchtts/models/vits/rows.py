"""A batch as one row of vectors: items end to end with zero rows between them, no padding."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from batchtts.models.transfer import upload


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the items of a batch stand in a row [num_rows, channels].

    The gap is as wide as the widest convolution reaches, so that an item sees the same zeros
    around it as it does alone. Whatever writes into the gaps must be followed by `clear`.
    """

    lengths: NDArray[np.int64]
    """Vectors of each item, [num_items]; each at least 1."""
    starts: NDArray[np.int64]
    """First vector of each item, [num_items]."""
    count: int
    """All vectors, those of the gaps included."""
    inside: torch.Tensor
    """Index of every vector that belongs to an item, int64 [sum of lengths]."""
    outside: torch.Tensor
    """Index of every vector of a gap, int64."""
    owner: torch.Tensor
    """Item of each vector, int64 [count]; a gap belongs to the item before it."""

    def clear(self, x: torch.Tensor) -> torch.Tensor:
        """Zero the gaps of x [count, channels] in place."""
        return x.index_fill_(0, self.outside, 0.0)

    def spread(self, x: torch.Tensor) -> torch.Tensor:
        """Lay the vectors of all items [sum of lengths, channels] out, zeros in the gaps."""
        out = x.new_zeros(self.count, *x.shape[1:])
        return out.index_copy_(0, self.inside, x)


def make_rows(lengths: Sequence[int] | NDArray[np.int64], gap: int, device: torch.device) -> Rows:
    """Lay items of these lengths end to end, `gap` zero vectors between two of them."""
    sizes = np.asarray(lengths, dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes + gap)[:-1]])
    count = int(starts[-1] + sizes[-1])
    owner = np.repeat(np.arange(len(sizes)), sizes + gap)[:count]
    is_inside = np.arange(count) - starts[owner] < sizes[owner]
    return Rows(
        lengths=sizes,
        starts=starts,
        count=count,
        inside=upload(np.flatnonzero(is_inside), device),
        outside=upload(np.flatnonzero(~is_inside), device),
        owner=upload(owner, device),
    )
