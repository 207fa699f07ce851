// The loops of whole networks in fast mode with AVX-512 and VNNI.
#include "avx512_multiply.hpp"
#include "network_loops.hpp"

namespace binaryrelax {
namespace avx512 {
namespace {

template <int PIXELS, int SETS>
struct MultiplyChunk {
    static void run(const ChunkJob& job, int first_pixel) {
        const uint8_t* pixels[PIXELS];
        __m512i sums[PIXELS][SETS];
        const auto totals_of = [&](int pixel) {
            return job.totals + (job.slots ? job.slots[first_pixel + pixel] : first_pixel + pixel) * PANEL;
        };
        UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            pixels[pixel] = job.pixels[first_pixel + pixel];
            const int32_t* totals = totals_of(pixel);
            UNROLL for (int set = 0; set < SETS; ++set) {
                sums[pixel][set] = job.first ? _mm512_setzero_si512() : _mm512_loadu_si512(totals + set * LANES);
            }
        }
        const int8_t* weights = job.panel;
        for (int64_t step = 0; step < job.steps; ++step, weights += SETS * LANES * 4) {
            const int64_t offset = job.offsets[step];
            __m512i four[SETS];
            UNROLL for (int set = 0; set < SETS; ++set) four[set] = _mm512_loadu_si512(weights + set * LANES * 4);
            UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                const __m512i activations = four_bytes(pixels[pixel] + offset);
                UNROLL for (int set = 0; set < SETS; ++set) {
                    sums[pixel][set] = _mm512_dpbusd_epi32(sums[pixel][set], activations, four[set]);
                }
            }
        }
        UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            int32_t* totals = totals_of(pixel);
            UNROLL for (int set = 0; set < SETS; ++set) _mm512_storeu_si512(totals + set * LANES, sums[pixel][set]);
        }
    }
};

// What belongs to sixteen outputs.
struct Outputs {
    __m512i correction;
    __m512 factor, bias;

    Outputs() = default;
    Outputs(const OutputJob& job, int64_t i, __mmask16 lanes)
        : correction(_mm512_maskz_loadu_epi32(lanes, job.corrections + i)),
          factor(_mm512_maskz_loadu_ps(lanes, job.factor + i)),
          bias(_mm512_maskz_loadu_ps(lanes, job.bias + i)) {}
};

// What a pixel's sixteen outputs from `i` on are, within their limits. WHOLE: there are no lanes without an output.
template <Adding ADDING, bool SCALED, bool WHOLE>
inline __m512 finished(const OutputJob& job, const Outputs& outputs, int pixel, int64_t i, __mmask16 lanes) {
    const __m512i total = _mm512_add_epi32(_mm512_loadu_si512(job.totals + pixel * PANEL + i), outputs.correction);
    __m512 value = _mm512_cvtepi32_ps(total);
    if constexpr (SCALED) value = _mm512_mul_ps(value, _mm512_set1_ps(job.x_scales[pixel]));
    __m512 y = _mm512_fmadd_ps(value, outputs.factor, outputs.bias);
    const __m512 added_scale = _mm512_set1_ps(job.added_scale);
    if constexpr (ADDING == Adding::Bytes) {
        const __m128i* place = reinterpret_cast<const __m128i*>(job.added_bytes[pixel] + i);
        const __m128i bytes = WHOLE ? _mm_loadu_si128(place) : _mm_maskz_loadu_epi8(lanes, place);
        y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), added_scale, y);
    } else if constexpr (ADDING == Adding::Floats) {
        y = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(lanes, job.added_floats[pixel] + i), added_scale, y);
    }
    // With the limit first, NaN in the second place stays.
    return _mm512_min_ps(_mm512_set1_ps(job.high), _mm512_max_ps(_mm512_set1_ps(job.low), y));
}

// A whole panel as bytes: of four registers of numbers one of bytes is made. The limits of bytes are 0 and 255; NaN
// becomes the least of numbers, and so 0.
template <Adding ADDING, bool SCALED>
void write_panel(const OutputJob& job) {
    constexpr __mmask16 ALL = 0xffff;
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    Outputs outputs[MAX_SETS];
    UNROLL for (int set = 0; set < MAX_SETS; ++set) outputs[set] = Outputs(job, set * LANES, ALL);
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        __m512i y[MAX_SETS];
        UNROLL for (int set = 0; set < MAX_SETS; ++set) {
            y[set] = _mm512_cvtps_epi32(finished<ADDING, SCALED, true>(job, outputs[set], pixel, set * LANES, ALL));
        }
        const __m512i lower = _mm512_packs_epi32(y[0], y[1]), upper = _mm512_packs_epi32(y[2], y[3]);
        const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(lower, upper));
        _mm512_storeu_si512(job.bytes[pixel], bytes);
    }
}

// Sixteen outputs of all pixels. Stores through a mask take many times as long as others.
template <Adding ADDING, bool SCALED, bool WHOLE>
void write_set(const OutputJob& job, int64_t i) {
    const __mmask16 lanes = first_lanes(job.outputs - i);
    const Outputs outputs(job, i, lanes);
    __m512i largest = _mm512_setzero_si512();
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        const __m512 y = finished<ADDING, SCALED, WHOLE>(job, outputs, pixel, i, lanes);
        if (!job.bytes) {
            float* place = job.floats[pixel] + i;
            WHOLE ? _mm512_storeu_ps(place, y) : _mm512_mask_storeu_ps(place, lanes, y);
            const __m512i without_sign = _mm512_set1_epi32(0x7fffffff);
            const __m512i magnitude = _mm512_maskz_and_epi32(lanes, _mm512_castps_si512(y), without_sign);
            largest = _mm512_max_epu32(largest, magnitude);
            continue;
        }
        const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(y));
        if (WHOLE) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(job.bytes[pixel] + i), bytes);
        } else {
            _mm_mask_storeu_epi8(job.bytes[pixel] + i, lanes, bytes);
        }
    }
    if (job.magnitude) raise_to(job.magnitude, _mm512_reduce_max_epu32(largest));
}

