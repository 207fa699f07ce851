// Exact mode with AVX-512: a set of 16 outputs is one register.
//
// `vpermps` picks 16 outputs' sums out of a table of 16 at once; it looks at the low four bits of each index
// only, so that moving on to the next nibble is one shift.
#include "avx512.hpp"

namespace binaryrelax {
namespace avx512 {
namespace {

// Lane i gets -x where `negative` says so and x elsewhere.
inline __m512 signed_lanes(const float* x, __mmask16 negative) {
    const __m512 all = _mm512_set1_ps(*x);
    return _mm512_castsi512_ps(
        _mm512_mask_xor_epi32(_mm512_castps_si512(all), negative, _mm512_castps_si512(all),
                              _mm512_set1_epi32(static_cast<int>(0x80000000u))));
}

inline __m512 binary_table(const float* x) {
    const __m512 low = _mm512_add_ps(signed_lanes(x, 0x5555), signed_lanes(x + 1, 0x3333));
    return _mm512_add_ps(_mm512_add_ps(low, signed_lanes(x + 2, 0x0f0f)), signed_lanes(x + 3, 0x00ff));
}

// Lane i gets -x, x - x or x; the zero is NaN where 0 * x would be.
inline __m512 ternary_lanes(const float* x, __mmask16 negative, __mmask16 positive) {
    const __m512 all = _mm512_set1_ps(*x);
    const __m512 zero = _mm512_sub_ps(all, all);
    return _mm512_mask_mov_ps(_mm512_mask_sub_ps(zero, negative, _mm512_setzero_ps(), all), positive, all);
}

inline __m512 ternary_table(const float* x) {
    return _mm512_add_ps(ternary_lanes(x, 0x1111, 0x4444), ternary_lanes(x + 1, 0x000f, 0x0f00));
}

inline void tables_of_four(const float* x, int bits, float* tables) {
    if (bits == 1) {
        _mm512_store_ps(tables, binary_table(x));
    } else {
        _mm512_store_ps(tables, ternary_table(x));
        _mm512_store_ps(tables + TABLE, ternary_table(x + 2));
    }
}

inline void add_to_totals(__m512 sum, double* totals) {
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(sum));
    const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(sum, 1));
    _mm512_storeu_pd(totals, _mm512_add_pd(_mm512_loadu_pd(totals), low));
    _mm512_storeu_pd(totals + 8, _mm512_add_pd(_mm512_loadu_pd(totals + 8), high));
}

// The order of the additions does not depend on the number of pixels: the outputs of an image are the same bits
// whatever else is computed beside it.
template <int PIXELS, int SETS>
struct LookUp {
    using Sums = __m512[PIXELS][SETS];

    static inline void flush(Sums& sums, double* totals) {
        UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            UNROLL for (int set = 0; set < SETS; ++set) {
                add_to_totals(sums[pixel][set], totals + pixel * PANEL + set * LANES);
                sums[pixel][set] = _mm512_setzero_ps();
            }
        }
    }

    static void run(const LookUpJob& job) {
        const float* pixels[PIXELS];
        Sums sums;
        UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            pixels[pixel] = job.pixels[pixel];
            UNROLL for (int set = 0; set < SETS; ++set) sums[pixel][set] = _mm512_setzero_ps();
        }
        for (int i = 0; i < PIXELS * PANEL; i += 8) _mm512_storeu_pd(job.totals + i, _mm512_setzero_pd());
        int64_t nibbles_left = job.nibbles, nibbles_until_flush = NIBBLES_PER_FLUSH;
        for (QuarterWalk walk((job.nibbles + NIBBLES_PER_WORD - 1) / NIBBLES_PER_WORD); !walk.done(); walk.next()) {
            walk.prefetch<SETS>(job.words);
            const int64_t* offsets = job.offsets + walk.word() * NIBBLES_PER_WORD;
            const uint32_t* line = job.words + walk.word() * SETS * LANES;
            // Loads that start a byte apart bring every second nibble to the lowest place without a shift.
            // (Something to load follows the last line of all.)
            for (int byte = 0; byte < 4; ++byte) {
                __m512i indices[SETS];
                UNROLL for (int set = 0; set < SETS; ++set) {
                    indices[set] = _mm512_loadu_si512(reinterpret_cast<const uint8_t*>(line + set * LANES) + byte);
                }
                UNROLL for (int nibble = 0; nibble < 2; ++nibble) {
                    if (nibbles_left == 0) break;
                    --nibbles_left;
                    UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                        const __m512 table = _mm512_loadu_ps(pixels[pixel] + offsets[2 * byte + nibble]);
                        UNROLL for (int set = 0; set < SETS; ++set) {
                            const __m512 picked = _mm512_permutexvar_ps(indices[set], table);
                            sums[pixel][set] = _mm512_add_ps(sums[pixel][set], picked);
                        }
                    }
                    UNROLL for (int set = 0; set < SETS; ++set) indices[set] = _mm512_srli_epi32(indices[set], 4);
                }
            }
            nibbles_until_flush -= NIBBLES_PER_WORD;
            if (nibbles_until_flush > 0 && nibbles_left > 0) continue;
            nibbles_until_flush = NIBBLES_PER_FLUSH;
            flush(sums, job.totals);
        }
    }
};

}  // namespace

void build_tables(const float* x, int64_t inputs, int bits, float* tables) {
    const int64_t whole = inputs / 4 * 4;
    for (int64_t i = 0; i < whole; i += 4, tables += bits * TABLE) tables_of_four(x + i, bits, tables);
    if (whole < inputs) {
        float last[4] = {0, 0, 0, 0};
        for (int64_t i = whole; i < inputs; ++i) last[i - whole] = x[i];
        tables_of_four(last, bits, tables);
    }
}

// Eight outputs of all pixels. (Stores through a mask take many times as long as others.)
template <bool WHOLE>
void finish_eight(const double* totals, const FinishJob& job, int64_t i) {
    const __mmask8 lanes = static_cast<__mmask8>(first_lanes(job.outputs - i));
    const __m512d scale = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(lanes, job.scale + i));
    const __m512d bias =
        job.bias ? _mm512_cvtps_pd(_mm256_maskz_loadu_ps(lanes, job.bias + i)) : _mm512_setzero_pd();
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        const double* first = totals + pixel * PANEL + i;
        const __m512d total = WHOLE ? _mm512_loadu_pd(first) : _mm512_maskz_loadu_pd(lanes, first);
        const __m256 y = _mm512_cvtpd_ps(_mm512_fmadd_pd(scale, total, bias));
        float* place = job.y + pixel * job.y_stride + i;
        if (WHOLE) {
            _mm256_storeu_ps(place, y);
        } else {
            _mm256_mask_storeu_ps(place, lanes, y);
        }
    }
}

void finish_exact(const double* totals, const FinishJob& job) {
    int64_t i = 0;
    for (; i + 8 <= job.outputs; i += 8) finish_eight<true>(totals, job, i);
    if (i < job.outputs) finish_eight<false>(totals, job, i);
}

void look_up(const LookUpJob& job) { choose<LookUp>(job); }

}  // namespace avx512
}  // namespace binaryrelax
