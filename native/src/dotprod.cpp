// Products of bytes on 64-bit ARM with the dot products of ARMv8.2. They multiply unsigned bytes with unsigned ones, so
// weights -1, 0 and 1 are taken as 0, 1 and 2, and the sum of the activations is taken away in the end.
#include <arm_neon.h>

#include "arm.hpp"
#include "network_loops.hpp"

namespace binaryrelax {
namespace dotprod {
namespace {

constexpr int BLOCK = 4;             // pixels whose sums stay in registers
constexpr int PARTS = LANES * 4 / 16;  // registers of a set's weights for a quad, and of a set's sums

template <int PIXELS>
void dot_set(const ByteJob& job, int first_pixel, int set) {
    uint32x4_t sums[PIXELS][PARTS], inputs[PIXELS];
    for (int pixel = 0; pixel < PIXELS; ++pixel) {
        const int32_t* start = job.start + (first_pixel + pixel) * job.start_stride + set * LANES;
        for (int part = 0; part < PARTS; ++part) sums[pixel][part] = vreinterpretq_u32_s32(vld1q_s32(start + 4 * part));
        inputs[pixel] = vdupq_n_u32(0);
    }
    const uint8x16_t one = vdupq_n_u8(1);
    const int8_t* weights = job.panel + set * LANES * 4;
    for (int64_t quad = 0; quad < job.quads; ++quad, weights += job.sets * LANES * 4) {
        uint8x16_t parts[PARTS];
        for (int part = 0; part < PARTS; ++part) {
            parts[part] = vaddq_u8(vreinterpretq_u8_s8(vld1q_s8(weights + 16 * part)), one);
        }
        for (int pixel = 0; pixel < PIXELS; ++pixel) {
            uint32_t four;
            __builtin_memcpy(&four, job.pixels[first_pixel + pixel] + job.offsets[quad], sizeof four);
            const uint8x16_t x = vreinterpretq_u8_u32(vdupq_n_u32(four));
            inputs[pixel] = vdotq_u32(inputs[pixel], x, one);
            for (int part = 0; part < PARTS; ++part) sums[pixel][part] = vdotq_u32(sums[pixel][part], x, parts[part]);
        }
    }
    for (int pixel = 0; pixel < PIXELS; ++pixel) {
        int32_t* totals = job.totals + (first_pixel + pixel) * PANEL + set * LANES;
        for (int part = 0; part < PARTS; ++part) {
            vst1q_s32(totals + 4 * part, vreinterpretq_s32_u32(vsubq_u32(sums[pixel][part], inputs[pixel])));
        }
    }
}

}  // namespace

void dot_bytes(const ByteJob& job) {
    static constexpr void (*RUNS[BLOCK])(const ByteJob&, int, int) = {dot_set<1>, dot_set<2>, dot_set<3>, dot_set<4>};
    for (int pixel = 0; pixel < job.num_pixels; pixel += BLOCK) {
        const int left = job.num_pixels - pixel, count = left < BLOCK ? left : BLOCK;
        for (int set = 0; set < job.sets; ++set) RUNS[count - 1](job, pixel, set);
    }
}

void multiply(const ChunkJob& job) { multiply_by_pixels(job, dot_bytes); }

}  // namespace dotprod
}  // namespace binaryrelax
