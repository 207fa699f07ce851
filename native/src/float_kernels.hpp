// The innermost loops of layers in float32, and the layouts they agree on. What `kernels.hpp` says about the files
// that implement them holds here too.
#pragma once

#include <cstdint>

#include "float_tiles.hpp"

namespace binaryrelax {

constexpr int FLOAT_PIXELS = 24;  // of a job; every register block divides it

// Inputs that lie next to each other.
struct FloatRun {
    int64_t offset;  // floats from a pixel's start
    int64_t length;
};

// y = limit(factor * total + bias + added); the totals may be y itself.
struct FloatFinish {
    const float* totals;
    int64_t totals_stride;
    int64_t num_pixels;
    int64_t outputs;
    const float* factor;           // or null
    const float* bias;             // or null
    float low, high;               // NaN stays NaN
    float* y;
    int64_t y_stride;
    const float* added = nullptr;  // or null; pixels as far apart as those of y
};

// sums[pixel][output of the panel] = sum over the runs' inputs of weight * x, in their order.
struct FloatJob {
    const float* panel;          // [input][set][lane]
    int sets;
    const FloatRun* runs;
    int64_t num_runs;
    const float* const* pixels;
    int num_pixels;              // 1 to FLOAT_PIXELS
    float* totals;               // [num_pixels][totals_stride]
    int64_t totals_stride;
    bool first;                  // whether the sums are written to the totals; else they are added
    const FloatFinish* finish;   // null while more is to be added; else what becomes of these totals
};

// Where every output reads one channel: y[pixel][channel] = sum over taps of weight * x.
struct ChannelJob {
    const float* x;              // the first pixel
    int64_t x_stride;            // floats to the next pixel
    const int64_t* offsets;      // [taps]: floats from a pixel to the tap's activations
    const float* const* weights; // [taps], each [channels]
    int64_t taps;
    int64_t channels;
    int64_t num_pixels;
    float* y;
    int64_t y_stride;
};

// The same for 3 x 3 taps of a whole band of rows, and what becomes of the sums: y, `added` and the strides are those of
// the finish, whose totals do not count. Taps outside the image are left out; sums take the others in their order.
struct FilterJob {
    const float* image;          // NHWC, from the first channel wanted on; the finish says how many, a multiple of 16
    int64_t height, width, channels;  // channels: floats from a pixel to the next
    int64_t stride;              // 1 or 2, along both axes
    int64_t top;                 // padding; on the left it is 1, and on the right at most 1 column is read of it
    const float* weights;        // [tap][weights_stride]
    int64_t weights_stride;
    int64_t first_row, num_rows, out_width;
    FloatFinish finish;
};

// panel[input][set][lane] = level of the code * scale
struct LevelJob {
    const uint32_t* words;         // [word][set][lane], the first input in the lowest bits
    int bits;                      // 1, 2, 4 or 8
    int sets;
    int64_t inputs;
    const float* levels;           // repeated until they are 256
    const float* scales;           // [scale][set][lane]
    const int32_t* scale_of_input; // null: the first for all
    float* panel;
};

struct FloatKernels {
    void (*dot_floats)(const FloatJob& job);
    void (*dot_channels)(const ChannelJob& job);
    void (*expand_levels)(const LevelJob& job);
    void (*finish_floats)(const FloatFinish& job);
    void (*filter_channels)(const FilterJob& job);  // or null
    const FloatTileKernels* tiles;
};

extern const FloatKernels PORTABLE_FLOATS;
namespace avx2 {
extern const FloatKernels FLOATS;
}
namespace avx512 {
extern const FloatKernels FLOATS;
}

}  // namespace binaryrelax
