// Exact mode with AVX2: a table of 16 sums is two registers of 8; `vpermps` looks into both and bit 3 of the
// index chooses.
#include "avx2.hpp"

namespace binaryrelax {
namespace avx2 {
namespace {

inline float signed_or_zero(float x, int code) { return code == 0 ? -x : code == 1 ? x - x : x; }

inline __m256 negated_where(__m256 x, __m256 sign_bits) { return _mm256_xor_ps(x, sign_bits); }

inline void binary_table(const float* x, float* table) {
    const float minus = -0.0f;
    const __m256 first = _mm256_setr_ps(minus, 0, minus, 0, minus, 0, minus, 0);
    const __m256 second = _mm256_setr_ps(minus, minus, 0, 0, minus, minus, 0, 0);
    const __m256 third = _mm256_setr_ps(minus, minus, minus, minus, 0, 0, 0, 0);
    const __m256 two = _mm256_add_ps(negated_where(_mm256_set1_ps(x[0]), first),
                                     negated_where(_mm256_set1_ps(x[1]), second));
    const __m256 three = _mm256_add_ps(two, negated_where(_mm256_set1_ps(x[2]), third));
    _mm256_storeu_ps(table, _mm256_sub_ps(three, _mm256_set1_ps(x[3])));
    _mm256_storeu_ps(table + HALF, _mm256_add_ps(three, _mm256_set1_ps(x[3])));
}

inline void ternary_table(const float* x, float* table) {
    for (int index = 0; index < TABLE; ++index) {
        table[index] = signed_or_zero(x[0], index & 3) + signed_or_zero(x[1], index >> 2);
    }
}

inline void tables_of_four(const float* x, int bits, float* tables) {
    if (bits == 1) {
        binary_table(x, tables);
    } else {
        ternary_table(x, tables);
        ternary_table(x + 2, tables + TABLE);
    }
}

inline __m256 pick(const float* table, __m256i index) {
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), index);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + HALF), index);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(index, 28)));
}

inline void add_to_totals(__m256 sum, double* totals) {
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(sum));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(sum, 1));
    _mm256_storeu_pd(totals, _mm256_add_pd(_mm256_loadu_pd(totals), low));
    _mm256_storeu_pd(totals + 4, _mm256_add_pd(_mm256_loadu_pd(totals + 4), high));
}

// One pixel: all halves side by side, because the weights come from memory.
template <int SETS>
void look_up_row(const LookUpJob& job) {
    const float* pixel = job.pixels[0];
    const uint32_t* line = job.words;
    for (int64_t nibble = 0; nibble < job.nibbles;) {
        const int64_t end = smaller(nibble + NIBBLES_PER_FLUSH, job.nibbles);
        __m256 sums[2 * SETS];
        UNROLL for (int half = 0; half < 2 * SETS; ++half) sums[half] = _mm256_setzero_ps();
        for (; nibble < end; nibble += NIBBLES_PER_WORD, line += SETS * LANES) {
            const int count = static_cast<int>(smaller(NIBBLES_PER_WORD, end - nibble));
            UNROLL for (int half = 0; half < 2 * SETS; ++half) {
                if (half % 2 == 0) _mm_prefetch(line + WORDS_AHEAD + half * HALF, _MM_HINT_T0);
                __m256i index = load(line + half * HALF);
                for (int i = 0; i < count; ++i, index = _mm256_srli_epi32(index, 4)) {
                    sums[half] = _mm256_add_ps(sums[half], pick(pixel + job.offsets[nibble + i], index));
                }
            }
        }
        UNROLL for (int half = 0; half < 2 * SETS; ++half) add_to_totals(sums[half], job.totals + half * HALF);
    }
}

// Several pixels: one half at a time, its index used for all of them.
template <int PIXELS>
void look_up_half(const LookUpJob& job, int first_pixel, int half) {
    const float* const* pixels = job.pixels + first_pixel;
    const uint32_t* words = job.words + half * HALF;
    for (int64_t nibble = 0; nibble < job.nibbles;) {
        const int64_t end = smaller(nibble + NIBBLES_PER_FLUSH, job.nibbles);
        __m256 sums[PIXELS];
        UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) sums[pixel] = _mm256_setzero_ps();
        while (nibble < end) {
            __m256i index = load(words);
            words += job.sets * LANES;
            const int64_t word_end = smaller(nibble + NIBBLES_PER_WORD, end);
            for (; nibble < word_end; ++nibble, index = _mm256_srli_epi32(index, 4)) {
                const int64_t offset = job.offsets[nibble];
                UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                    sums[pixel] = _mm256_add_ps(sums[pixel], pick(pixels[pixel] + offset, index));
                }
            }
        }
        UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            add_to_totals(sums[pixel], job.totals + (first_pixel + pixel) * PANEL + half * HALF);
        }
    }
}

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

void look_up(const LookUpJob& job) {
    for (int i = 0; i < job.num_pixels * PANEL; ++i) job.totals[i] = 0;
    if (job.num_pixels == 1) {
        static constexpr void (*ROWS[MAX_SETS])(const LookUpJob&) = {look_up_row<1>, look_up_row<2>,
                                                                     look_up_row<3>, look_up_row<4>};
        ROWS[job.sets - 1](job);
        return;
    }
    static constexpr void (*HALVES[])(const LookUpJob&, int, int) = {look_up_half<1>, look_up_half<2>,
                                                                     look_up_half<3>};
    for (int half = 0; half < 2 * job.sets; ++half) {
        for (int pixel = 0; pixel < job.num_pixels; pixel += 3) {
            const int count = job.num_pixels - pixel < 3 ? job.num_pixels - pixel : 3;
            HALVES[count - 1](job, pixel, half);
        }
    }
}

void finish_exact(const double* totals, const FinishJob& job) {
    for (int pixel = 0; pixel < job.num_pixels; ++pixel, totals += PANEL) {
        float* y = job.y + pixel * job.y_stride;
        for (int64_t i = 0; i < job.outputs; ++i) {
            y[i] = static_cast<float>(job.scale[i] * totals[i] + (job.bias ? job.bias[i] : 0.0f));
        }
    }
}

}  // namespace avx2
}  // namespace binaryrelax
