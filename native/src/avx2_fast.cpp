// Fast mode with AVX2: `vpmaddubsw` adds products of bytes in pairs; their 16-bit sums are widened before they
// can overflow.
#include "avx2.hpp"
#include "signed_sums.hpp"

namespace binaryrelax {
namespace avx2 {
namespace {

inline __m256i widen(__m256i sums_of_16_bits) { return _mm256_madd_epi16(sums_of_16_bits, _mm256_set1_epi16(1)); }

// A word adds at most 4 * 508 (2 bits) or 8 * 254 (1 bit) to a 16-bit sum.
template <int SETS, int BITS>
void dot_codes_of(const CodeJob& job) {
    constexpr int COLUMNS = 8 / BITS;
    const __m256i mask = _mm256_set1_epi8(BITS == 1 ? 1 : 3);
    __m256i sums[2 * SETS];
    UNROLL for (int half = 0; half < 2 * SETS; ++half) sums[half] = _mm256_setzero_si256();
    const uint32_t* line = job.words;
    const int8_t* x = job.x;
    for (int64_t word = 0; word < job.num_words; ++word, line += SETS * LANES, x += 4 * COLUMNS) {
        UNROLL for (int half = 0; half < 2 * SETS; ++half) {
            if (half % 2 == 0) _mm_prefetch(line + WORDS_AHEAD + half * HALF, _MM_HINT_T0);
            const __m256i codes = load(line + half * HALF);
            __m256i pairs = _mm256_setzero_si256();
            UNROLL for (int j = 0; j < COLUMNS; ++j) {
                const __m256i column = _mm256_and_si256(_mm256_srli_epi32(codes, BITS * j), mask);
                pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(column, broadcast_four(x + 4 * j)));
            }
            sums[half] = _mm256_add_epi32(sums[half], widen(pairs));
        }
    }
    const __m256i x_sum = _mm256_set1_epi32(job.x_sum);
    UNROLL for (int half = 0; half < 2 * SETS; ++half) {
        const __m256i codes = BITS == 1 ? _mm256_slli_epi32(sums[half], 1) : sums[half];
        store(job.totals + half * HALF, _mm256_sub_epi32(codes, x_sum));
    }
}

// Four codes in the low bits of each lane become the four bytes of the lane.
template <int BITS>
inline __m256i spread(__m256i codes) {
    constexpr int STEP = 8 - BITS;  // bit BITS * i goes to bit 8 * i
    const __m256i low = _mm256_or_si256(codes, _mm256_slli_epi32(codes, STEP));
    const __m256i all = _mm256_or_si256(low, _mm256_slli_epi32(low, 2 * STEP));
    const __m256i bytes = _mm256_and_si256(all, _mm256_set1_epi8(BITS == 1 ? 1 : 3));
    return _mm256_sub_epi8(BITS == 1 ? _mm256_add_epi8(bytes, bytes) : bytes, _mm256_set1_epi8(1));
}

template <int BITS>
void expand_codes(const uint32_t* words, int sets, int64_t quads, int8_t* panel) {
    constexpr int QUADS_PER_WORD = 8 / BITS;
    const __m256i mask = _mm256_set1_epi32(BITS == 1 ? 15 : 255);
    for (int64_t quad = 0; quad < quads; quad += QUADS_PER_WORD, words += sets * LANES) {
        const int64_t count = smaller(QUADS_PER_WORD, quads - quad);
        for (int half = 0; half < 2 * sets; ++half) {
            __m256i codes = load(words + half * HALF);
            for (int64_t i = 0; i < count; ++i, codes = _mm256_srli_epi32(codes, 4 * BITS)) {
                store(panel + ((quad + i) * 2 * sets + half) * 4 * HALF, spread<BITS>(_mm256_and_si256(codes, mask)));
            }
        }
    }
}

// A quad adds at most 2 * 255 to a 16-bit sum.
constexpr int64_t QUADS_PER_WIDENING = 64;

template <int PIXELS>
void dot_bytes_half(const ByteJob& job, int half) {
    __m256i sums[PIXELS];
    UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) sums[pixel] = load(job.start + pixel * job.start_stride + half * HALF);
    const int8_t* weights = job.panel + half * HALF * 4;
    for (int64_t quad = 0; quad < job.quads;) {
        const int64_t end = smaller(quad + QUADS_PER_WIDENING, job.quads);
        __m256i pairs[PIXELS];
        UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) pairs[pixel] = _mm256_setzero_si256();
        for (; quad < end; ++quad, weights += job.sets * LANES * 4) {
            const __m256i four = load(weights);
            const int64_t offset = job.offsets[quad];
            UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                const __m256i products = _mm256_maddubs_epi16(broadcast_four(job.pixels[pixel] + offset), four);
                pairs[pixel] = _mm256_add_epi16(pairs[pixel], products);
            }
        }
        UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            sums[pixel] = _mm256_add_epi32(sums[pixel], widen(pairs[pixel]));
        }
    }
    UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
        store(job.totals + pixel * PANEL + half * HALF, sums[pixel]);
    }
}

}  // namespace

