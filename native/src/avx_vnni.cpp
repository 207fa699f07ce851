// Fast mode with AVX-VNNI, on CPUs that have `vpdpbusd` for 256-bit registers alone.
#include "avx2.hpp"
#include "network_loops.hpp"

namespace binaryrelax {
namespace avx_vnni {
namespace {

using avx2::HALF;
using avx2::load;

// One set: two registers of sums for each pixel.
template <int PIXELS>
void dot_set(const ByteJob& job, int set) {
    __m256i sums[PIXELS][2];
    UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
        const int32_t* start = job.start + pixel * job.start_stride + set * LANES;
        sums[pixel][0] = load(start);
        sums[pixel][1] = load(start + HALF);
    }
    const int8_t* weights = job.panel + set * LANES * 4;
    for (int64_t quad = 0; quad < job.quads; ++quad, weights += job.sets * LANES * 4) {
        const __m256i first = load(weights), second = load(weights + HALF * 4);
        const int64_t offset = job.offsets[quad];
        UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            const __m256i x = avx2::broadcast_four(job.pixels[pixel] + offset);
            sums[pixel][0] = _mm256_dpbusd_avx_epi32(sums[pixel][0], x, first);
            sums[pixel][1] = _mm256_dpbusd_avx_epi32(sums[pixel][1], x, second);
        }
    }
    UNROLL for (int pixel = 0; pixel < PIXELS; ++pixel) {
        avx2::store(job.totals + pixel * PANEL + set * LANES, sums[pixel][0]);
        avx2::store(job.totals + pixel * PANEL + set * LANES + HALF, sums[pixel][1]);
    }
}

}  // namespace

void dot_bytes(const ByteJob& job) {
    static constexpr void (*RUNS[MAX_PIXELS])(const ByteJob&, int) = {dot_set<1>, dot_set<2>, dot_set<3>,
                                                                      dot_set<4>, dot_set<5>, dot_set<6>};
    for (int set = 0; set < job.sets; ++set) RUNS[job.num_pixels - 1](job, set);
}

void multiply(const ChunkJob& job) { multiply_by_pixels(job, dot_bytes); }

}  // namespace avx_vnni
}  // namespace binaryrelax