template <Adding ADDING, bool SCALED>
void write_sets(const OutputJob& job) {
    if (job.bytes && job.outputs == PANEL) return write_panel<ADDING, SCALED>(job);
    int64_t i = 0;
    for (; i + LANES <= job.outputs; i += LANES) write_set<ADDING, SCALED, true>(job, i);
    if (i < job.outputs) write_set<ADDING, SCALED, false>(job, i);
}

template <Adding ADDING>
void write_adding(const OutputJob& job) {
    job.x_scales ? write_sets<ADDING, true>(job) : write_sets<ADDING, false>(job);
}

}  // namespace

void multiply(const ChunkJob& job) { run_in_blocks<MultiplyChunk, 1>(job); }

// Taps in pairs: `vpmaddubsw` adds the products of two to sums of 16 bits, of which 128 taps of 255 fit.
void multiply_depthwise(const DepthwiseJob& job) {
    constexpr int MOST_TAPS = 128;
    if (job.taps > MOST_TAPS) return depthwise_loops(job, 0);
    const __mmask64 lanes = job.channels >= 64 ? ~__mmask64{0} : (__mmask64{1} << job.channels) - 1;
    const auto load = [&](const void* place) { return _mm512_maskz_loadu_epi8(lanes, place); };
    const __m512i none = _mm512_setzero_si512();
    const int64_t pairs = (job.taps + 1) / 2;
    __m512i low_weights[MOST_TAPS / 2], high_weights[MOST_TAPS / 2];
    int64_t offsets[MOST_TAPS];
    for (int64_t pair = 0; pair < pairs; ++pair) {
        const bool is_whole = 2 * pair + 1 < job.taps;
        const int8_t* weights = job.weights + 2 * pair * job.weights_stride;
        const __m512i first = load(weights), second = is_whole ? load(weights + job.weights_stride) : none;
        low_weights[pair] = _mm512_unpacklo_epi8(first, second);
        high_weights[pair] = _mm512_unpackhi_epi8(first, second);
        offsets[2 * pair] = job.offsets[2 * pair];
        offsets[2 * pair + 1] = job.offsets[2 * pair + is_whole];
    }
    // Unpacking takes eight channels in turns: these bring them back into their order.
    const __m512i lower_order = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i upper_order = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        const uint8_t* x = job.pixels[pixel];
        __m512i low = none, high = none;
        for (int64_t pair = 0; pair < pairs; ++pair) {
            const __m512i first = load(x + offsets[2 * pair]), second = load(x + offsets[2 * pair + 1]);
            const __m512i low_pairs = _mm512_unpacklo_epi8(first, second);
            const __m512i high_pairs = _mm512_unpackhi_epi8(first, second);
            low = _mm512_add_epi16(low, _mm512_maddubs_epi16(low_pairs, low_weights[pair]));
            high = _mm512_add_epi16(high, _mm512_maddubs_epi16(high_pairs, high_weights[pair]));
        }
        const __m512i lower = _mm512_permutex2var_epi64(low, lower_order, high);
        const __m512i upper = _mm512_permutex2var_epi64(low, upper_order, high);
        int32_t* totals = job.totals + pixel * PANEL;
        const auto store = [&](int set, __m256i sums) {
            _mm512_storeu_si512(totals + set * LANES, _mm512_cvtepi16_epi32(sums));
        };
        store(0, _mm512_castsi512_si256(lower));
        store(1, _mm512_extracti64x4_epi64(lower, 1));
        store(2, _mm512_castsi512_si256(upper));
        store(3, _mm512_extracti64x4_epi64(upper, 1));
    }
}

void write_outputs(const OutputJob& job) {
    if (job.added_bytes) return write_adding<Adding::Bytes>(job);
    if (job.added_floats) return write_adding<Adding::Floats>(job);
    write_adding<Adding::Nothing>(job);
}

void quantize(const float* x, int64_t count, float inverse, float zero, uint8_t* out) {
    const __m512 factor = _mm512_set1_ps(inverse), shift = _mm512_set1_ps(zero), most = _mm512_set1_ps(255.0f);
    const auto bytes_of = [&](__m512 values) {
        const __m512 y = _mm512_fmadd_ps(values, factor, shift);
        const __mmask16 is_nan = _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q);
        const __m512 safe = _mm512_min_ps(_mm512_mask_mov_ps(y, is_nan, shift), most);
        return _mm512_cvtusepi32_epi8(_mm512_max_epi32(_mm512_cvtps_epi32(safe), _mm512_setzero_si512()));
    };
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), bytes_of(_mm512_loadu_ps(x + i)));
    }
    if (i == count) return;
    const __mmask16 lanes = first_lanes(count - i);
    _mm_mask_storeu_epi8(out + i, lanes, bytes_of(_mm512_maskz_loadu_ps(lanes, x + i)));
}

}  // namespace avx512
}  // namespace binaryrelax
