"""Exact ternary: the intervals of each row that are still to be searched, the narrowest on top."""

import triton
import triton.language as tl

DEPTH = tl.constexpr(8)  # intervals that can wait in a row
JOINED = tl.constexpr(4)  # suspicious bins this close together wait as one


@triton.jit
def topmost_interval(row, depth, lows, highs, LOG_BINS: tl.constexpr):
    """The bits at which the topmost interval begins and ends, and the width of bins for it.

    It begins at a multiple of that width, maybe a little below what was pushed.
    """
    at = row * DEPTH + depth - 1
    low = tl.load(lows + at, cache_modifier=".cg")
    high = tl.load(highs + at, cache_modifier=".cg")
    shift = low * 0
    for bit in tl.static_range(31 - LOG_BINS):
        shift += (((high - low - 1) >> (LOG_BINS + bit)) > 0).to(tl.int32)
    is_too_long = ((high - 1) >> shift) - (low >> shift) >= (1 << LOG_BINS)
    shift += is_too_long.to(tl.int32)
    return (low >> shift) << shift, high, shift


@triton.jit
def push_suspects(
    row, is_suspect, low, high, above, above_count, depth,
    depths, lows, highs, above_totals, above_counts, LOG_BINS: tl.constexpr,
):  # fmt: skip
    """Puts suspicious bins on top: all at once if they are close, else the lowest above the rest.

    Either way what is on top is narrower than what it came from: the search ends.
    """
    k = tl.arange(0, 1 << LOG_BINS)
    none = 1 << LOG_BINS
    first = tl.min(tl.where(is_suspect, k, none), 0)
    second = tl.min(tl.where(is_suspect & (k > first), k, none), 0)
    last = tl.max(tl.where(is_suspect, k, -1), 0)
    is_split = tl.where(last - first >= JOINED, 1, 0)
    tl.debug_barrier()  # what is replaced below has been read
    at = row * DEPTH + depth + 0 * low
    tl.store(lows + at, low, mask=k == tl.where(is_split == 1, second, first))
    tl.store(highs + at, high, mask=k == last)
    tl.store(above_totals + at, above, mask=k == last)
    tl.store(above_counts + at, above_count, mask=k == last)
    alone = k == tl.where(is_split == 1, first, none)
    tl.store(lows + at + 1, low, mask=alone)
    tl.store(highs + at + 1, high, mask=alone)
    tl.store(above_totals + at + 1, above, mask=alone)
    tl.store(above_counts + at + 1, above_count, mask=alone)
    tl.store(depths + row, tl.where(last >= 0, depth + 1 + is_split, depth))
