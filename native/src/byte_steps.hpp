// The steps of a plan that read or write activations as bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "network_layers.hpp"
#include "plan.hpp"

namespace binaryrelax {

// A value kept as bytes: where, and what a byte of it stands for. The border and the bytes between channels and record
// hold the byte of zero.
struct ByteMap {
    int buffer = -1;
    ByteLayout layout;
    Shape shape;
    int zero = 0;
    float scale = 0.0f;  // where `scales` is -1
    int scales = -1;     // buffer: a float for each image, NaN where the image is not finite
};

// A value kept as floats, NHWC; or as the caller gave it, NCHW, where `input` is not -1.
//
// Behind measured floats lie largest magnitudes, as the bits of floats: [part][image]. All parts together make an image.
struct FloatMap {
    int buffer = -1;
    int input = -1;
    Shape shape;
    bool is_measured = false;

    uint32_t* magnitudes(const Bound& bound) const { return bound.at<uint32_t>(buffer) + shape.count(); }
};

constexpr int64_t PIECES = 8;  // of an image, that the search for its largest magnitude is shared by

struct Magnitudes {
    int buffer = -1;      // -1: there are none
    int64_t offset = 0;   // of the first, in numbers of 32 bits
    int64_t parts = 0;
};

// What no pixel writes: the border, and a record's bytes behind its channels.
void fill_border(const Bound& bound, const ByteMap& map, int64_t image);
void fill_unused(const Bound& bound, const ByteMap& map, int64_t image);

// The largest magnitude of each piece of each image, as the bits of a float: [piece][image].
Step measure_step(const std::string& name, const FloatMap& from, int magnitudes, const Kernels& kernels);

// Floats as bytes. With `magnitudes`, every image gets a scale of its own; else the map has one. Images with values
// that are not finite are marked in `poison`: no byte of a later layer could say it.
Step quantize_step(const std::string& name, const FloatMap& from, const ByteMap& to, Magnitudes magnitudes, int poison,
                   const Kernels& kernels);

// Bytes as floats.
Step dequantize_step(const std::string& name, const ByteMap& from, const FloatMap& to);

// What each pixel of a layer's output reads, in rows: [group][pixel][layer.gathered_bytes()].
Step gather_step(const std::string& name, const ByteLayer& layer, const ByteMap& from, Shape output, int rows);
int64_t gathered_size(const ByteLayer& layer, Shape output);

// How a layer finds its activations.
enum class Access {
    Anywhere,  // pixel by pixel
    Rows,      // pixels of an output row lie at equal distances
    Matrix,    // all pixels lie at equal distances: nothing but one tap
    Gathered   // rows that were gathered
};
Access access_of(const ByteLayer& layer, const ByteLayout& layout, Shape output);
// Whether it will be Gathered whatever the border is.
bool will_gather(const ByteLayer& layer, Shape output);

struct Target {
    const ByteMap* bytes = nullptr;   // one of the two
    const FloatMap* floats = nullptr;
};
struct Added {
    const ByteMap* bytes = nullptr;   // one of the two, or neither
    const FloatMap* floats = nullptr;
};
Step multiply_step(const std::string& name, const OperationLayer& layer, const ByteMap& from, int rows, Access access,
                   Added added, Target to, Shape output, int threads);

// The same by Winograd's products (`winograd.hpp`), where that is quicker: first its inputs are written as tiles.
bool pays_to_tile(const ByteLayer& layer, const Shape& output, int threads);
int64_t beyond_tiles(const Axis& axis, int64_t outputs, int64_t inputs);  // what tiles read behind the last input
int64_t tiles_size(const ByteLayer& layer, const Shape& output);
Step tile_step(const std::string& name, const ByteLayer& layer, const ByteMap& from, const Shape& output, int tiles);
Step winograd_step(const std::string& name, const OperationLayer& layer, const ByteMap& from, int tiles, Added added,
                   Target to, const Shape& output, int threads);

Step average_bytes_step(const std::string& name, const ByteMap& from, const FloatMap& to);

// What follows keeps the code of the bytes.
Step pool_bytes_step(const std::string& name, const Operation& pool, const ByteMap& from, const ByteMap& to);

// Any number of slices and paddings in one: where each channel, row and column comes from; -1: from nowhere.
struct Rearrangement {
    std::vector<int64_t> sources[3];

    static Rearrangement none(const Shape& shape);
    Rearrangement then(const Operation& operation, const Shape& out) const;
};
Step rearrange_step(const std::string& name, const Rearrangement& how, const ByteMap& from, const ByteMap& to);

}  // namespace binaryrelax
