"""What the kernels share: finding a chunk, reading it, and knowing that a row is complete."""

import triton
import triton.language as tl

MAGNITUDE_BITS = tl.constexpr(0x7FFFFFFF)  # all bits of a float32 but its sign
INFINITY_BITS = tl.constexpr(0x7F800000)


@triton.jit
def chunk_of_program(BACKWARDS: tl.constexpr):
    """Which chunk a program works on.

    Launches go over the weights forwards and backwards in turn: each begins with what the one
    before has left in the cache.
    """
    program = tl.program_id(0)
    return tl.num_programs(0) - 1 - program if BACKWARDS else program


@triton.jit
def row_address(table, row, ALIGNED: tl.constexpr):
    """The address of a row's first weight."""
    address = tl.load(table + row).to(tl.pointer_type(tl.float32))
    return tl.multiple_of(address, 16) if ALIGNED else address


@triton.jit
def row_length(lengths, row, ALIGNED: tl.constexpr):
    """The number of weights in a row."""
    length = tl.load(lengths + row)
    return tl.multiple_of(length, 4) if ALIGNED else length


@triton.jit
def magnitude_bits(weights):
    """|w| as integers: they are ordered as the magnitudes are, and compare exactly."""
    return weights.to(tl.int32, bitcast=True) & MAGNITUDE_BITS


@triton.jit
def as_magnitudes(bits):
    """The magnitudes with these bits."""
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def as_float64(bits):
    """The same in float64, where sums of equal float32 numbers are exact."""
    return as_magnitudes(bits).to(tl.float64)


@triton.jit
def bits_not_below(x):
    """The bits of the smallest float32 >= x, a float64 >= 0; at least those of the smallest > 0."""
    rounded = x.to(tl.float32)
    bits = rounded.to(tl.int32, bitcast=True)
    bits = tl.where(rounded.to(tl.float64) < x, bits + 1, bits)
    return tl.maximum(bits, 1)


@triton.jit
def bits_above(x):
    """The bits of the smallest float32 > x, a float64 >= 0."""
    rounded = x.to(tl.float32)
    bits = rounded.to(tl.int32, bitcast=True)
    return tl.where(rounded.to(tl.float64) <= x, bits + 1, bits)


@triton.jit
def is_last_of_row(arrived, row, num_chunks):
    """Whether all chunks of the row have come here; the last one finishes the row's work.

    It adds up what the others stored in the order of the chunks, so that the sum does not depend
    on who came last. The counter is left at zero for the next launch.
    """
    tl.debug_barrier()  # all threads of this program have stored their part
    before = tl.atomic_add(arrived + row, 1, sem="acq_rel")
    if before == num_chunks - 1:
        tl.store(arrived + row, 0)
    return before == num_chunks - 1
