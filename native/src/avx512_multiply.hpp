// Products of bytes with AVX-512 and VNNI, as many pixels and outputs at once as there are registers.
#pragma once

#include "avx512.hpp"
#include "registers.hpp"

namespace binaryrelax {
namespace avx512 {
namespace {

// Enough sums to hide how long an addition takes, few enough to stay in the 32 registers; and few enough pixels for the
// others to hold where they start.
constexpr int MOST_SUMS[MAX_SETS] = {8, 20, 24, 24};
constexpr int most_pixels(int sets) { return MOST_SUMS[sets - 1] / sets; }

template <template <int, int> class Kernel, typename Job, int SETS, int MOST, int PIXELS = 1>
void run_for(const Job& job, int first_pixel, int pixels) {
    if (pixels == PIXELS) return Kernel<PIXELS, SETS>::run(job, first_pixel);
    if constexpr (PIXELS < MOST) return run_for<Kernel, Job, SETS, MOST, PIXELS + 1>(job, first_pixel, pixels);
}

// A kernel for all pixels of a job, in blocks of about the same size: few do not hide how long an addition takes.
// It keeps `SUMS` sums for each pixel and set.
template <template <int, int> class Kernel, int SUMS, typename Job>
void run_in_blocks(const Job& job) {
    const int most = most_pixels(job.sets) / SUMS;
    int blocks = (job.num_pixels + most - 1) / most;
    for (int pixel = 0; blocks > 0; --blocks) {
        const int count = (job.num_pixels - pixel + blocks - 1) / blocks;
        switch (job.sets) {
            case 1: run_for<Kernel, Job, 1, most_pixels(1) / SUMS>(job, pixel, count); break;
            case 2: run_for<Kernel, Job, 2, most_pixels(2) / SUMS>(job, pixel, count); break;
            case 3: run_for<Kernel, Job, 3, most_pixels(3) / SUMS>(job, pixel, count); break;
            default: run_for<Kernel, Job, 4, most_pixels(4) / SUMS>(job, pixel, count);
        }
        pixel += count;
    }
}

}  // namespace
}  // namespace avx512
}  // namespace binaryrelax
