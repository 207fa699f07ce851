// Products of Winograd's tiles with weights in bytes, with AVX-512 and VNNI.
#pragma once

#include "avx512_multiply.hpp"
#include "winograd.hpp"

namespace binaryrelax {
namespace avx512 {
namespace {

// The products of all tiles at one position.
struct PositionJob {
    const int8_t* weights;   // [quad of channels][set][lane][4]
    int sets;
    int64_t channels;
    const int32_t* starts;
    const uint8_t* tiles;
    int64_t group_stride;
    int num_pixels;         // tiles
    int32_t* products;
};

template <int PIXELS, int SETS>
struct MultiplyTiles {
    static void run(const PositionJob& job, int first_pixel) {
        const uint8_t* pixels[PIXELS];
        __m512i upper[PIXELS][SETS], lower[PIXELS][SETS];
        UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
            const int tile = first_pixel + pixel;
            pixels[pixel] = job.tiles + tile / TILE_GROUP * job.group_stride + tile % TILE_GROUP * TileLayout::TILE_BYTES;
            UNROLL for (int set = 0; set < SETS; ++set) {
                upper[pixel][set] = lower[pixel][set] = _mm512_setzero_si512();
            }
        }
        const int8_t* weights = job.weights;
        for (int64_t channel = 0; channel < job.channels; channel += 4, weights += SETS * LANES * 4) {
            const int64_t offset = channel / TILE_CHANNELS * TileLayout::BLOCK + channel % TILE_CHANNELS;
            __m512i four[SETS];
            UNROLL for (int set = 0; set < SETS; ++set) four[set] = _mm512_loadu_si512(weights + set * LANES * 4);
            UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                const __m512i high = four_bytes(pixels[pixel] + offset);
                const __m512i low = four_bytes(pixels[pixel] + offset + TILE_CHANNELS);
                UNROLL for (int set = 0; set < SETS; ++set) {
                    upper[pixel][set] = _mm512_dpbusd_epi32(upper[pixel][set], high, four[set]);
                    lower[pixel][set] = _mm512_dpbusd_epi32(lower[pixel][set], low, four[set]);
                    hold(upper[pixel][set]);
                    hold(lower[pixel][set]);
                }
            }
        }
        UNROLL for (int set = 0; set < SETS; ++set) {
            const __m512i start = _mm512_loadu_si512(job.starts + set * LANES);
            UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                const __m512i high = _mm512_slli_epi32(_mm512_add_epi32(upper[pixel][set], start), 8);
                _mm512_storeu_si512(job.products + (first_pixel + pixel) * PANEL + set * LANES,
                                    _mm512_add_epi32(high, lower[pixel][set]));
            }
        }
    }
};

}  // namespace
}  // namespace avx512
}  // namespace binaryrelax
