// Winograd's convolution with AVX-512 and VNNI.
#include "avx512_tiles.hpp"

namespace binaryrelax {
namespace avx512 {
namespace {

inline __m512i add(__m512i x, __m512i y) { return _mm512_add_epi16(x, y); }
inline __m512i subtract(__m512i x, __m512i y) { return _mm512_sub_epi16(x, y); }

// Six numbers of 16 bits times B^T.
inline void transform_six(const __m512i (&d)[TILE_FIELD], __m512i (&out)[TILE_FIELD]) {
    const __m512i a = subtract(_mm512_slli_epi16(d[2], 2), d[4]), b = subtract(_mm512_slli_epi16(d[1], 2), d[3]);
    const __m512i c = subtract(d[4], d[2]), e = _mm512_slli_epi16(subtract(d[3], d[1]), 1);
    out[0] = add(c, _mm512_slli_epi16(subtract(d[0], d[2]), 2));
    out[1] = add(a, b);
    out[2] = subtract(a, b);
    out[3] = add(c, e);
    out[4] = subtract(c, e);
    out[5] = subtract(subtract(d[5], d[3]), add(e, e));
}

// Six numbers of each of 64 channels: the even channels, and the odd ones.
struct Numbers {
    __m512i even[TILE_FIELD], odd[TILE_FIELD];

    inline Numbers transformed() const {
        Numbers out;
        transform_six(even, out.even);
        transform_six(odd, out.odd);
        return out;
    }
};

inline void store_bytes(__m512i even, __m512i odd, uint8_t* upper, uint8_t* lower) {
    const __m512i first_bytes = _mm512_set1_epi16(255);
    const auto merged = [&](__m512i x, __m512i y) {  // the first bytes of x, the second ones of y
        return _mm512_ternarylogic_epi64(first_bytes, x, y, 0xca);
    };
    const __m512i above = merged(_mm512_srli_epi16(even, 8), odd);
    _mm512_storeu_si512(upper, _mm512_xor_si512(above, _mm512_set1_epi8(-128)));
    _mm512_storeu_si512(lower, merged(even, _mm512_slli_epi16(odd, 8)));
}

void transform_block(const TileInputJob& job, int64_t channel) {
    const __m512i first_bytes = _mm512_set1_epi16(255);
    Numbers rows[TILE_FIELD];
    for (int column = 0; column < TILE_FIELD; ++column) {
        Numbers d;
        UNROLL for (int row = 0; row < TILE_FIELD; ++row) {
            const __m512i bytes =
                _mm512_loadu_si512(job.pixels + row * job.row_stride + column * job.pixel_stride + channel);
            d.even[row] = _mm512_and_si512(bytes, first_bytes);
            d.odd[row] = _mm512_srli_epi16(bytes, 8);
        }
        const Numbers transformed = d.transformed();
        UNROLL for (int row = 0; row < TILE_FIELD; ++row) {
            rows[row].even[column] = transformed.even[row];
            rows[row].odd[column] = transformed.odd[row];
        }
    }
    for (int row = 0; row < TILE_FIELD; ++row) {
        const Numbers transformed = rows[row].transformed();
        uint8_t* out = job.out + row * TILE_FIELD * job.position_stride + channel / TILE_CHANNELS * TileLayout::BLOCK;
        UNROLL for (int column = 0; column < TILE_FIELD; ++column, out += job.position_stride) {
            store_bytes(transformed.even[column], transformed.odd[column], out, out + TILE_CHANNELS);
        }
    }
}

// A row of G times three vectors of bytes.
template <int ROW>
inline __m512i combine(__m512i g0, __m512i g1, __m512i g2) {
    if constexpr (ROW == 0) return g0;
    if constexpr (ROW == 5) return g2;
    const __m512i twice = _mm512_add_epi8(g2, g2);
    const __m512i outer = _mm512_add_epi8(g0, ROW < 3 ? g2 : _mm512_add_epi8(twice, twice));
    const __m512i inner = ROW < 3 ? g1 : _mm512_add_epi8(g1, g1);
    return ROW % 2 ? _mm512_add_epi8(outer, inner) : _mm512_sub_epi8(outer, inner);
}

// What the products of a row of positions are made with.
struct Row {
    const int8_t* taps;   // [tap][line]; of each: [quad of channels][set][lane][4]
    int64_t line;         // bytes
    int sets;
    int64_t channels;
    int8_t* weights;      // [6][line]; of each the same
    int32_t* starts;      // [6][PANEL]
};

template <int ROW>
void transform_row(const Row& job) {
    const int64_t quad_bytes = job.sets * LANES * 4, quads = job.channels / 4;
    const __m512i ones = _mm512_set1_epi8(1);
    for (int set = 0; set < job.sets; ++set) {
        const int8_t* panel = job.taps + set * LANES * 4;
        __m512i sums[TILE_FIELD];
        UNROLL for (int column = 0; column < TILE_FIELD; ++column) sums[column] = _mm512_setzero_si512();
        for (int64_t quad = 0; quad < quads; ++quad, panel += quad_bytes) {
            __m512i g[3];
            UNROLL for (int column = 0; column < 3; ++column) {
                __m512i taps[3];
                UNROLL for (int row = 0; row < 3; ++row) {
                    taps[row] = _mm512_loadu_si512(panel + (row * 3 + column) * job.line);
                }
                g[column] = combine<ROW>(taps[0], taps[1], taps[2]);
            }
            const __m512i columns[TILE_FIELD] = {combine<0>(g[0], g[1], g[2]), combine<1>(g[0], g[1], g[2]),
                                                 combine<2>(g[0], g[1], g[2]), combine<3>(g[0], g[1], g[2]),
                                                 combine<4>(g[0], g[1], g[2]), combine<5>(g[0], g[1], g[2])};
            int8_t* out = job.weights + quad * quad_bytes + set * LANES * 4;
            UNROLL for (int column = 0; column < TILE_FIELD; ++column, out += job.line) {
                _mm512_storeu_si512(out, columns[column]);
                sums[column] = _mm512_dpbusd_epi32(sums[column], ones, columns[column]);
            }
        }
        UNROLL for (int column = 0; column < TILE_FIELD; ++column) {
            const __m512i start = _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sums[column], 7));
            _mm512_storeu_si512(job.starts + column * PANEL + set * LANES, start);
        }
    }
}

void transform_row(const Row& job, int row) {
    switch (row) {
        case 0: return transform_row<0>(job);
        case 1: return transform_row<1>(job);
        case 2: return transform_row<2>(job);
        case 3: return transform_row<3>(job);
        case 4: return transform_row<4>(job);
        default: return transform_row<5>(job);
    }
}

void keep_weights(const TileWeightJob& job) {
    int8_t* out = reinterpret_cast<int8_t*>(job.out);
    const uint32_t* words = job.words;
    for (int tap = 0; tap < 9; ++tap, words += job.channels * job.bits / 32 * job.sets * LANES) {
        expand(words, job.sets, job.channels / 4, job.bits, out + tap * tile_line(job.channels, job.sets));
    }
}

void multiply_tiles(const TileProductJob& job) {
    const int64_t line = tile_line(job.channels, job.sets);
    int8_t* weights = reinterpret_cast<int8_t*>(job.room);
    int32_t* starts = reinterpret_cast<int32_t*>(job.room + TILE_FIELD * line);
    const Row of_row{reinterpret_cast<const int8_t*>(job.weights), line, job.sets, job.channels, weights, starts};
    for (int row = 0; row < TILE_FIELD; ++row) {
        transform_row(of_row, row);
        for (int column = 0; column < TILE_FIELD; ++column) {
            const int position = row * TILE_FIELD + column;
            run_in_blocks<MultiplyTiles, 2>(PositionJob{
                weights + column * line, job.sets, job.channels, starts + column * PANEL,
                job.tiles + position * job.position_stride, job.group_stride, job.num_tiles,
                job.products + position * job.position_products});
        }
    }
}

inline __m512i add32(__m512i x, __m512i y) { return _mm512_add_epi32(x, y); }
inline __m512i twice(__m512i x) { return add32(x, x); }  // twice as many additions are made at once as shifts
template <int BITS>
inline __m512i shifted(__m512i x) {
    return _mm512_slli_epi32(x, BITS);
}

// 24 A^T times six numbers of 32 bits.
inline void combine_six(const __m512i (&m)[TILE_FIELD], __m512i (&out)[TILE]) {
    const __m512i s = add32(m[1], m[2]), u = _mm512_sub_epi32(m[1], m[2]);
    const __m512i t = add32(m[3], m[4]), v = _mm512_sub_epi32(m[3], m[4]);
    const __m512i twice_u = twice(u), last = add32(m[5], add32(twice(m[5]), v));  // v + 3 m5
    out[0] = add32(twice(add32(m[0], twice(add32(m[0], s)))), t);
    out[1] = twice(add32(twice_u, v));
    out[2] = shifted<2>(add32(s, t));
    out[3] = add32(shifted<3>(last), twice(twice_u));
}

}  // namespace

