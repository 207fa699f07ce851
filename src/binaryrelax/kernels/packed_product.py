"""Products with packed weights, which become numbers only where they are multiplied.

Sixteen bits of a row hold 16 weights of one bit or 8 of two, for inputs that are 32 apart; 32 such
words make a block. Shifted left, the weight to be multiplied stands in the highest bits, where
0x4000 and 0xC000 are 2 and -2 in bfloat16 and float16 alike: half the scale makes them 1 and -1.
"""

import triton
import triton.language as tl

WORDS = tl.constexpr(32)  # of a row in a block
ROWS = tl.constexpr(8)  # that lie together, block by block
UNIT = tl.constexpr(8 * 32)  # words of a block in all of these rows


@triton.jit(do_not_specialize=["once"])
def multiply_few(
    words, x, y, scale, bias, batch, outputs, inputs, num_blocks, row_stride, once,
    BITS: tl.constexpr, TILES: tl.constexpr, COLUMNS: tl.constexpr, WARPS: tl.constexpr,
    AHEAD: tl.constexpr, SPAN: tl.constexpr, LOOPED: tl.constexpr, WHOLE: tl.constexpr,
    ROW_SCALES: tl.constexpr, BIASED: tl.constexpr, EARLY: tl.constexpr, COMPILED: tl.constexpr,
):  # fmt: skip
    """y = scale * W x + bias for up to COLUMNS vectors x; a program makes 16 * TILES outputs.

    Each warp multiplies 512 inputs of every WARPS * 512; the sums are added in a fixed order.
    Threads load what they multiply themselves, words and activations alike: the order of the
    inputs inside a block is chosen so that nothing has to be exchanged between them.
    """
    tile = tl.program_id(0) * TILES
    row = tile * 16 + tl.arange(0, 16 * TILES)
    # Zero; but it brings the scale into the cache, which else would be waited for at the end.
    zero = tl.load(scale + (tile * 16 if ROW_SCALES else 0)) * 0.0
    total = tl.zeros([WARPS, 16 * TILES, COLUMNS], tl.float32) + zero
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
    if LOOPED:
        if EARLY:
            tl.extra.cuda.gdc_wait()
        for first in range(0, num_blocks, SPAN * WARPS * BITS):
            taken = _load_words(
                words, tile, first, outputs, num_blocks, BITS, TILES, WARPS, SPAN, WHOLE
            )
            total = _add_products(
                total, taken, x, first, batch, inputs, row_stride, once,
                BITS, TILES, COLUMNS, WARPS, AHEAD, SPAN, WHOLE, COMPILED,
            )  # fmt: skip
    else:
        taken = _load_words(words, tile, 0, outputs, num_blocks, BITS, TILES, WARPS, SPAN, WHOLE)
        if EARLY:  # the kernel before may still be writing x, but it does not write weights
            tl.extra.cuda.gdc_wait()
        total = _add_products(
            total, taken, x, 0, batch, inputs, row_stride, once,
            BITS, TILES, COLUMNS, WARPS, AHEAD, SPAN, WHOLE, COMPILED,
        )  # fmt: skip
    factor, offset = _load_scale(scale, bias, row, outputs, ROW_SCALES, BIASED)
    address = y + tl.arange(0, COLUMNS)[None, :] * outputs + row[:, None]
    mask = (tl.arange(0, COLUMNS)[None, :] < batch) & (row[:, None] < outputs)
    result = tl.sum(total, 0) * factor + offset
    tl.store(address, result.to(y.dtype.element_ty), mask=mask)


