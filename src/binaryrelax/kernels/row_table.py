"""Many weights seen as one list of rows, cut into chunks: what a single launch works on.

A row is a run of memory that shares one scale: a whole layer, or one output channel. Kernels find
rows through a table of addresses, so that all layers of a network take part in each launch.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from binaryrelax.quantizers import Granularity

SMALLEST_CHUNK = 4096  # weights: one tile of the kernels, so that none reaches into the next chunk
LARGEST_CHUNK = 1 << 16
LONGEST_ROW = (1 << 31) - LARGEST_CHUNK  # weights: the end of its last chunk still fits into int32
TARGET_CHUNKS = 2112  # sixteen programs for each multiprocessor of a large GPU
VECTOR = 4  # float32 numbers in the widest load, 16 bytes


@dataclass(frozen=True)
class Pair:
    """The float weights y and the place x for the relaxed ones; same shape and memory layout."""

    x: Tensor
    y: Tensor
    granularity: Granularity

    @property
    def num_rows(self) -> int:
        """How many scales the weight has."""
        return 1 if self.granularity.is_one_scale else self.y.shape[0]

    @property
    def row_length(self) -> int:
        """Weights that share a scale."""
        return self.y.numel() // self.num_rows


def has_row_layout(x: Tensor, y: Tensor, granularity: Granularity) -> bool:
    """Whether each row is a run of memory, the same for x and y.

    True for dense weights, channels_last ones too: permuting the inner dimensions does not move
    a weight out of its output channel.
    """
    alike = x.device == y.device and x.shape == y.shape and x.stride() == y.stride()
    if y.numel() == 0 or not alike or not _is_dense(y):
        return False
    if granularity.is_one_scale:
        return y.numel() <= LONGEST_ROW
    is_per_channel = granularity.is_constant_in_rows and granularity.is_within_rows
    outermost = y.dim() > 0 and y.stride(0) * y.shape[0] == y.numel()
    return is_per_channel and outermost and y.stride(0) <= LONGEST_ROW


class RowTable:
    """Addresses, lengths and chunks of all rows, on the device.

    Args:
        pairs: the weights.
        places: a number for each weight, which its rows are known by.
    """

    def __init__(self, pairs: list[Pair], places: list[int]) -> None:
        self.pairs = pairs
        self.device = pairs[0].y.device
        self.addresses = _addresses(pairs)
        starts = [(pair, 4 * pair.row_length * i) for pair in pairs for i in range(pair.num_rows)]
        y_rows = [pair.y.data_ptr() + offset for pair, offset in starts]
        x_rows = [pair.x.data_ptr() + offset for pair, offset in starts]
        lengths = [pair.row_length for pair, _ in starts]
        self.chunk_size = _chunk_size(sum(lengths))
        counts = [-(-length // self.chunk_size) for length in lengths]
        self.lengths = lengths
        self.num_rows, self.num_chunks = len(lengths), sum(counts)
        self.is_aligned = all(
            address % 16 == 0 and length % VECTOR == 0
            for address, length in zip(y_rows + x_rows, lengths * 2, strict=True)
        )
        self.y = self._upload(y_rows, torch.int64)
        self.x = self._upload(x_rows, torch.int64)
        self.length = self._upload(lengths, torch.int32)
        self.first_chunk = self._upload(list(itertools.accumulate(counts, initial=0)), torch.int32)
        row_of_chunk = [row for row, count in enumerate(counts) for _ in range(count)]
        self.row_of_chunk = self._upload(row_of_chunk, torch.int32)
        place_of_row = [
            place for pair, place in zip(pairs, places, strict=True) for _ in range(pair.num_rows)
        ]
        self.place_of_row = self._upload(place_of_row, torch.int32)
        self.arrived = self.zeros(self.num_rows, torch.int32)  # chunks that have come to a meeting

    @property
    def table(self) -> tuple[Tensor, ...]:
        """What every kernel begins with."""
        return (self.y, self.length, self.first_chunk, self.row_of_chunk)

    @property
    def constants(self) -> dict[str, int | bool]:
        """What every kernel is compiled for."""
        return {"CHUNK": self.chunk_size, "ALIGNED": self.is_aligned}

    def zeros(self, size: int, dtype: torch.dtype) -> Tensor:
        """Memory on the device."""
        return torch.zeros(size, dtype=dtype, device=self.device)

    def is_current(self) -> bool:
        """Whether the weights still lie where they lay."""
        return _addresses(self.pairs) == self.addresses

    def _upload(self, values: list[int], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=self.device)


def _is_dense(tensor: Tensor) -> bool:
    """Whether the elements fill a run of memory without gaps or overlaps."""
    expected = 1
    sizes = sorted(zip(tensor.stride(), tensor.shape, strict=True))
    for stride, size in sizes:
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def _addresses(pairs: list[Pair]) -> list[int]:
    return [address for pair in pairs for address in (pair.x.data_ptr(), pair.y.data_ptr())]


def _chunk_size(num_weights: int) -> int:
    """A power of two that gives each multiprocessor a few chunks."""
    wanted = 1 << max(0, num_weights // TARGET_CHUNKS - 1).bit_length()
    return min(max(wanted, SMALLEST_CHUNK), LARGEST_CHUNK)
