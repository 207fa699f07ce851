// Layers in float32 with AVX2: a set of 16 outputs is two registers, called halves.
#include "avx2.hpp"
#include "float_kernels.hpp"
#include "multiply_add.hpp"

namespace binaryrelax {
namespace avx2 {
namespace {

// Sums of PIXELS pixels for HALVES halves of the panel from `first_half` on, all in registers.
template <int PIXELS, int HALVES>
void dot(const FloatJob& job, int first_pixel, int first_half) {
    __m256 sums[PIXELS][HALVES];
    UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
        UNROLL for (int half = 0; half < HALVES; ++half) sums[pixel][half] = _mm256_setzero_ps();
    }
    const float* weights = job.panel + first_half * HALF;
    for (int64_t run = 0; run < job.num_runs; ++run) {
        const float* pixels[PIXELS];
        UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            pixels[pixel] = job.pixels[first_pixel + pixel] + job.runs[run].offset;
        }
        for (int64_t i = 0; i < job.runs[run].length; ++i, weights += job.sets * LANES) {
            __m256 columns[HALVES];
            UNROLL for (int half = 0; half < HALVES; ++half) columns[half] = _mm256_loadu_ps(weights + half * HALF);
            UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                const __m256 x = _mm256_broadcast_ss(pixels[pixel] + i);
                UNROLL for (int half = 0; half < HALVES; ++half) {
                    sums[pixel][half] = _mm256_fmadd_ps(columns[half], x, sums[pixel][half]);
                }
            }
        }
    }
    UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
        float* totals = job.totals + (first_pixel + pixel) * job.totals_stride + first_half * HALF;
        UNROLL for (int half = 0; half < HALVES; ++half) {
            __m256 sum = sums[pixel][half];
            if (!job.first) sum = _mm256_add_ps(_mm256_loadu_ps(totals + half * HALF), sum);
            _mm256_storeu_ps(totals + half * HALF, sum);
        }
    }
}

// Few pixels take many halves at once, so that there are enough sums in flight.
template <int PIXELS, int HALVES>
void dot_all_halves(const FloatJob& job, int first_pixel) {
    int half = 0;
    for (; half + HALVES <= 2 * job.sets; half += HALVES) dot<PIXELS, HALVES>(job, first_pixel, half);
    for (; half < 2 * job.sets; half += 2) dot<PIXELS, 2>(job, first_pixel, half);
}

// PIXELS neighbours, 8 channels.
template <int PIXELS>
void dot_lanes(const ChannelJob& job, int64_t pixel, int64_t channel) {
    const float* x = job.x + pixel * job.x_stride + channel;
    __m256 sums[PIXELS];
    UNROLL for (int i = 0; i < PIXELS; ++i) sums[i] = _mm256_setzero_ps();
    for (int64_t tap = 0; tap < job.taps; ++tap) {
        const __m256 weights = _mm256_loadu_ps(job.weights[tap] + channel);
        const float* from = x + job.offsets[tap];
        UNROLL for (int i = 0; i < PIXELS; ++i) {
            sums[i] = _mm256_fmadd_ps(weights, _mm256_loadu_ps(from + i * job.x_stride), sums[i]);
        }
    }
    float* y = job.y + pixel * job.y_stride + channel;
    UNROLL for (int i = 0; i < PIXELS; ++i) _mm256_storeu_ps(y + i * job.y_stride, sums[i]);
}

void dot_last_channels(const ChannelJob& job, int64_t pixel, int64_t first_channel) {
    const float* x = job.x + pixel * job.x_stride;
    for (int64_t channel = first_channel; channel < job.channels; ++channel) {
        float sum = 0.0f;
        for (int64_t tap = 0; tap < job.taps; ++tap) {
            sum = multiply_add(job.weights[tap][channel], x[job.offsets[tap] + channel], sum);
        }
        job.y[pixel * job.y_stride + channel] = sum;
    }
}

template <int PIXELS>
void dot_last_pixels(const ChannelJob& job, int64_t pixel, int64_t channels) {
    if (job.num_pixels - pixel == PIXELS) {
        for (int64_t channel = 0; channel < channels; channel += HALF) dot_lanes<PIXELS>(job, pixel, channel);
    } else if constexpr (PIXELS > 1) {
        dot_last_pixels<PIXELS - 1>(job, pixel, channels);
    }
}

void dot_channels(const ChannelJob& job) {
    constexpr int PIXELS = 8;
    const int64_t whole = job.channels / HALF * HALF;
    int64_t pixel = 0;
    for (; pixel + PIXELS <= job.num_pixels; pixel += PIXELS) {
        for (int64_t channel = 0; channel < whole; channel += HALF) dot_lanes<PIXELS>(job, pixel, channel);
    }
    if (pixel < job.num_pixels) dot_last_pixels<PIXELS - 1>(job, pixel, whole);
    for (pixel = 0; whole < job.channels && pixel < job.num_pixels; ++pixel) dot_last_channels(job, pixel, whole);
}