@triton.jit
def _load_words(
    words, tile, first, outputs, num_blocks, BITS: tl.constexpr, TILES: tl.constexpr,
    WARPS: tl.constexpr, SPAN: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """SPAN times BITS blocks for each warp, of 16 * TILES rows.

    The second dimension runs over all threads and what each loads, in the order of memory. The
    last rows stand in for those that would come after them.
    """
    rest = tl.arange(0, 2 * TILES * BITS)[:, None]
    at = tl.arange(0, WARPS * UNIT)[None, :]
    rows = tl.minimum(tile * 2 + rest // BITS, (outputs + ROWS - 1) // ROWS - 1)
    taken = ()
    for step in tl.static_range(SPAN):
        block = first + (step * BITS + rest % BITS) * WARPS
        address = words + (rows * num_blocks + block) * UNIT + at
        if WHOLE:
            loaded = tl.load(address)
        else:
            loaded = tl.load(address, mask=block + at // UNIT < num_blocks, other=0)
        taken = taken + (loaded,)  # type: ignore[assignment]  # noqa: RUF005
    return taken


@triton.jit
def _add_products(
    total, taken, x, first, batch, inputs, row_stride, once,
    BITS: tl.constexpr, TILES: tl.constexpr, COLUMNS: tl.constexpr, WARPS: tl.constexpr,
    AHEAD: tl.constexpr, SPAN: tl.constexpr, WHOLE: tl.constexpr, COMPILED: tl.constexpr,
):  # fmt: skip
    """The total and the products of all words that were taken."""
    GROUPS: tl.constexpr = 16 // BITS // AHEAD
    vectors = _load_vectors(
        x, 0, first, batch, inputs, row_stride, BITS, COLUMNS, WARPS, AHEAD, WHOLE
    )
    for group in tl.static_range(SPAN * GROUPS):
        following = vectors
        if group + 1 < SPAN * GROUPS:
            following = _load_vectors(
                x, (group + 1) % GROUPS * AHEAD,
                first + (group + 1) // GROUPS * (WARPS * BITS),
                batch, inputs, row_stride, BITS, COLUMNS, WARPS, AHEAD, WHOLE,
            )  # fmt: skip
        # A loop of one turn, which the compiler cannot know: else it would put each load right
        # before its use. Words that the turn may change, by zero, are not expanded before the loop.
        for turn in range(once):
            now = _flip(taken[group // GROUPS], turn, COMPILED)
            for i in tl.static_range(AHEAD):
                weights = _expand(
                    now, group % GROUPS * AHEAD + i, x.dtype.element_ty, BITS, COMPILED
                )
                weights = tl.reshape(weights, [TILES, 2, BITS, WARPS, ROWS, 4, 2, 2, 2])
                weights = tl.permute(weights, [3, 0, 1, 4, 2, 6, 7, 5, 8])
                weights = tl.reshape(weights, [WARPS, 16 * TILES, BITS * WORDS])
                total = _add_dot(total, weights, vectors[i], COMPILED)
        vectors = following
    return total


@triton.jit
def _load_vectors(
    x, position, first, batch, inputs, row_stride,
    BITS: tl.constexpr, COLUMNS: tl.constexpr, WARPS: tl.constexpr, COUNT: tl.constexpr,
    WHOLE: tl.constexpr,
):  # fmt: skip
    """The activations that COUNT positions of the words are multiplied by, from ``position`` on.

    The last vector stands in for those that would come after it.
    """
    OCTETS: tl.constexpr = COLUMNS // 8
    rest = tl.arange(0, BITS * OCTETS)[:, None]
    at = tl.arange(0, WARPS * UNIT)[None, :]
    column = tl.minimum(rest % OCTETS * 8 + at // WORDS % 8, batch - 1)
    block = first + rest // OCTETS * WARPS + at // UNIT
    k = block * (WORDS * 16 // BITS) + position * WORDS + at % WORDS
    vectors = ()
    for i in tl.static_range(COUNT):
        address = x + column * row_stride + k + i * WORDS
        if WHOLE:
            loaded = tl.load(address)
        else:
            loaded = tl.load(address, mask=k + i * WORDS < inputs, other=0.0)
        loaded = tl.reshape(loaded, [BITS, OCTETS, WARPS, 8, 4, 2, 2, 2])
        loaded = tl.permute(loaded, [2, 0, 5, 6, 4, 7, 1, 3])
        loaded = tl.reshape(loaded, [WARPS, BITS * WORDS, COLUMNS])
        vectors = vectors + (loaded,)  # type: ignore[assignment]  # noqa: RUF005
    return vectors


@triton.jit
def _flip(words, bits, COMPILED: tl.constexpr):
    """The words with these bits flipped; compiled, two words at once."""
    bits = tl.full([1, 1], bits, tl.int16)
    if COMPILED:
        return tl.inline_asm_elementwise(
            "xor.b32 $0, $1, $2;", "=r,r,r", [words, bits], dtype=tl.int16, is_pure=True, pack=2
        )
    return words ^ bits


@triton.jit
def _shift_right(words, count, COMPILED: tl.constexpr):
    """The words with their bits from ``count`` on at the bottom; what comes in on top is undefined.

    Compiled, two words are shifted at once, by the low bits of a count that stands there twice.
    """
    count = tl.full([1, 1], count, tl.int16)
    if COMPILED:
        return tl.inline_asm_elementwise(
            "shf.r.wrap.b32 $0, $1, 0, $2;",
            "=r,r,r", [words, count], dtype=tl.int16, is_pure=True, pack=2,
        )  # fmt: skip
    return words >> count


@triton.jit
def _expand(words, position, dtype: tl.constexpr, BITS: tl.constexpr, COMPILED: tl.constexpr):
    """The weights at a position of the words, times two."""
    SHIFT: tl.constexpr = 16 - BITS - BITS * position
    KEPT: tl.constexpr = 0x8000 if BITS == 1 else 0xC000
    FLIPPED: tl.constexpr = 0xC000 if BITS == 1 else 0
    if COMPILED:  # two words at once, which the compiler would take one by one
        found = tl.inline_asm_elementwise(
            f"""{{
            .reg .b32 t;
            shl.b32 t, $1, {SHIFT};
            lop3.b32 $0, t, {KEPT * 0x10001}, {FLIPPED * 0x10001}, 0x6A;  // (t & KEPT) ^ FLIPPED
            }}""",
            "=r,r", [words], dtype=tl.int16, is_pure=True, pack=2,
        )  # fmt: skip
    else:
        found = (((words.to(tl.int32) << SHIFT) & KEPT) ^ FLIPPED).to(tl.int16)
    return found.to(dtype, bitcast=True)


@triton.jit
def _add_dot(total, weights, vectors, COMPILED: tl.constexpr):
    """Total + weights @ vectors; the interpreter takes bfloat16 for integers."""
    if COMPILED:
        return tl.dot(weights, vectors, total)
    return tl.dot(weights.to(tl.float32), vectors.to(tl.float32), total)


@triton.jit
def _load_scale(scale, bias, row, outputs, ROW_SCALES: tl.constexpr, BIASED: tl.constexpr):
    """Factor and offset that make outputs of sums; half the scale, for weights that are doubled."""
    inside = row < outputs
    factor, offset = row.to(tl.float32) * 0.0, row.to(tl.float32) * 0.0
    factor += tl.load(scale + row, mask=inside, other=0.0) if ROW_SCALES else tl.load(scale)
    if BIASED:
        offset += tl.load(bias + row, mask=inside, other=0.0).to(tl.float32)
    return (factor * 0.5)[:, None], offset[:, None]


@triton.jit
def multiply_many(
    words, x, y, scale, bias, batch, outputs, inputs, num_blocks, row_stride,
    BITS: tl.constexpr, HEIGHT: tl.constexpr, COLUMNS: tl.constexpr,
    ROW_SCALES: tl.constexpr, BIASED: tl.constexpr, COMPILED: tl.constexpr,
):  # fmt: skip
    """y = scale * W x + bias for many vectors x; a program makes HEIGHT outputs of COLUMNS."""
    QUARTERS: tl.constexpr = 4 // BITS  # of a block, in 1-bit words: 128 inputs at a time
    row = tl.program_id(0) * HEIGHT + tl.arange(0, HEIGHT)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    known = tl.minimum(row, outputs - 1)[:, None]  # the last stand in for those after them
    vector = tl.minimum(column, batch - 1)[None, :].to(tl.int64) * row_stride
    at = (known // ROWS * num_blocks * ROWS + known % ROWS) * WORDS + tl.arange(0, WORDS)[None, :]
    k = tl.arange(0, 4 * WORDS)[:, None]
    total = tl.zeros([HEIGHT, COLUMNS], tl.float32)
    for step in range(num_blocks * QUARTERS):
        taken = tl.load(words + at + step // QUARTERS * UNIT)
        inside = k + step * (4 * WORDS) < inputs
        vectors = tl.load(x + vector + k + step * (4 * WORDS), mask=inside, other=0.0)
        weights = _expand_four(taken, step % QUARTERS, x.dtype.element_ty, BITS, COMPILED)
        weights = tl.reshape(weights, [HEIGHT, 4 * WORDS])
        total = _add_dot(total, weights, vectors, COMPILED)
    factor, offset = _load_scale(scale, bias, row, outputs, ROW_SCALES, BIASED)
    address = y + column[None, :].to(tl.int64) * outputs + row[:, None]
    mask = (column[None, :] < batch) & (row[:, None] < outputs)
    tl.store(address, (total * factor + offset).to(y.dtype.element_ty), mask=mask)


@triton.jit
def _expand_four(words, quarter, dtype: tl.constexpr, BITS: tl.constexpr, COMPILED: tl.constexpr):
    """The weights at four positions, from 4 * ``quarter`` on: rows, positions, words."""
    words = _shift_right(words, quarter * (4 * BITS), COMPILED)
    even = tl.join(
        _expand(words, 0, dtype, BITS, COMPILED), _expand(words, 2, dtype, BITS, COMPILED)
    )
    odd = tl.join(
        _expand(words, 1, dtype, BITS, COMPILED), _expand(words, 3, dtype, BITS, COMPILED)
    )
    return tl.permute(
        tl.reshape(tl.join(even, odd), [words.shape[0], words.shape[1], 4]), [0, 2, 1]
    )