uint32_t largest_magnitude(const float* x, int64_t count) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i largest = _mm256_setzero_si256();
    int64_t i = 0;
    for (; i + HALF <= count; i += HALF) {
        largest = _mm256_max_epu32(largest, _mm256_and_si256(load(x + i), magnitude));
    }
    alignas(32) uint32_t lanes[HALF];
    store(lanes, largest);
    for (; i < count; ++i) {
        uint32_t bits;
        __builtin_memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffff;
        lanes[0] = bits > lanes[0] ? bits : lanes[0];
    }
    for (int lane = 1; lane < HALF; ++lane) lanes[0] = lanes[lane] > lanes[0] ? lanes[lane] : lanes[0];
    return lanes[0];
}

void to_bytes(const float* x, int64_t count, float inverse, uint8_t flip, uint8_t* out) {
    const __m256 factor = _mm256_set1_ps(inverse);
    const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
    int64_t i = 0;
    for (; i + HALF <= count; i += HALF) {
        const __m256i rounded = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), factor));
        const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
        const __m128i bytes = _mm_xor_si128(_mm_packs_epi16(words, words), flips);
        _mm_storel_epi64(reinterpret_cast<__m128i*>(out + i), bytes);
    }
    for (; i < count; ++i) {
        const int rounded = _mm_cvtss_si32(_mm_set_ss(x[i] * inverse));
        out[i] = static_cast<uint8_t>(static_cast<uint8_t>(rounded) ^ flip);
    }
}

void shuffle(const int8_t* x, int64_t num_words, int bits, int8_t* out) {
    const int columns = 8 / bits;
    for (int64_t word = 0; word < num_words; ++word, x += 4 * columns, out += 4 * columns) {
        for (int j = 0; j < columns; ++j) {
            for (int i = 0; i < 4; ++i) out[4 * j + i] = x[columns * i + j];
        }
    }
}

void dot_codes(const CodeJob& job) {
    static constexpr void (*RUNS[2][MAX_SETS])(const CodeJob&) = {
        {dot_codes_of<1, 1>, dot_codes_of<2, 1>, dot_codes_of<3, 1>, dot_codes_of<4, 1>},
        {dot_codes_of<1, 2>, dot_codes_of<2, 2>, dot_codes_of<3, 2>, dot_codes_of<4, 2>}};
    RUNS[job.bits - 1][job.sets - 1](job);
}

void expand(const uint32_t* words, int sets, int64_t quads, int bits, int8_t* panel) {
    bits == 1 ? expand_codes<1>(words, sets, quads, panel) : expand_codes<2>(words, sets, quads, panel);
}

void dot_bytes(const ByteJob& job) {
    static constexpr void (*RUNS[MAX_PIXELS])(const ByteJob&, int) = {
        dot_bytes_half<1>, dot_bytes_half<2>, dot_bytes_half<3>,
        dot_bytes_half<4>, dot_bytes_half<5>, dot_bytes_half<6>};
    for (int half = 0; half < 2 * job.sets; ++half) RUNS[job.num_pixels - 1](job, half);
}

void add_signed(const float* x, const int8_t* weights, int64_t count, float* sums) {
    add_signed_floats(x, weights, count, sums);
}

void add_signed(const int8_t* x, const int8_t* weights, int64_t count, int32_t* sums) {
    add_signed_bytes(x, weights, count, sums);
}

void finish_fast(const int32_t* totals, const FinishJob& job) {
    for (int pixel = 0; pixel < job.num_pixels; ++pixel, totals += PANEL) {
        float* y = job.y + pixel * job.y_stride;
        for (int64_t i = 0; i < job.outputs; ++i) {
            const float sum = static_cast<float>(totals[i]) * job.x_scales[pixel];
            y[i] = sum * job.scale[i] + (job.bias ? job.bias[i] : 0.0f);
        }
    }
}

}  // namespace avx2
}  // namespace binaryrelax
