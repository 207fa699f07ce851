// Fast mode with AVX-512 and VNNI: `vpdpbusd` adds four products of bytes to each of 16 sums.
#include "avx512.hpp"
#include "signed_sums.hpp"

namespace binaryrelax {
namespace avx512 {
namespace {

template <int SETS, int BITS>
struct DotCodes {
    static void run(const CodeJob& job) {
        constexpr int COLUMNS = 8 / BITS;
        const __m512i mask = _mm512_set1_epi8(BITS == 1 ? 1 : 3);
        __m512i sums[SETS];
        UNROLL for (int set = 0; set < SETS; ++set) sums[set] = _mm512_setzero_si512();
        for (QuarterWalk walk(job.num_words); !walk.done(); walk.next()) {
            walk.prefetch<SETS>(job.words);
            const uint32_t* line = job.words + walk.word() * SETS * LANES;
            const int8_t* x = job.x + walk.word() * 4 * COLUMNS;
            __m512i words[SETS];
            UNROLL for (int set = 0; set < SETS; ++set) words[set] = _mm512_loadu_si512(line + set * LANES);
            UNROLL for (int j = 0; j < COLUMNS; ++j) {
                int32_t four;
                __builtin_memcpy(&four, x + 4 * j, sizeof four);
                const __m512i activations = _mm512_set1_epi32(four);
                UNROLL for (int set = 0; set < SETS; ++set) {
                    const __m512i codes = _mm512_and_si512(_mm512_srli_epi32(words[set], BITS * j), mask);
                    sums[set] = _mm512_dpbusd_epi32(sums[set], codes, activations);
                }
            }
        }
        const __m512i x_sum = _mm512_set1_epi32(job.x_sum);
        UNROLL for (int set = 0; set < SETS; ++set) {
            const __m512i codes = BITS == 1 ? _mm512_slli_epi32(sums[set], 1) : sums[set];
            _mm512_storeu_si512(job.totals + set * LANES, _mm512_sub_epi32(codes, x_sum));
        }
    }
};

// Four codes in the low bits of each lane become the four bytes of the lane.
template <int BITS>
inline __m512i spread(__m512i codes) {
    constexpr int STEP = 8 - BITS;  // bit BITS * i goes to bit 8 * i
    const __m512i low = _mm512_or_si512(codes, _mm512_slli_epi32(codes, STEP));
    const __m512i all = _mm512_or_si512(low, _mm512_slli_epi32(low, 2 * STEP));
    const __m512i bytes = _mm512_and_si512(all, _mm512_set1_epi8(BITS == 1 ? 1 : 3));
    const __m512i scaled = BITS == 1 ? _mm512_add_epi8(bytes, bytes) : bytes;
    return _mm512_sub_epi8(scaled, _mm512_set1_epi8(1));
}

template <int BITS>
void expand_codes(const uint32_t* words, int sets, int64_t quads, int8_t* panel) {
    constexpr int QUADS_PER_WORD = 8 / BITS;
    for (int64_t quad = 0; quad < quads; quad += QUADS_PER_WORD, words += sets * LANES) {
        const int count = static_cast<int>(quads - quad < QUADS_PER_WORD ? quads - quad : QUADS_PER_WORD);
        for (int set = 0; set < sets; ++set) {
            __m512i codes = _mm512_loadu_si512(words + set * LANES);
            for (int i = 0; i < count; ++i, codes = _mm512_srli_epi32(codes, 4 * BITS)) {
                const __m512i low = _mm512_and_si512(codes, _mm512_set1_epi32(BITS == 1 ? 15 : 255));
                _mm512_storeu_si512(panel + ((quad + i) * sets + set) * 4 * LANES, spread<BITS>(low));
            }
        }
    }
}

template <int PIXELS, int SETS>
struct DotBytes {
    static void run(const ByteJob& job) {
        const uint8_t* pixels[PIXELS];
        __m512i sums[PIXELS][SETS];
        UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            pixels[pixel] = job.pixels[pixel];
            UNROLL for (int set = 0; set < SETS; ++set) {
                sums[pixel][set] = _mm512_loadu_si512(job.start + pixel * job.start_stride + set * LANES);
            }
        }
        const int8_t* weights = job.panel;
        for (int64_t quad = 0; quad < job.quads; ++quad, weights += SETS * LANES * 4) {
            const int64_t offset = job.offsets[quad];
            __m512i four[SETS];
            UNROLL for (int set = 0; set < SETS; ++set) four[set] = _mm512_loadu_si512(weights + set * LANES * 4);
            UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                int32_t x;
                __builtin_memcpy(&x, pixels[pixel] + offset, sizeof x);
                const __m512i activations = _mm512_set1_epi32(x);
                UNROLL for (int set = 0; set < SETS; ++set) {
                    sums[pixel][set] = _mm512_dpbusd_epi32(sums[pixel][set], activations, four[set]);
                }
            }
        }
        UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            UNROLL for (int set = 0; set < SETS; ++set) {
                _mm512_storeu_si512(job.totals + pixel * PANEL + set * LANES, sums[pixel][set]);
            }
        }
    }
};

}  // namespace

