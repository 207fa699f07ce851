// The innermost loops, one set of them for each instruction set, and the layouts they agree on.
//
// The files that implement them are compiled for CPUs that the rest of the library may not run on. They
// therefore use nothing from the standard library: an inline function compiled with their flags could be the
// copy that the linker keeps for everybody.
#pragma once

#include <cstdint>

#include "float_kernels.hpp"

namespace binaryrelax {

constexpr int LANES = 16;               // outputs in a set: the lanes of a 512-bit register
constexpr int MAX_SETS = 4;             // sets in a panel
constexpr int PANEL = LANES * MAX_SETS; // outputs in a panel
constexpr int MAX_PIXELS = 6;           // pixels (rows of a matrix) that a kernel takes at once
constexpr int TABLE = 16;               // sums that a nibble of codes selects from
constexpr int NIBBLES_PER_WORD = 8;

// fp32 sums are moved into float64 totals after this many additions, which bounds their error.
constexpr int NIBBLES_PER_FLUSH = 128;

// Exact mode: totals[pixel][output of the panel] = sum over nibbles of table[nibble of the weights].
struct LookUpJob {
    const uint32_t* words;       // [word][set][lane]
    int sets;
    int64_t nibbles;
    const float* const* pixels;  // where the tables of each pixel start
    const int64_t* offsets;      // for each nibble: floats from there to its table
    int num_pixels;              // 1 to MAX_PIXELS
    double* totals;              // [num_pixels][PANEL], overwritten
};

// Fast mode for one row: totals[output] = sum over inputs of weight * x, weights expanded in registers.
struct CodeJob {
    const uint32_t* words;  // [word][set][lane]
    int sets;
    int64_t num_words;
    int bits;
    const int8_t* x;        // 32 / bits bytes for each word, shuffled by `shuffle`
    int32_t x_sum;
    int32_t* totals;        // [PANEL], overwritten
};

// Fast mode for many rows or pixels: weights already expanded to bytes.
struct ByteJob {
    const int8_t* panel;           // [quad][set][lane][4], values -1, 0, 1
    int sets;
    int64_t quads;
    const uint8_t* const* pixels;  // activations, 128 meaning zero
    const int64_t* offsets;        // for each quad: bytes from the pixel's start to its four activations
    int num_pixels;                // 1 to MAX_PIXELS
    const int32_t* start;          // [num_pixels][PANEL]: what the sums start from, pixels `start_stride` apart
    int64_t start_stride;
    int32_t* totals;               // [num_pixels][PANEL], overwritten
};

// The same for rows that lie at equal distances, where an instruction set multiplies whole blocks of them.
constexpr int ROW_BLOCK = 16;      // rows come in multiples of this
constexpr int QUAD_BLOCK = 16;     // and quads too: weights beyond the last one are zeros
constexpr int MAX_ROWS = 32;

struct RowsJob {
    const int8_t* panel;
    int sets;
    int64_t quads;               // a multiple of QUAD_BLOCK
    const uint8_t* rows;
    int64_t row_stride;
    int num_rows;                // a multiple of ROW_BLOCK
    const int32_t* corrections;
    int32_t* totals;             // [num_rows][PANEL], overwritten
};

// A whole network's layers, fast mode: some of the quads of a panel times the bytes of many pixels.
constexpr int MOST_PIXELS = 128;    // of a job
constexpr int GROUP = 16;           // pixels that an instruction set with tiles takes together

struct ChunkJob {
    const int8_t* panel;            // [quad][set][lane][4], values -1, 0, 1
    int sets;
    int64_t steps;                  // blocks of `quads_per_step` quads
    const int64_t* offsets;         // for each step: bytes from a pixel's start to its activations
    const uint8_t* const* pixels;   // [num_pixels]
    int64_t pixel_stride;           // bytes from one pixel to the next in a group of 16
    int num_pixels;                 // 1 to MOST_PIXELS
    int32_t* totals;                // [num_pixels, rounded up to a group][PANEL]
    bool first;                     // whether totals are written; else added to
    const int* slots = nullptr;     // [num_pixels]: which totals are a pixel's, where one quad is a step; null: all
};

// Codes that become weights in registers, where that costs nothing beside the products.
struct CodeRun {
    int64_t word;                   // of a panel's lines, where its codes begin
    int64_t quads;
    int64_t offset;                 // bytes from a pixel's start to its activations
};

struct WordsJob {
    const uint32_t* words;          // [word][set][lane], codes spread (`Tiles`)
    int sets;
    int bits;
    const CodeRun* runs;
    int64_t num_runs;
    const uint8_t* const* pixels;   // [num_pixels]
    int num_pixels;                 // 1 to MOST_PIXELS
    int32_t* totals;                // [slot][PANEL]
    bool first;                     // whether totals are written; else added to
    const int* slots;               // [num_pixels]: which totals are a pixel's; null: all
};

// One weight for each channel and tap: totals[pixel][channel] = sum over taps of weight * x.
struct DepthwiseJob {
    const uint8_t* const* pixels;   // [num_pixels]; `channels` bytes are read at each tap
    int num_pixels;
    int64_t channels;               // 1 to PANEL
    int64_t taps;
    const int64_t* offsets;         // [taps]
    const int8_t* weights;          // [tap][weights_stride]
    int64_t weights_stride;
    int32_t* totals;                // [num_pixels][PANEL]
};

// y = limit(factor * x_scale * (total + correction) + bias + added): written as bytes, rounded, or as floats.
struct OutputJob {
    const int32_t* totals;          // [num_pixels][PANEL]
    int num_pixels;
    int64_t outputs;                // of the panel
    const int32_t* corrections;     // [outputs]
    const float* factor;            // [outputs]
    const float* bias;              // [outputs]
    const float* x_scales;          // [num_pixels]; null: 1
    const uint8_t* const* added_bytes;  // [num_pixels], or null: added = added_scale * byte
    const float* const* added_floats;   // [num_pixels], or null: added = added_scale * float
    float added_scale;
    float low, high;                // limits of y; NaN stays NaN in floats
    uint8_t* const* bytes;          // [num_pixels], or null
    float* const* floats;           // [num_pixels] where bytes is null
    uint32_t* magnitude;            // null, or raised to the largest |y| of floats, as the bits of a float
};

// y[pixel][output] = scale[output] * total[pixel][output] + bias[output]
struct FinishJob {
    int num_pixels;
    int64_t outputs;        // of the panel
    const float* scale;
    const float* bias;      // or null
    const float* x_scales;  // fast mode: what a unit of each pixel's bytes is worth
    float* y;
    int64_t y_stride;
};

struct WinogradKernels;
struct TileInputJob;
struct TileOutputJob;

struct Kernels {
    const char* name;

