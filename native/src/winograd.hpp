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
// The 16 bits of an input are multiplied as two bytes, the upper ones with 128 added.
#pragma once

#include <cstdint>

namespace binaryrelax {

constexpr int TILE = 4;                         // outputs along an edge
constexpr int TILE_FIELD = 6;                   // inputs along an edge
constexpr int POSITIONS = TILE_FIELD * TILE_FIELD;
constexpr int64_t TILE_CHANNELS = 64;           // channels come in multiples of this
constexpr int64_t MOST_TILE_SUM = 1 << 25;      // what |Y| must stay below

struct TileInputJob {
    const uint8_t* pixels;      // the first of 6 x 6
    int64_t row_stride, pixel_stride;
    int64_t channels;
    uint8_t* out;               // [position][position_stride]; of each: [upper, lower bytes][channels]
    int64_t position_stride;
};

// One of the six rows of G g G^T.
struct TileWeightJob {
    const int8_t* panel;        // [tap][stride]; of each: [quad of channels][set][lane][4]
    int64_t stride;             // bytes, of both
    int sets;
    int64_t channels;
    int row;
    int8_t* out;                // [6][stride]; of each the same
    int32_t* starts;            // [6][PANEL]: -128 times the sum of each output's
};

struct TileProductJob {
    const int8_t* weights;      // [quad][set][lane][4]
    int sets;
    int64_t channels;
    const int32_t* starts;      // [PANEL]
    const uint8_t* const* pixels;  // [num_pixels]: tiles, at one position
    int num_pixels;
    int32_t* products;          // [num_pixels][PANEL]
};

struct TileOutputJob {
    const int32_t* products;    // [position][position_stride]; of each, a panel
    int64_t position_stride;
    int sets;
    int32_t* totals;            // [16 outputs][PANEL]
};

struct WinogradKernels {
    void (*transform_input)(const TileInputJob& job);
    void (*transform_weights)(const TileWeightJob& job);
    void (*multiply)(const TileProductJob& job);
    void (*transform_output)(const TileOutputJob& job);
};

}  // namespace binaryrelax
