// The loops of whole networks in fast mode with AVX2. What does not fill a register goes by plain loops.
#include "avx2.hpp"
#include "network_loops.hpp"

namespace binaryrelax {
namespace avx2 {
namespace {

// Eight numbers of 32 bits as bytes: from 0 to 255, those beyond at these limits.
inline void store_bytes(uint8_t* out, __m256i numbers) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(numbers), _mm256_extracti128_si256(numbers, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_packus_epi16(words, words));
}

// Eight outputs of all pixels: what belongs to outputs stays in registers.
template <Adding ADDING, bool SCALED>
void write_eight(const OutputJob& job, int64_t i) {
    const __m256i correction = load(job.corrections + i);
    const __m256 factor = _mm256_loadu_ps(job.factor + i), bias = _mm256_loadu_ps(job.bias + i);
    const __m256 low = _mm256_set1_ps(job.low), high = _mm256_set1_ps(job.high);
    const __m256 added_scale = _mm256_set1_ps(job.added_scale);
    __m256i largest = _mm256_setzero_si256();
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        const __m256i total = _mm256_add_epi32(load(job.totals + pixel * PANEL + i), correction);
        __m256 value = _mm256_cvtepi32_ps(total);
        if constexpr (SCALED) value = _mm256_mul_ps(value, _mm256_set1_ps(job.x_scales[pixel]));
        __m256 y = _mm256_fmadd_ps(value, factor, bias);
        if constexpr (ADDING == Adding::Bytes) {
            const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(job.added_bytes[pixel] + i));
            y = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), added_scale, y);
        } else if constexpr (ADDING == Adding::Floats) {
            y = _mm256_fmadd_ps(_mm256_loadu_ps(job.added_floats[pixel] + i), added_scale, y);
        }
        y = _mm256_min_ps(high, _mm256_max_ps(low, y));  // with the limit first, NaN in the second place stays
        if (job.bytes) {
            store_bytes(job.bytes[pixel] + i, _mm256_cvtps_epi32(y));  // NaN: the lowest number, so 0
        } else {
            _mm256_storeu_ps(job.floats[pixel] + i, y);
            const __m256i magnitude = _mm256_and_si256(_mm256_castps_si256(y), _mm256_set1_epi32(0x7fffffff));
            largest = _mm256_max_epu32(largest, magnitude);
        }
    }
    if (!job.magnitude) return;
    uint32_t lanes[HALF];
    store(reinterpret_cast<int32_t*>(lanes), largest);
    for (const uint32_t lane : lanes) raise_to(job.magnitude, lane);
}

template <Adding ADDING, bool SCALED>
void write_all(const OutputJob& job) {
    int64_t i = 0;
    for (; i + HALF <= job.outputs; i += HALF) write_eight<ADDING, SCALED>(job, i);
    if (i < job.outputs) write_outputs_loops(job, i);
}

template <Adding ADDING>
void write_adding(const OutputJob& job) {
    job.x_scales ? write_all<ADDING, true>(job) : write_all<ADDING, false>(job);
}

}  // namespace

void multiply(const ChunkJob& job) { multiply_by_pixels(job, dot_bytes); }

// 16-bit sums of 16 channels: 128 taps of 255 fit.
void multiply_depthwise(const DepthwiseJob& job) {
    if (job.taps > 128) return depthwise_loops(job, 0);
    const int64_t whole = job.channels / LANES * LANES;
    const auto half = [](const void* bytes) { return _mm_loadu_si128(static_cast<const __m128i*>(bytes)); };
    for (int64_t i = 0; i < whole; i += LANES) {
        for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
            __m256i sums = _mm256_setzero_si256();
            for (int64_t tap = 0; tap < job.taps; ++tap) {
                const __m256i x = _mm256_cvtepu8_epi16(half(job.pixels[pixel] + job.offsets[tap] + i));
                const __m256i weights = _mm256_cvtepi8_epi16(half(job.weights + tap * job.weights_stride + i));
                sums = _mm256_add_epi16(sums, _mm256_mullo_epi16(x, weights));
            }
            int32_t* totals = job.totals + pixel * PANEL + i;
            store(totals, _mm256_cvtepi16_epi32(_mm256_castsi256_si128(sums)));
            store(totals + HALF, _mm256_cvtepi16_epi32(_mm256_extracti128_si256(sums, 1)));
        }
    }
    if (whole < job.channels) depthwise_loops(job, whole);
}

void write_outputs(const OutputJob& job) {
    if (job.added_bytes) return write_adding<Adding::Bytes>(job);
    if (job.added_floats) return write_adding<Adding::Floats>(job);
    write_adding<Adding::Nothing>(job);
}

void quantize(const float* x, int64_t count, float inverse, float zero, uint8_t* out) {
    const __m256 factor = _mm256_set1_ps(inverse), shift = _mm256_set1_ps(zero), most = _mm256_set1_ps(255.0f);
    int64_t i = 0;
    for (; i + HALF <= count; i += HALF) {
        const __m256 y = _mm256_fmadd_ps(_mm256_loadu_ps(x + i), factor, shift);
        const __m256 number = _mm256_blendv_ps(y, shift, _mm256_cmp_ps(y, y, _CMP_UNORD_Q));
        store_bytes(out + i, _mm256_cvtps_epi32(_mm256_min_ps(number, most)));
    }
    if (i < count) quantize_loops(x + i, count - i, inverse, zero, out + i);
}

}  // namespace avx2
}  // namespace binaryrelax
