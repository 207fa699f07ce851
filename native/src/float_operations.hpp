// The operations of a network on float32 maps, NHWC. Each computes some rows of its output, so that threads can
// share them; a vector is a map of one pixel. They are right for every legal operation, and simple.
#pragma once

#include <cstdint>
#include <vector>

#include "network_file.hpp"

namespace binaryrelax {

struct Shape {
    int64_t images = 0, height = 1, width = 1, channels = 0;
    bool is_map = false;

    int64_t pixels() const { return images * height * width; }
    int64_t count() const { return pixels() * channels; }
    int64_t rows() const { return images * height; }
};

struct ConstMap {
    const float* data;
    Shape shape;
    const float* row(int64_t row) const { return data + row * shape.width * shape.channels; }
};

struct Map {
    float* data;
    Shape shape;
    float* row(int64_t row) const { return data + row * shape.width * shape.channels; }
};

// The shape of every value of the network for inputs of these shapes. Throws std::invalid_argument that names the
// operation and says why the inputs do not fit it, also where a value would have more than `most_values` numbers.
std::vector<Shape> infer_shapes(const NetworkFile& file, const std::vector<Shape>& inputs, int64_t most_values);

// x = activation(x), in place.
void apply_activation(const Activation& activation, float* x, int64_t count);

// Rows `begin` to `end` (counted over all images) of an operation that is neither conv nor linear. `floats` are the
// file's, for affine.
void run_float_operation(const Operation& operation, const std::vector<ConstMap>& in, const Map& out,
                         const NetworkFile& file, int64_t begin, int64_t end);

}  // namespace binaryrelax
