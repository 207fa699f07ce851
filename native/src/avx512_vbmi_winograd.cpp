// Winograd's convolution with VBMI: weights are transformed in registers, beside the products that need them.
//
// The three weights of a column of a filter make an index of six bits. One `vpermb` then gives what a row of G makes of
// them, and some additions give the weights at three positions of that row. So few tiles are enough to make up for the
// cost of transformed weights, which are not even written down. Many tiles share them: then it pays to write them.
#include "avx512_tiles.hpp"

namespace binaryrelax {
namespace avx512_vbmi {
namespace {

using namespace avx512;

constexpr int FILTER = 3;                       // taps along an edge
constexpr int AT_ONCE = TILE_FIELD / 2;         // positions of a row
constexpr int FEW_TILES = 8;                    // for which weights are not written down
constexpr int64_t VECTOR = 64;
constexpr int G[TILE_FIELD][FILTER] = {{1, 0, 0}, {1, 1, 1}, {1, -1, 1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 1}};

// What each row of G makes of three codes.
template <int BITS>
struct Columns {
    int8_t of[TILE_FIELD][VECTOR] = {};

    constexpr Columns() {
        for (int row = 0; row < TILE_FIELD; ++row) {
            for (int index = 0; index < VECTOR; ++index) {
                int sum = 0;
                for (int tap = 0; tap < FILTER; ++tap) {
                    const int code = index >> tap * BITS & ((1 << BITS) - 1);
                    sum += G[row][tap] * (BITS == 1 ? 2 * code - 1 : code - 1);
                }
                of[row][index] = static_cast<int8_t>(sum);
            }
        }
    }
};
template <int BITS>
alignas(VECTOR) constexpr Columns<BITS> COLUMNS;

// Indices of all sets, [set][quad][column][lane][4]; then what sums start from, [position][PANEL].
int64_t indices_of_set(int64_t channels) { return channels / 4 * FILTER * VECTOR; }

// The indices of the quads of a word. Codes are added up, where they stand in the index.
template <int BITS>
inline void index_word(const uint32_t* words, int64_t tap_stride, uint8_t* out, __m512i (&sums)[FILTER * FILTER]) {
    for (int column = 0; column < FILTER; ++column, out += VECTOR) {
        __m512i codes[FILTER];
        UNROLL for (int row = 0; row < FILTER; ++row) {
            codes[row] = _mm512_loadu_si512(words + (row * FILTER + column) * tap_stride);
        }
        UNROLL for (int quad = 0; quad < 8 / BITS; ++quad) {
            __m512i index = _mm512_setzero_si512();
            UNROLL for (int row = 0; row < FILTER; ++row) {
                const __m512i mask = _mm512_set1_epi8(static_cast<char>(((1 << BITS) - 1) << row * BITS));
                const __m512i moved = quad > row ? _mm512_srli_epi32(codes[row], (quad - row) * BITS)
                                                 : _mm512_slli_epi32(codes[row], (row - quad) * BITS);
                const __m512i code = _mm512_and_si512(moved, mask);
                index = _mm512_or_si512(index, code);
                sums[row * FILTER + column] = _mm512_add_epi8(sums[row * FILTER + column], code);
            }
            _mm512_storeu_si512(out + quad * FILTER * VECTOR, index);
        }
    }
}

// -128 times G s G^T, s being the sums of the weights of each tap.
void write_starts(const __m512i (&sums)[FILTER * FILTER], int32_t* starts) {
    const auto combined = [](const int (&row)[FILTER], const __m512i* values, int64_t stride) {
        __m512i total = _mm512_setzero_si512();
        for (int i = 0; i < FILTER; ++i) {
            total = _mm512_add_epi32(total, _mm512_mullo_epi32(_mm512_set1_epi32(row[i]), values[i * stride]));
        }
        return total;
    };
    for (int row = 0; row < TILE_FIELD; ++row) {
        __m512i of_row[FILTER];
        for (int column = 0; column < FILTER; ++column) of_row[column] = combined(G[row], sums + column, FILTER);
        for (int column = 0; column < TILE_FIELD; ++column, starts += PANEL) {
            const __m512i sum = combined(G[column], of_row, 1);
            _mm512_storeu_si512(starts, _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32(sum, 7)));
        }
    }
}

template <int BITS>
void keep_bits(const TileWeightJob& job) {
    const int64_t words = job.channels * BITS / 32, line = job.sets * LANES;
    int32_t* starts = reinterpret_cast<int32_t*>(job.out + job.sets * indices_of_set(job.channels));
    for (int set = 0; set < job.sets; ++set) {
        uint8_t* out = job.out + set * indices_of_set(job.channels);
        __m512i totals[FILTER * FILTER];
        for (__m512i& total : totals) total = _mm512_setzero_si512();
        for (int64_t word = 0; word < words; ++word, out += 8 / BITS * FILTER * VECTOR) {
            __m512i sums[FILTER * FILTER];
            for (__m512i& sum : sums) sum = _mm512_setzero_si512();
            index_word<BITS>(job.words + word * line + set * LANES, words * line, out, sums);
            for (int tap = 0; tap < FILTER * FILTER; ++tap) {
                totals[tap] = _mm512_dpbusd_epi32(totals[tap], sums[tap], _mm512_set1_epi8(BITS == 1 ? 2 : 1));
            }
        }
        const __m512i channels = _mm512_set1_epi32(static_cast<int32_t>(job.channels));
        for (int tap = 0; tap < FILTER * FILTER; ++tap) {
            const __m128i place = _mm_cvtsi32_si128(tap / FILTER * BITS);
            totals[tap] = _mm512_sub_epi32(_mm512_srl_epi32(totals[tap], place), channels);
        }
        write_starts(totals, starts + set * LANES);
    }
}

void keep_weights(const TileWeightJob& job) { job.bits == 1 ? keep_bits<1>(job) : keep_bits<2>(job); }

// The first or last three positions of a row of G g G^T, of what that row of G makes of the columns of g.
template <int HALF>
inline void transform_half(const __m512i (&g)[FILTER], __m512i (&out)[AT_ONCE]) {
    const __m512i twice = _mm512_add_epi8(g[2], g[2]);
    const __m512i outer = _mm512_add_epi8(g[0], HALF == 0 ? g[2] : _mm512_add_epi8(twice, twice));
    const __m512i inner = HALF == 0 ? g[1] : _mm512_add_epi8(g[1], g[1]);
    const __m512i sum = _mm512_add_epi8(outer, inner), difference = _mm512_sub_epi8(outer, inner);
    out[0] = HALF == 0 ? g[0] : sum;
    out[1] = HALF == 0 ? sum : difference;
    out[2] = HALF == 0 ? difference : g[2];
}

struct HalfJob {
    const uint8_t* indices;   // of a set
    const int8_t* columns;    // what the row of G makes of them
    int64_t channels;
    const uint8_t* tiles;     // a group of them, at the first position
    int64_t position_stride;
    const int32_t* starts;
    int32_t* products;
    int64_t position_products;
};

template <int HALF>
inline void weights_of_half(const uint8_t* indices, __m512i columns, __m512i (&weights)[AT_ONCE]) {
    __m512i g[FILTER];
    UNROLL for (int i = 0; i < FILTER; ++i) {
        g[i] = _mm512_permutexvar_epi8(_mm512_load_si512(indices + i * VECTOR), columns);
    }
    transform_half<HALF>(g, weights);
}

template <int HALF, int TILES>
void multiply_half(const HalfJob& job) {
    const __m512i columns = _mm512_load_si512(job.columns);
    __m512i sums[AT_ONCE][TILES][2];
    UNROLL for (int i = 0; i < AT_ONCE; ++i) {
        UNROLL for (int tile = 0; tile < TILES; ++tile) sums[i][tile][0] = sums[i][tile][1] = _mm512_setzero_si512();
    }
    const uint8_t* indices = job.indices;
    const uint8_t* tiles = job.tiles;
    for (int64_t block = 0; block < job.channels; block += TILE_CHANNELS, tiles += TileLayout::BLOCK) {
        for (int64_t channel = 0; channel < TILE_CHANNELS; channel += 4, indices += FILTER * VECTOR) {
            __m512i weights[AT_ONCE];
            weights_of_half<HALF>(indices, columns, weights);
            UNROLL for (int i = 0; i < AT_ONCE; ++i) {
                UNROLL for (int tile = 0; tile < TILES; ++tile) {
                    const uint8_t* place = tiles + i * job.position_stride + tile * TileLayout::TILE_BYTES + channel;
                    UNROLL for (int part = 0; part < 2; ++part) {
                        sums[i][tile][part] = _mm512_dpbusd_epi32(
                            sums[i][tile][part], four_bytes(place + part * TILE_CHANNELS), weights[i]);
                        hold(sums[i][tile][part]);
                    }
                }
            }
        }
    }
    UNROLL for (int i = 0; i < AT_ONCE; ++i) {
        const __m512i start = _mm512_loadu_si512(job.starts + i * PANEL);
        UNROLL for (int tile = 0; tile < TILES; ++tile) {
            const __m512i upper = _mm512_slli_epi32(_mm512_add_epi32(sums[i][tile][0], start), 8);
            _mm512_storeu_si512(job.products + i * job.position_products + tile * PANEL,
                                _mm512_add_epi32(upper, sums[i][tile][1]));
        }
    }
}

template <int HALF>
void multiply_half(const HalfJob& job, int num_tiles) {
    switch (num_tiles) {
        case 1: return multiply_half<HALF, 1>(job);
        case 2: return multiply_half<HALF, 2>(job);
        case 3: return multiply_half<HALF, 3>(job);
        default: return multiply_half<HALF, TILE_GROUP>(job);
    }
}

// A set times a group of tiles.
template <int BITS>
void multiply_group(const TileProductJob& job, int set, int first_tile) {
    const int num_tiles = job.num_tiles - first_tile < TILE_GROUP ? job.num_tiles - first_tile : TILE_GROUP;
    const int32_t* starts = reinterpret_cast<const int32_t*>(job.weights + job.sets * indices_of_set(job.channels));
    HalfJob half{job.weights + set * indices_of_set(job.channels), nullptr, job.channels,
                 job.tiles + first_tile / TILE_GROUP * job.group_stride, job.position_stride, starts + set * LANES,
                 job.products + first_tile * PANEL + set * LANES, job.position_products};
    const auto advance = [&] {
        half.tiles += AT_ONCE * job.position_stride;
        half.starts += AT_ONCE * PANEL;
        half.products += AT_ONCE * job.position_products;
    };
    for (int row = 0; row < TILE_FIELD; ++row) {
        half.columns = COLUMNS<BITS>.of[row];
        multiply_half<0>(half, num_tiles);
        advance();
        multiply_half<1>(half, num_tiles);
        advance();
    }
}

// The weights of all sets at three positions, each [quad][set][lane][4].
template <int HALF>
void write_half(const TileProductJob& job, const int8_t* row_columns, int8_t* out) {
    const __m512i columns = _mm512_load_si512(row_columns);
    const int64_t line = tile_line(job.channels, job.sets);
    for (int set = 0; set < job.sets; ++set) {
        const uint8_t* indices = job.weights + set * indices_of_set(job.channels);
        int8_t* place = out + set * VECTOR;
        for (int64_t quad = 0; quad < job.channels / 4; ++quad, indices += FILTER * VECTOR, place += job.sets * VECTOR) {
            __m512i weights[AT_ONCE];
            weights_of_half<HALF>(indices, columns, weights);
            UNROLL for (int i = 0; i < AT_ONCE; ++i) _mm512_storeu_si512(place + i * line, weights[i]);
        }
    }
}

template <int BITS>
void multiply_many(const TileProductJob& job) {
    const int32_t* starts = reinterpret_cast<const int32_t*>(job.weights + job.sets * indices_of_set(job.channels));
    const int64_t line = tile_line(job.channels, job.sets);
    int8_t* weights = reinterpret_cast<int8_t*>(job.room);
    for (int position = 0; position < POSITIONS; ++position) {
        const int8_t* columns = COLUMNS<BITS>.of[position / TILE_FIELD];
        if (position % TILE_FIELD == 0) write_half<0>(job, columns, weights);
        if (position % TILE_FIELD == AT_ONCE) write_half<1>(job, columns, weights);
        run_in_blocks<MultiplyTiles, 2>(PositionJob{
            weights + position % AT_ONCE * line, job.sets, job.channels, starts + position * PANEL,
            job.tiles + position * job.position_stride, job.group_stride, job.num_tiles,
            job.products + position * job.position_products});
    }
}

template <int BITS>
void multiply_bits(const TileProductJob& job) {
    if (job.num_tiles > FEW_TILES) return multiply_many<BITS>(job);
    for (int set = 0; set < job.sets; ++set) {
        for (int tile = 0; tile < job.num_tiles; tile += TILE_GROUP) multiply_group<BITS>(job, set, tile);
    }
}

void multiply_tiles(const TileProductJob& job) { job.bits == 1 ? multiply_bits<1>(job) : multiply_bits<2>(job); }

}  // namespace

const WinogradKernels WINOGRAD = {FILTER, AT_ONCE, 0, TILE_GROUP, avx512::transform_input, keep_weights, multiply_tiles,
                                  avx512::transform_output};

}  // namespace avx512_vbmi
}  // namespace binaryrelax
