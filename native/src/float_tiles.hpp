// Convolutions of 3 x 3 in float32 with fewer products (Winograd's F(2 x 2, 3 x 3)): 16 instead of 36.
//
// A tile of 4 x 4 inputs gives 2 x 2 outputs: Y = A^T [(G g G^T) * (B^T d B)] A, summed over channels between the
// brackets. Of each line:
//
//   B^T d        2 G g             A^T m
//   d0 - d2      2 g0              (m0 + m1) + m2
//   d1 + d2      g0 + g1 + g2      (m1 - m2) - m3
//   d2 - d1      g0 - g1 + g2
//   d1 - d3      2 g2
//
// Weights are codes, -1, 0 and 1. So 4 G g G^T is whole numbers up to 9, in any order of additions, and a quarter of
// the scale makes up for the 4. Inputs and outputs are rounded in the order above, columns before rows.
#pragma once

#include <cstdint>

namespace binaryrelax {

constexpr int FLOAT_TILE = 2;         // outputs along an edge
constexpr int FLOAT_TILE_FIELD = 4;   // inputs along an edge
constexpr int FLOAT_POSITIONS = FLOAT_TILE_FIELD * FLOAT_TILE_FIELD;
constexpr int64_t FLOAT_TILE_CHANNELS = 16;  // channels come in multiples of this

// B^T d B of tiles that lie side by side. What lies outside the image is zero.
struct TileFieldJob {
    const float* image;      // NHWC
    int64_t height, width, channels;
    int64_t first_row, first_column;  // where the first tile begins, which may be outside
    int64_t num_tiles;
    float* out;              // [position][position_stride]; of each [tile][channel]
    int64_t position_stride;
};

// 4 G g G^T for some of the channels.
struct TileLevelJob {
    const uint32_t* words;   // [word][line]: the codes of the sets wanted, [tap][channel]
    int64_t line;            // words from one to the next
    int bits;                // 1 or 2
    int sets;
    int64_t channels;        // of a tap
    int64_t first_channel, count;  // multiples of FLOAT_TILE_CHANNELS
    float* out;              // [position][position_stride]; of each [channel][set][lane]
    int64_t position_stride;
};

// A^T m A of tiles that lie side by side.
struct TileSumJob {
    const float* sums;       // [position][position_stride]; of each [tile][set][lane]
    int64_t position_stride;
    int64_t num_tiles;
    int sets;
    float* out;              // [FLOAT_TILE][row_stride]; of each row [pixel][set][lane]
    int64_t row_stride;
};

struct FloatTileKernels {
    void (*transform_fields)(const TileFieldJob& job);
    void (*transform_levels)(const TileLevelJob& job);
    void (*transform_sums)(const TileSumJob& job);
};

extern const FloatTileKernels PORTABLE_FLOAT_TILES;
namespace avx2 {
extern const FloatTileKernels FLOAT_TILES;
}
namespace avx512 {
extern const FloatTileKernels FLOAT_TILES;
}

}  // namespace binaryrelax