void transform_input(const TileInputJob& job) {
    for (int64_t channel = 0; channel < job.channels; channel += TILE_CHANNELS) transform_block(job, channel);
}

void transform_output(const TileOutputJob& job) {
    const __m512i inverse_of_9 = _mm512_set1_epi32(0x38e38e39);
    for (int set = 0; set < job.sets; ++set) {
        __m512i rows[TILE][TILE_FIELD];  // [row of outputs][column of positions]
        for (int column = 0; column < TILE_FIELD; ++column) {
            __m512i m[TILE_FIELD], y[TILE];
            UNROLL for (int row = 0; row < TILE_FIELD; ++row) {
                const int64_t position = row * TILE_FIELD + column;
                m[row] = _mm512_loadu_si512(job.products + position * job.position_stride + set * LANES);
            }
            combine_six(m, y);
            UNROLL for (int row = 0; row < TILE; ++row) rows[row][column] = y[row];
        }
        for (int row = 0; row < TILE; ++row) {
            __m512i y[TILE];
            combine_six(rows[row], y);
            UNROLL for (int column = 0; column < TILE; ++column) {
                const __m512i total = _mm512_srai_epi32(_mm512_mullo_epi32(y[column], inverse_of_9), 6);
                _mm512_storeu_si512(job.totals + (row * TILE + column) * PANEL + set * LANES, total);
            }
        }
    }
}

const WinogradKernels WINOGRAD = {9, TILE_FIELD + 1, 60, 1, transform_input, keep_weights, multiply_tiles, transform_output};

}  // namespace avx512
}  // namespace binaryrelax
