// Layers in float32 with AVX-512: a set of 16 outputs is one register.
#include "avx512_finish.hpp"

#define UNROLL_ALL _Pragma("GCC unroll 16")

namespace binaryrelax {
namespace avx512 {
namespace {

// Sums of PIXELS pixels for SETS sets, all in registers. FINISHES: whole sets that become outputs at once.
template <int PIXELS, int SETS, bool FINISHES>
struct Dot {
    // With so few pixels the weights come from memory as fast as they are used.
    static constexpr bool STREAMS = PIXELS <= 2;

    static void run(const FloatJob& job, int first_pixel) {
        __m512 sums[PIXELS][SETS];
        UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            UNROLL_ALL for (int set = 0; set < SETS; ++set) sums[pixel][set] = _mm512_setzero_ps();
        }
        const float* weights = job.panel;
        for (int64_t run = 0; run < job.num_runs; ++run) {
            const float* pixels[PIXELS];
            UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                pixels[pixel] = job.pixels[first_pixel + pixel] + job.runs[run].offset;
            }
            for (int64_t i = 0; i < job.runs[run].length; ++i, weights += SETS * LANES) {
                __m512 columns[SETS];
                UNROLL_ALL for (int set = 0; set < SETS; ++set) {
                    columns[set] = _mm512_loadu_ps(weights + set * LANES);
                    if (STREAMS) _mm_prefetch(weights + set * LANES + BYTES_AHEAD / 4, _MM_HINT_T0);
                }
                UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                    const __m512 x = _mm512_set1_ps(pixels[pixel][i]);
                    UNROLL_ALL for (int set = 0; set < SETS; ++set) {
                        sums[pixel][set] = _mm512_fmadd_ps(columns[set], x, sums[pixel][set]);
                    }
                }
            }
        }
        UNROLL_ALL for (int set = 0; set < SETS; ++set) {
            UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                float* total = job.totals + (first_pixel + pixel) * job.totals_stride + set * LANES;
                if (!job.first) sums[pixel][set] = _mm512_add_ps(_mm512_loadu_ps(total), sums[pixel][set]);
                if (!FINISHES) _mm512_storeu_ps(total, sums[pixel][set]);
            }
            if (!FINISHES) continue;
            const Finish finish(*job.finish, set * LANES, 0xffff);
            const int64_t stride = job.finish->y_stride, place = first_pixel * stride + set * LANES;
            float* y = job.finish->y + place;
            if (!job.finish->added) {
                UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                    _mm512_storeu_ps(y + pixel * stride, finish.of(sums[pixel][set]));
                }
                continue;
            }
            const float* added = job.finish->added + place;
            UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                const __m512 value = finish.of(sums[pixel][set], _mm512_loadu_ps(added + pixel * stride));
                _mm512_storeu_ps(y + pixel * stride, value);
            }
        }
    }
};

// The rest of a job, fewer than PIXELS + 1 pixels.
template <int PIXELS, int SETS, bool FINISHES>
void dot_rest(const FloatJob& job, int first_pixel, int count) {
    if (count == PIXELS) return Dot<PIXELS, SETS, FINISHES>::run(job, first_pixel);
    if constexpr (PIXELS > 1) dot_rest<PIXELS - 1, SETS, FINISHES>(job, first_pixel, count);
}

template <int PIXELS, int SETS, bool FINISHES>
void dot(const FloatJob& job) {
    int pixel = 0;
    for (; pixel + PIXELS <= job.num_pixels; pixel += PIXELS) Dot<PIXELS, SETS, FINISHES>::run(job, pixel);
    if (pixel < job.num_pixels) dot_rest<PIXELS - 1, SETS, FINISHES>(job, pixel, job.num_pixels - pixel);
}

constexpr int HELD = 16;  // weights that stay in registers, beside the sums

template <int PIXELS>
inline void dot_held(const FloatJob& job, const __m512 (&weights)[HELD], int first_pixel) {
    const float* pixels[PIXELS];
    __m512 sums[PIXELS];
    UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
        pixels[pixel] = job.pixels[first_pixel + pixel] + job.runs[0].offset;
        sums[pixel] = _mm512_setzero_ps();
    }
    UNROLL_ALL for (int i = 0; i < HELD; ++i) {
        UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            sums[pixel] = _mm512_fmadd_ps(weights[i], _mm512_set1_ps(pixels[pixel][i]), sums[pixel]);
        }
    }
    UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
        float* total = job.totals + (first_pixel + pixel) * job.totals_stride;
        if (!job.first) sums[pixel] = _mm512_add_ps(_mm512_loadu_ps(total), sums[pixel]);
        _mm512_storeu_ps(total, sums[pixel]);
    }
}

// One set and few inputs: the weights are read once for all pixels.
void dot_few(const FloatJob& job) {
    __m512 weights[HELD];
    UNROLL_ALL for (int i = 0; i < HELD; ++i) weights[i] = _mm512_loadu_ps(job.panel + i * LANES);
    int pixel = 0;
    for (; pixel + 8 <= job.num_pixels; pixel += 8) dot_held<8>(job, weights, pixel);
    for (; pixel < job.num_pixels; ++pixel) dot_held<1>(job, weights, pixel);
}

template <bool FINISHES>
void dot_sets(const FloatJob& job) {
    switch (job.sets) {
        case 1: return dot<12, 1, FINISHES>(job);
        case 2: return dot<12, 2, FINISHES>(job);
        case 3: return dot<8, 3, FINISHES>(job);
        default: return dot<6, 4, FINISHES>(job);
    }
}

