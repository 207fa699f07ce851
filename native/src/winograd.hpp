// Convolutions of 3 x 3 with a quarter of the products (Winograd's F(4 x 4, 3 x 3)), in integers and exact.
//
// A tile of 6 x 6 inputs gives 4 x 4 outputs: Y = A^T [(G g G^T) * (B^T d B)] A, summed over channels between the
// brackets. G has fractions; rows scaled to integers make 576 Y instead, of which the lowest 32 bits are computed.
// 576 = 9 * 64: times the inverse of 9 modulo 2^32, 64 Y is left, exactly, where |Y| < 2^25.
//
//   B^T d (16 bits)                 G g (a byte: at most 49)      24 A^T m
//   c + 4 (d0 - d2)                 g0                            6 m0 + 4 s + t
//   a + b                           g0 + g1 + g2                  4 u + 2 v
//   a - b                           g0 - g1 + g2                  4 s + 4 t
//   c + e                           g0 + 2 g1 + 4 g2              4 u + 8 v + 24 m5
//   c - e                           g0 - 2 g1 + 4 g2
//   d5 - d3 - 2 e                   g2
//
//   a = 4 d2 - d4, b = 4 d1 - d3, c = d4 - d2, e = 2 (d3 - d1); s, u = m1 +- m2; t, v = m3 +- m4
//
// The 16 bits of an input are multiplied as two bytes, the upper ones with 128 added. So sums start from -128 times the
// sum of an output's weights, at each position.
#pragma once

#include <cstdint>

#include "kernels.hpp"

namespace binaryrelax {

constexpr int TILE = 4;                         // outputs along an edge
constexpr int TILE_FIELD = 6;                   // inputs along an edge
constexpr int POSITIONS = TILE_FIELD * TILE_FIELD;
constexpr int64_t TILE_CHANNELS = 64;           // channels come in multiples of this
constexpr int64_t MOST_TILE_SUM = 1 << 25;      // what |Y| must stay below
constexpr int TILE_GROUP = 4;                   // tiles whose inputs lie together

// Transformed inputs: [group of tiles][position][64 channels][tile of the group][upper, lower bytes][channel].
struct TileLayout {
    static constexpr int64_t TILE_BYTES = 2 * TILE_CHANNELS;
    static constexpr int64_t BLOCK = TILE_GROUP * TILE_BYTES;  // from 64 channels to the next
    int64_t position, group;                                   // bytes from one to the next

    // Positions do not lie at multiples of a page: they would fall on one another in the caches.
    explicit TileLayout(int64_t channels)
        : position(channels / TILE_CHANNELS * BLOCK + TILE_CHANNELS), group(POSITIONS * position) {}
    int64_t place(int64_t tile) const { return tile / TILE_GROUP * group + tile % TILE_GROUP * TILE_BYTES; }
};

struct TileInputJob {
    const uint8_t* pixels;      // the first of 6 x 6
    int64_t row_stride, pixel_stride;
    int64_t channels;
    uint8_t* out;               // the tile's place
    int64_t position_stride;
};

// A panel's weights, as the kernels want them for all tiles.
struct TileWeightJob {
    const uint32_t* words;      // [tap][word][set][lane]
    int sets;
    int bits;
    int64_t channels;
    uint8_t* out;               // `kept_lines` times `tile_line`
};

struct TileProductJob {
    const uint8_t* weights;     // made by `keep_weights`
    uint8_t* room;              // `room_lines` times `tile_line`
    int sets;
    int bits;
    int64_t channels;
    const uint8_t* tiles;       // the first one begins a group
    int64_t position_stride, group_stride;
    int num_tiles;
    int32_t* products;          // [position][position_products]; of each [tile][PANEL]
    int64_t position_products;
};

struct TileOutputJob {
    const int32_t* products;    // [position][position_stride]; of each, a panel
    int64_t position_stride;
    int sets;
    int32_t* totals;            // [16 outputs][PANEL]
};

// Bytes for one weight of each channel and output, and for some sums. Lines do not lie at multiples of a page.
constexpr int64_t tile_line(int64_t channels, int sets) {
    return channels * sets * LANES + 12 * PANEL * static_cast<int64_t>(sizeof(int32_t)) + 2 * LANES * 4;
}

struct WinogradKernels {
    int kept_lines, room_lines;
    double work_of_weights;     // beside the products of a tile, which are 18
    int tiles_at_once;          // of which fewer take as long
    void (*transform_input)(const TileInputJob& job);
    void (*keep_weights)(const TileWeightJob& job);
    void (*multiply)(const TileProductJob& job);
    void (*transform_output)(const TileOutputJob& job);
};

}  // namespace binaryrelax
