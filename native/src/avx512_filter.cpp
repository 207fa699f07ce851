// Layers of 3 x 3 taps in which every output reads one channel, with AVX-512: 16 channels at a time, whose weights stay
// in registers. An input is loaded once for all outputs of a row that read it.
#include "avx512_finish.hpp"

namespace binaryrelax {
namespace avx512 {
namespace {

constexpr int EDGE = 3;  // taps along an axis

struct Filter {
    const FilterJob& job;
    const int64_t channel;
    const Finish finish;
    __m512 weights[EDGE][EDGE];

    Filter(const FilterJob& job, int64_t channel) : job(job), channel(channel), finish(job.finish, channel, 0xffff) {
        UNROLL_ALL for (int tap = 0; tap < EDGE * EDGE; ++tap) {
            weights[tap / EDGE][tap % EDGE] = _mm512_loadu_ps(job.weights + tap * job.weights_stride + channel);
        }
    }

    void write(__m512 sum, int64_t place) const {
        const float* added = job.finish.added;
        const __m512 value = added ? finish.of(sum, _mm512_loadu_ps(added + place)) : finish.of(sum);
        _mm512_storeu_ps(job.finish.y + place, value);
    }
    // PIXELS neighbours of a row. LEFT, RIGHT: the first or the last column of their inputs lies outside the image.
    template <int PIXELS, int STRIDE, bool LEFT, bool RIGHT>
    void run(int64_t row, int64_t column) const {
        __m512 sums[PIXELS];
        UNROLL for (int i = 0; i < PIXELS; ++i) sums[i] = _mm512_setzero_ps();
        UNROLL for (int i = 0; i < EDGE; ++i) {
            const int64_t from = row * STRIDE - job.top + i;
            if (from < 0 || from >= job.height) continue;
            const float* x = job.image + (from * job.width + column * STRIDE) * job.channels + channel;
            UNROLL for (int tap = 0; tap < EDGE; ++tap) {
                UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                    const bool is_cut = (LEFT && pixel == 0 && tap == 0) ||
                                        (RIGHT && pixel == PIXELS - 1 && tap == EDGE - 1);
                    if (is_cut) continue;
                    const __m512 value = _mm512_loadu_ps(x + (pixel * STRIDE + tap - 1) * job.channels);
                    sums[pixel] = _mm512_fmadd_ps(weights[i][tap], value, sums[pixel]);
                }
            }
        }
        const int64_t place = ((row - job.first_row) * job.out_width + column) * job.finish.y_stride + channel;
        UNROLL for (int i = 0; i < PIXELS; ++i) write(sums[i], place + i * job.finish.y_stride);
    }
};

// The end of a row, at most PIXELS of them.
template <int PIXELS, int STRIDE, bool RIGHT>
void run_end(const Filter& filter, int64_t row, int64_t column) {
    if (filter.job.out_width - column == PIXELS) {
        return column == 0 ? filter.run<PIXELS, STRIDE, true, RIGHT>(row, column)
                           : filter.run<PIXELS, STRIDE, false, RIGHT>(row, column);
    }
    if constexpr (PIXELS > 1) run_end<PIXELS - 1, STRIDE, RIGHT>(filter, row, column);
}

template <int STRIDE, bool RIGHT>
void run_rows(const FilterJob& job) {
    constexpr int PIXELS = 8;
    for (int64_t channel = 0; channel < job.finish.outputs; channel += LANES) {
        const Filter filter(job, channel);
        for (int64_t row = job.first_row; row < job.first_row + job.num_rows; ++row) {
            int64_t column = 0;
            for (; column + PIXELS < job.out_width; column += PIXELS) {
                column == 0 ? filter.run<PIXELS, STRIDE, true, false>(row, column)
                            : filter.run<PIXELS, STRIDE, false, false>(row, column);
            }
            run_end<PIXELS, STRIDE, RIGHT>(filter, row, column);
        }
    }
}

}  // namespace

void filter_channels(const FilterJob& job) {
    const bool right = (job.out_width - 1) * job.stride + 1 == job.width;
    if (job.stride == 1) return right ? run_rows<1, true>(job) : run_rows<1, false>(job);
    return right ? run_rows<2, true>(job) : run_rows<2, false>(job);
}

}  // namespace avx512
}  // namespace binaryrelax