    // Tables for `inputs` activations and as many zeros as make a multiple of 4; 4 activations to a table for
    // 1 bit, 2 for 2 bits.
    void (*build_tables)(const float* x, int64_t inputs, int bits, float* tables);
    void (*look_up)(const LookUpJob& job);

    // The largest |x|, as the bits of a float: these order like the floats, infinities and NaNs on top.
    uint32_t (*largest_magnitude)(const float* x, int64_t count);
    // out = round(x * inverse) ^ flip; with flip = 128 the byte is the signed value plus 128.
    void (*to_bytes)(const float* x, int64_t count, float inverse, uint8_t flip, uint8_t* out);
    // The order in which `dot_codes` meets the activations of each word: input 4i + j of a word of 16 goes to
    // place 4j + i (2 bits), input 8i + j of a word of 32 to place 4j + i (1 bit).
    void (*shuffle)(const int8_t* x, int64_t num_words, int bits, int8_t* out);
    void (*dot_codes)(const CodeJob& job);
    void (*expand)(const uint32_t* words, int sets, int64_t quads, int bits, int8_t* panel);
    void (*dot_bytes)(const ByteJob& job);
    void (*dot_rows)(const RowsJob& job);  // null where there is nothing better than dot_bytes

    // sums += weight * x, for weights -1, 0 and 1.
    void (*add_signed_floats)(const float* x, const int8_t* weights, int64_t count, float* sums);
    void (*add_signed_bytes)(const int8_t* x, const int8_t* weights, int64_t count, int32_t* sums);

    void (*finish_exact)(const double* totals, const FinishJob& job);
    void (*finish_fast)(const int32_t* totals, const FinishJob& job);

    // Whole networks in fast mode.
    int quads_per_step;              // that `multiply` takes at once
    void (*enter)();                 // before and after `multiply` on a thread; or null
    void (*leave)();
    void (*multiply)(const ChunkJob& job);
    void (*multiply_words)(const WordsJob& job);  // or null; then layers keep their codes spread for it
    void (*multiply_depthwise)(const DepthwiseJob& job);
    void (*write_outputs)(const OutputJob& job);
    // out = round(x * inverse + zero), between 0 and 255; NaN becomes `zero`
    void (*quantize)(const float* x, int64_t count, float inverse, float zero, uint8_t* out);

    const FloatKernels* floats;        // layers whose weights are floats
    const WinogradKernels* winograd;   // null where products are so quick that it does not pay
};

extern const Kernels PORTABLE_KERNELS;

}  // namespace binaryrelax
