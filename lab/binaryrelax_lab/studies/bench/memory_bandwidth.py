"""How fast a CUDA device reads its memory."""

import torch
import triton
import triton.language as tl

from binaryrelax_lab.studies.bench.timing import graph_time

READ_BYTES = 1 << 30
CHUNK, TILE = 1 << 15, 1 << 12  # numbers of four bytes, of a program and of one turn of its loop


@triton.jit
def add_up(numbers, sums, CHUNK: tl.constexpr, TILE: tl.constexpr):
    """The sum of each chunk: all is read, next to nothing is written."""
    total = tl.zeros([TILE], tl.int32)
    for start in tl.static_range(0, CHUNK, TILE):
        at = tl.program_id(0) * CHUNK + start + tl.arange(0, TILE)
        total += tl.load(numbers + at)
    tl.store(sums + tl.program_id(0), tl.sum(total, 0))


def measure_reading() -> float:
    """Bytes per second that a plain sum reads from the CUDA device's memory."""
    numbers = torch.randint(0, 100, (READ_BYTES // 4,), dtype=torch.int32, device="cuda")
    num_chunks = numbers.numel() // CHUNK
    sums = torch.empty(num_chunks, dtype=torch.int32, device="cuda")

    def read() -> None:
        add_up[(num_chunks,)](numbers, sums, CHUNK=CHUNK, TILE=TILE, num_warps=8)

    milliseconds = graph_time(read)
    assert int(sums.sum()) == int(numbers.sum())
    return READ_BYTES / (milliseconds / 1000)