// The levels are repeated, so that bits above the code's do not matter to a permutation of 8.
template <int BITS>
inline __m256 pick(__m256i codes, __m256 low, __m256 high, const float* levels) {
    if constexpr (BITS == 8) return _mm256_i32gather_ps(levels, _mm256_and_si256(codes, _mm256_set1_epi32(255)), 4);
    const __m256 picked = _mm256_permutevar8x32_ps(low, codes);
    if constexpr (BITS < 4) return picked;
    const __m256 fourth_bit = _mm256_castsi256_ps(_mm256_slli_epi32(codes, 28));
    return _mm256_blendv_ps(picked, _mm256_permutevar8x32_ps(high, codes), fourth_bit);
}

template <int BITS, bool ONE_SCALE>
void expand_codes(const LevelJob& job) {
    constexpr int PER_WORD = 32 / BITS;
    const int outputs = job.sets * LANES;
    const __m256 low = _mm256_loadu_ps(job.levels), high = _mm256_loadu_ps(job.levels + HALF);
    for (int half = 0; half < outputs; half += HALF) {
        const __m256 scale = _mm256_loadu_ps(job.scales + half);
        const uint32_t* words = job.words + half;
        float* out = job.panel + half;
        for (int64_t first = 0; first < job.inputs; first += PER_WORD, words += outputs) {
            __m256i codes = load(words);
            const int count = static_cast<int>(job.inputs - first < PER_WORD ? job.inputs - first : PER_WORD);
            for (int i = 0; i < count; ++i, out += outputs, codes = _mm256_srli_epi32(codes, BITS)) {
                const __m256 level = pick<BITS>(codes, low, high, job.levels);
                const __m256 own =
                    ONE_SCALE ? scale : _mm256_loadu_ps(job.scales + job.scale_of_input[first + i] * int64_t{outputs} + half);
                _mm256_storeu_ps(out, _mm256_mul_ps(level, own));
            }
        }
    }
}

void expand_levels(const LevelJob& job) {
    const auto run = [&](auto one, auto many) { job.scale_of_input ? many(job) : one(job); };
    switch (job.bits) {
        case 1: return run(expand_codes<1, true>, expand_codes<1, false>);
        case 2: return run(expand_codes<2, true>, expand_codes<2, false>);
        case 4: return run(expand_codes<4, true>, expand_codes<4, false>);
        default: return run(expand_codes<8, true>, expand_codes<8, false>);
    }
}

void finish_pixel(const FloatFinish& job, const float* totals, const float* added, float* y) {
    const __m256 low = _mm256_set1_ps(job.low), high = _mm256_set1_ps(job.high);
    int64_t i = 0;
    for (; i + HALF <= job.outputs; i += HALF) {
        const __m256 factor = job.factor ? _mm256_loadu_ps(job.factor + i) : _mm256_set1_ps(1.0f);
        const __m256 bias = job.bias ? _mm256_loadu_ps(job.bias + i) : _mm256_setzero_ps();
        __m256 value = _mm256_fmadd_ps(_mm256_loadu_ps(totals + i), factor, bias);
        if (added) value = _mm256_add_ps(value, _mm256_loadu_ps(added + i));
        // Of a number and a NaN these return the second operand.
        _mm256_storeu_ps(y + i, _mm256_min_ps(high, _mm256_max_ps(low, value)));
    }
    for (; i < job.outputs; ++i) {
        float value = multiply_add(totals[i], job.factor ? job.factor[i] : 1.0f, job.bias ? job.bias[i] : 0.0f);
        if (added) value += added[i];
        const float raised = value < job.low ? job.low : value;
        y[i] = raised > job.high ? job.high : raised;
    }
}

void finish_floats(const FloatFinish& job) {
    for (int64_t pixel = 0; pixel < job.num_pixels; ++pixel) {
        const float* added = job.added ? job.added + pixel * job.y_stride : nullptr;
        finish_pixel(job, job.totals + pixel * job.totals_stride, added, job.y + pixel * job.y_stride);
    }
}

void dot_floats(const FloatJob& job) {
    constexpr int PIXELS = 6;
    for (int pixel = 0; pixel < job.num_pixels; pixel += PIXELS) {
        switch (smaller(PIXELS, job.num_pixels - pixel)) {
            case 1: dot_all_halves<1, 8>(job, pixel); break;
            case 2: dot_all_halves<2, 4>(job, pixel); break;
            case 3: dot_all_halves<3, 4>(job, pixel); break;
            case 4: dot_all_halves<4, 2>(job, pixel); break;
            case 5: dot_all_halves<5, 2>(job, pixel); break;
            default: dot_all_halves<6, 2>(job, pixel);
        }
    }
    if (job.finish) finish_floats(*job.finish);
}

}  // namespace

const FloatKernels FLOATS = {dot_floats, dot_channels, expand_levels, finish_floats, nullptr, &FLOAT_TILES};

}  // namespace avx2
}  // namespace binaryrelax