// PIXELS neighbours, 16 channels. (Stores through a mask take many times as long as others.)
template <int PIXELS, bool WHOLE>
void dot_lanes(const ChannelJob& job, int64_t pixel, int64_t channel) {
    const __mmask16 lanes = first_lanes(job.channels - channel);
    const auto load = [&](const float* place) { return WHOLE ? _mm512_loadu_ps(place) : _mm512_maskz_loadu_ps(lanes, place); };
    const float* x = job.x + pixel * job.x_stride + channel;
    __m512 sums[PIXELS];
    UNROLL for (int i = 0; i < PIXELS; ++i) sums[i] = _mm512_setzero_ps();
    for (int64_t tap = 0; tap < job.taps; ++tap) {
        const __m512 weights = load(job.weights[tap] + channel);
        const float* from = x + job.offsets[tap];
        UNROLL for (int i = 0; i < PIXELS; ++i) {
            sums[i] = _mm512_fmadd_ps(weights, load(from + i * job.x_stride), sums[i]);
        }
    }
    float* y = job.y + pixel * job.y_stride + channel;
    UNROLL for (int i = 0; i < PIXELS; ++i) {
        if (WHOLE) {
            _mm512_storeu_ps(y + i * job.y_stride, sums[i]);
        } else {
            _mm512_mask_storeu_ps(y + i * job.y_stride, lanes, sums[i]);
        }
    }
}

template <int PIXELS>
void dot_pixels(const ChannelJob& job, int64_t pixel) {
    int64_t channel = 0;
    for (; channel + LANES <= job.channels; channel += LANES) dot_lanes<PIXELS, true>(job, pixel, channel);
    if (channel < job.channels) dot_lanes<PIXELS, false>(job, pixel, channel);
}

template <int PIXELS>
void dot_last_pixels(const ChannelJob& job, int64_t pixel) {
    if (job.num_pixels - pixel == PIXELS) {
        dot_pixels<PIXELS>(job, pixel);
    } else if constexpr (PIXELS > 1) {
        dot_last_pixels<PIXELS - 1>(job, pixel);
    }
}

void dot_channels(const ChannelJob& job) {
    constexpr int PIXELS = 8;
    int64_t pixel = 0;
    for (; pixel + PIXELS <= job.num_pixels; pixel += PIXELS) dot_pixels<PIXELS>(job, pixel);
    if (pixel < job.num_pixels) dot_last_pixels<PIXELS - 1>(job, pixel);
}

// The levels are repeated, so that bits above the code's do not matter to a permutation of 16.
template <int BITS>
inline __m512 pick(__m512i codes, __m512 table, const float* levels) {
    if constexpr (BITS < 8) return _mm512_permutexvar_ps(codes, table);
    return _mm512_i32gather_ps(_mm512_and_si512(codes, _mm512_set1_epi32(255)), levels, 4);
}

template <int BITS, bool ONE_SCALE>
void expand_codes(const LevelJob& job) {
    constexpr int PER_WORD = 32 / BITS;
    const int outputs = job.sets * LANES;
    const __m512 table = _mm512_loadu_ps(job.levels);
    for (int set = 0; set < job.sets; ++set) {
        const float* scales = job.scales + set * LANES;
        const __m512 scale = _mm512_loadu_ps(scales);
        const uint32_t* words = job.words + set * LANES;
        float* out = job.panel + set * LANES;
        for (int64_t first = 0; first < job.inputs; first += PER_WORD, words += outputs) {
            __m512i codes = _mm512_loadu_si512(words);
            const int count = static_cast<int>(job.inputs - first < PER_WORD ? job.inputs - first : PER_WORD);
            for (int i = 0; i < count; ++i, out += outputs, codes = _mm512_srli_epi32(codes, BITS)) {
                const __m512 level = pick<BITS>(codes, table, job.levels);
                const __m512 own =
                    ONE_SCALE ? scale : _mm512_loadu_ps(scales + job.scale_of_input[first + i] * int64_t{outputs});
                _mm512_storeu_ps(out, _mm512_mul_ps(level, own));
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

template <bool WHOLE>
void finish_set(const FloatFinish& job, int64_t i) {
    const __mmask16 lanes = first_lanes(job.outputs - i);
    const Finish finish(job, i, lanes);
    for (int64_t pixel = 0; pixel < job.num_pixels; ++pixel) {
        const float* totals = job.totals + pixel * job.totals_stride + i;
        float* y = job.y + pixel * job.y_stride + i;
        const auto load = [&](const float* place) {
            return WHOLE ? _mm512_loadu_ps(place) : _mm512_maskz_loadu_ps(lanes, place);
        };
        const __m512 total = load(totals);
        const __m512 value =
            job.added ? finish.of(total, load(job.added + pixel * job.y_stride + i)) : finish.of(total);
        if (WHOLE) {
            _mm512_storeu_ps(y, value);
        } else {
            _mm512_mask_storeu_ps(y, lanes, value);
        }
    }
}

void finish_floats(const FloatFinish& job) {
    int64_t i = 0;
    for (; i + LANES <= job.outputs; i += LANES) finish_set<true>(job, i);
    if (i < job.outputs) finish_set<false>(job, i);
}

void dot_floats(const FloatJob& job) {
    if (job.finish && job.finish->outputs == job.sets * LANES) return dot_sets<true>(job);
    job.sets == 1 && job.num_runs == 1 && job.runs[0].length == HELD ? dot_few(job) : dot_sets<false>(job);
    if (job.finish) finish_floats(*job.finish);
}

}  // namespace

const FloatKernels FLOATS = {dot_floats, dot_channels, expand_levels, finish_floats, filter_channels,
                            &FLOAT_TILES};

}  // namespace avx512
}  // namespace binaryrelax
