// Loops of whole networks in fast mode: plain ones that the compiler turns into the instructions of whichever file
// includes them. `portable.cpp` makes the reference of them.
#pragma once

#include "kernels.hpp"
#include "multiply_add.hpp"

namespace binaryrelax {
namespace {

// What is added to the outputs before their limits.
enum class Adding { Nothing, Bytes, Floats };

inline float limited(float y, float low, float high) {
    const float above = y < low ? low : y;  // NaN stays
    return above > high ? high : above;
}

// Round to even, as the vector instructions do; between 0 and 255. NaN becomes 0.
inline uint8_t rounded_byte(float y) {
    if (!(y > 0.0f)) return 0;
    if (y > 255.0f) return 255;
    constexpr float MAGIC = 8388608.0f;  // 2^23: adding it leaves no room for a fraction
    return static_cast<uint8_t>((y + MAGIC) - MAGIC);
}

// From channel `first` on.
inline void depthwise_loops(const DepthwiseJob& job, int64_t first) {
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        int32_t* totals = job.totals + pixel * PANEL;
        for (int64_t i = first; i < job.channels; ++i) totals[i] = 0;
        for (int64_t tap = 0; tap < job.taps; ++tap) {
            const uint8_t* x = job.pixels[pixel] + job.offsets[tap];
            const int8_t* weights = job.weights + tap * job.weights_stride;
            for (int64_t i = first; i < job.channels; ++i) totals[i] += weights[i] * x[i];
        }
    }
}

// Floats without their sign order as their bits do, infinities and NaN on top.
inline void raise_to(uint32_t* magnitude, uint32_t bits) {
    if (bits > *magnitude) *magnitude = bits;
}

inline uint32_t magnitude_bits(float y) {
    uint32_t bits;
    __builtin_memcpy(&bits, &y, sizeof bits);
    return bits & 0x7fffffffu;
}

// From output `first` on.
inline void write_outputs_loops(const OutputJob& job, int64_t first) {
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        const float x_scale = job.x_scales ? job.x_scales[pixel] : 1.0f;
        for (int64_t i = first; i < job.outputs; ++i) {
            const float total = static_cast<float>(job.totals[pixel * PANEL + i] + job.corrections[i]);
            float y = multiply_add(total * x_scale, job.factor[i], job.bias[i]);
            if (job.added_bytes) y = multiply_add(job.added_bytes[pixel][i], job.added_scale, y);
            if (job.added_floats) y = multiply_add(job.added_floats[pixel][i], job.added_scale, y);
            y = limited(y, job.low, job.high);
            if (job.bytes) {
                job.bytes[pixel][i] = rounded_byte(y);
            } else {
                job.floats[pixel][i] = y;
                if (job.magnitude) raise_to(job.magnitude, magnitude_bits(y));
            }
        }
    }
}

inline void quantize_loops(const float* x, int64_t count, float inverse, float zero, uint8_t* out) {
    for (int64_t i = 0; i < count; ++i) {
        const float y = multiply_add(x[i], inverse, zero);
        out[i] = rounded_byte(y == y ? y : zero);
    }
}

// A chunk by an instruction set's `dot_bytes`, in as many pixels at a time as it takes.
template <typename DotBytes>
void multiply_by_pixels(const ChunkJob& job, DotBytes dot_bytes) {
    alignas(64) static const int32_t zeros[PANEL] = {};
    alignas(64) int32_t room[MAX_PIXELS * PANEL];
    for (int pixel = 0; pixel < job.num_pixels; pixel += MAX_PIXELS) {
        const int left = job.num_pixels - pixel, count = left < MAX_PIXELS ? left : MAX_PIXELS;
        int32_t* totals = job.slots ? room : job.totals + pixel * PANEL;
        const bool from_zero = job.first || job.slots;
        dot_bytes({job.panel, job.sets, job.steps, job.pixels + pixel, job.offsets, count, from_zero ? zeros : totals,
                   from_zero ? 0 : PANEL, totals});
        for (int i = 0; job.slots && i < count; ++i) {
            int32_t* out = job.totals + job.slots[pixel + i] * PANEL;
            for (int j = 0; j < job.sets * LANES; ++j) out[j] = room[i * PANEL + j] + (job.first ? 0 : out[j]);
        }
    }
}

}  // namespace
}  // namespace binaryrelax