uint32_t largest_magnitude(const float* x, int64_t count) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i largest[4];
    UNROLL for (int i = 0; i < 4; ++i) largest[i] = _mm512_setzero_si512();
    int64_t i = 0;
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        UNROLL for (int j = 0; j < 4; ++j) {
            const __m512i bits = _mm512_loadu_si512(x + i + j * LANES);
            largest[j] = _mm512_max_epu32(largest[j], _mm512_and_si512(bits, magnitude));
        }
    }
    for (; i < count; i += LANES) {
        const __m512i bits = _mm512_maskz_loadu_epi32(first_lanes(count - i), x + i);
        largest[0] = _mm512_max_epu32(largest[0], _mm512_and_si512(bits, magnitude));
    }
    const __m512i low = _mm512_max_epu32(largest[0], largest[1]), high = _mm512_max_epu32(largest[2], largest[3]);
    return _mm512_reduce_max_epu32(_mm512_max_epu32(low, high));
}

void to_bytes(const float* x, int64_t count, float inverse, uint8_t flip, uint8_t* out) {
    const __m512 factor = _mm512_set1_ps(inverse);
    const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
    for (int64_t i = 0; i < count; i += LANES) {
        const __mmask16 lanes = first_lanes(count - i);
        const __m512 values = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, x + i), factor);
        const __m128i bytes = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(values));
        _mm_mask_storeu_epi8(out + i, lanes, _mm_xor_si128(bytes, flips));
    }
}

void shuffle(const int8_t* x, int64_t num_words, int bits, int8_t* out) {
    const int step = 32 / bits;
    const __m128i transpose = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int64_t word = 0; word < num_words; ++word, x += step, out += step) {
        const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
        __m128i* to = reinterpret_cast<__m128i*>(out);
        if (bits == 2) {
            _mm_storeu_si128(to, _mm_shuffle_epi8(first, transpose));
        } else {
            const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + 16));
            const __m128i a = _mm_unpacklo_epi8(first, _mm_srli_si128(first, 8));
            const __m128i b = _mm_unpacklo_epi8(second, _mm_srli_si128(second, 8));
            _mm_storeu_si128(to, _mm_unpacklo_epi16(a, b));
            _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(a, b));
        }
    }
}

void expand(const uint32_t* words, int sets, int64_t quads, int bits, int8_t* panel) {
    bits == 1 ? expand_codes<1>(words, sets, quads, panel) : expand_codes<2>(words, sets, quads, panel);
}

void add_signed(const float* x, const int8_t* weights, int64_t count, float* sums) {
    add_signed_floats(x, weights, count, sums);
}

void add_signed(const int8_t* x, const int8_t* weights, int64_t count, int32_t* sums) {
    add_signed_bytes(x, weights, count, sums);
}

void finish_fast(const int32_t* totals, const FinishJob& job) {
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        const __m512 x_scale = _mm512_set1_ps(job.x_scales[pixel]);
        for (int64_t i = 0; i < job.outputs; i += LANES) {
            const __mmask16 lanes = first_lanes(job.outputs - i);
            const __m512i total = _mm512_maskz_loadu_epi32(lanes, totals + pixel * PANEL + i);
            const __m512 sum = _mm512_mul_ps(_mm512_cvtepi32_ps(total), x_scale);
            const __m512 bias = job.bias ? _mm512_maskz_loadu_ps(lanes, job.bias + i) : _mm512_setzero_ps();
            const __m512 y = _mm512_fmadd_ps(sum, _mm512_maskz_loadu_ps(lanes, job.scale + i), bias);
            _mm512_mask_storeu_ps(job.y + pixel * job.y_stride + i, lanes, y);
        }
    }
}

void dot_codes(const CodeJob& job) {
    using Run = void (*)(const CodeJob&);
    static constexpr Run RUNS[2][MAX_SETS] = {
        {DotCodes<1, 1>::run, DotCodes<2, 1>::run, DotCodes<3, 1>::run, DotCodes<4, 1>::run},
        {DotCodes<1, 2>::run, DotCodes<2, 2>::run, DotCodes<3, 2>::run, DotCodes<4, 2>::run}};
    RUNS[job.bits - 1][job.sets - 1](job);
}

void dot_bytes(const ByteJob& job) { choose<DotBytes>(job); }

}  // namespace avx512
}  // namespace binaryrelax
