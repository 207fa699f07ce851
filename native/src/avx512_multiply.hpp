// Products of bytes with AVX-512 and VNNI, as many pixels and outputs at once as there are registers.
#pragma once

#include "avx512.hpp"

namespace binaryrelax {
namespace avx512 {
namespace {

// Enough sums to hide how long an addition takes, few enough to stay in the 32 registers.
constexpr int MOST_SUMS[MAX_SETS] = {14, 20, 24, 24};
constexpr int most_pixels(int sets) { return MOST_SUMS[sets - 1] / sets; }

// Adds the products of `steps` quads of weights with what pixels have at those offsets. (What is done to the sums
// after the loop but storing them makes compilers keep them in memory.)
template <int PIXELS, int SETS>
inline void add_products(__m512i (&sums)[PIXELS][SETS], const uint8_t* const (&pixels)[PIXELS], const int64_t* offsets,
                         int64_t steps, const int8_t* weights) {
    for (int64_t step = 0; step < steps; ++step, weights += SETS * LANES * 4) {
        const int64_t offset = offsets[step];
        __m512i four[SETS];
        UNROLL for (int set = 0; set < SETS; ++set) four[set] = _mm512_loadu_si512(weights + set * LANES * 4);
        UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            int32_t x;
            __builtin_memcpy(&x, pixels[pixel] + offset, sizeof x);
            const __m512i activations = _mm512_set1_epi32(x);
            UNROLL for (int set = 0; set < SETS; ++set) {
                sums[pixel][set] = _mm512_dpbusd_epi32(sums[pixel][set], activations, four[set]);
            }
        }
    }
}

template <template <int, int> class Kernel, typename Job, int SETS, int PIXELS = 1>
void run_for(const Job& job, int first_pixel, int pixels) {
    if (pixels == PIXELS) return Kernel<PIXELS, SETS>::run(job, first_pixel);
    if constexpr (PIXELS < most_pixels(SETS)) return run_for<Kernel, Job, SETS, PIXELS + 1>(job, first_pixel, pixels);
}

// A kernel for all pixels of a job, in blocks of about the same size: few do not hide how long an addition takes.
template <template <int, int> class Kernel, typename Job>
void run_in_blocks(const Job& job) {
    const int most = most_pixels(job.sets);
    int blocks = (job.num_pixels + most - 1) / most;
    for (int pixel = 0; blocks > 0; --blocks) {
        const int count = (job.num_pixels - pixel + blocks - 1) / blocks;
        switch (job.sets) {
            case 1: run_for<Kernel, Job, 1>(job, pixel, count); break;
            case 2: run_for<Kernel, Job, 2>(job, pixel, count); break;
            case 3: run_for<Kernel, Job, 3>(job, pixel, count); break;
            default: run_for<Kernel, Job, 4>(job, pixel, count);
        }
        pixel += count;
    }
}

}  // namespace
}  // namespace avx512
}  // namespace binaryrelax
