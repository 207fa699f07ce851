#include "depthwise.hpp"

#include <algorithm>

#include "activations.hpp"
#include "thread_pool.hpp"

namespace binaryrelax {
namespace {

// fp32 sums move to float64 after this many additions.
constexpr int TAPS_PER_FLUSH = 128;

// The sums of one output pixel.
struct ExactSums {
    std::vector<float> sums;
    std::vector<double> totals;
    int added = 0;

    explicit ExactSums(int64_t outputs)
        : sums(static_cast<size_t>(outputs)), totals(static_cast<size_t>(outputs)) {}

    void clear() {
        std::fill(sums.begin(), sums.end(), 0.0f);
        std::fill(totals.begin(), totals.end(), 0.0);
        added = 0;
    }

    void add(const Kernels& kernels, const float* x, const int8_t* weights) {
        kernels.add_signed_floats(x, weights, static_cast<int64_t>(sums.size()), sums.data());
        if (++added % TAPS_PER_FLUSH == 0) flush();
    }

    const double* flush() {
        for (size_t i = 0; i < sums.size(); ++i) totals[i] += sums[i];
        std::fill(sums.begin(), sums.end(), 0.0f);
        return totals.data();
    }
};

struct ByteImages {
    std::vector<int8_t> values;
    std::vector<float> scales;
};

ByteImages to_byte_images(const Kernels& kernels, const float* x, int64_t images, int64_t image_size) {
    ByteImages bytes;
    bytes.values.resize(static_cast<size_t>(images * image_size));
    for (int64_t image = 0; image < images; ++image) {
        const float* values = x + image * image_size;
        const ByteScale scale(kernels.largest_magnitude(values, image_size));
        scale.to_bytes(kernels, values, image_size, 0,
                       reinterpret_cast<uint8_t*>(bytes.values.data()) + image * image_size);
        bytes.scales.push_back(scale.scale());
    }
    return bytes;
}

// Calls visit(tap, offset of the input pixel) for every tap of an output pixel that lies inside the image.
template <typename Visit>
void for_each_tap(const Geometry& geometry, Image input, int64_t row, int64_t column, Visit visit) {
    const Axis &vertical = geometry.vertical, &horizontal = geometry.horizontal;
    for (int64_t i = 0; i < vertical.kernel; ++i) {
        const int64_t y = row * vertical.stride - vertical.padding + i * vertical.dilation;
        if (y < 0 || y >= input.height) continue;
        for (int64_t j = 0; j < horizontal.kernel; ++j) {
            const int64_t x = column * horizontal.stride - horizontal.padding + j * horizontal.dilation;
            if (x < 0 || x >= input.width) continue;
            visit(i * horizontal.kernel + j, (y * input.width + x) * geometry.channels());
        }
    }
}

}  // namespace

DepthwiseCodes::DepthwiseCodes(const CanonicalCodes& codes, const Geometry& geometry) {
    for (int64_t tap = 0; tap < geometry.taps(); ++tap) {
        for (int64_t output = 0; output < geometry.outputs; ++output) {
            const int code = static_cast<int>(codes.code(output, tap));
            weights_.push_back(static_cast<int8_t>(codes.bits == 1 ? 2 * code - 1 : code - 1));
        }
    }
}

// The activation that each output reads; x itself where every channel has one output.
template <typename Element>
const Element* DepthwiseCodes::spread(const Geometry& geometry, const Element* x, std::vector<Element>& room) const {
    const int64_t multiplier = geometry.outputs_in_group();
    if (multiplier == 1) return x;
    room.resize(static_cast<size_t>(geometry.outputs));
    for (int64_t channel = 0; channel < geometry.groups; ++channel) {
        std::fill_n(room.begin() + channel * multiplier, multiplier, x[channel]);
    }
    return room.data();
}

void DepthwiseCodes::convolve_exact(const Layer& layer, const Call& call) const {
    const Geometry& geometry = layer.geometry;
    Shares rows(call.images * call.output.height, 1);
    auto work = [&] {
        ExactSums sums(geometry.outputs);
        std::vector<float> room;
        for (int64_t row, end; rows.take(row, end);) {
            const float* image = call.image(geometry, row / call.output.height);
            for (int64_t column = 0; column < call.output.width; ++column) {
                sums.clear();
                for_each_tap(geometry, call.input, row % call.output.height, column,
                             [&](int64_t tap, int64_t offset) {
                                 sums.add(*layer.kernels, spread(geometry, image + offset, room),
                                          weights_.data() + tap * geometry.outputs);
                             });
                float* y = call.y + (row * call.output.width + column) * geometry.outputs;
                layer.kernels->finish_exact(
                    sums.flush(), {1, geometry.outputs, layer.scale.data(), call.bias, nullptr, y, 0});
            }
        }
    };
    run_in_threads(call.threads, work);
}

void DepthwiseCodes::convolve_fast(const Layer& layer, const Call& call) const {
    const Geometry& geometry = layer.geometry;
    const int64_t image_size = call.image(geometry, 1) - call.x;
    const ByteImages bytes = to_byte_images(*layer.kernels, call.x, call.images, image_size);
    Shares rows(call.images * call.output.height, 1);
    auto work = [&] {
        std::vector<int32_t> totals(static_cast<size_t>(geometry.outputs));
        std::vector<int8_t> room;
        for (int64_t row, end; rows.take(row, end);) {
            const int64_t image = row / call.output.height;
            for (int64_t column = 0; column < call.output.width; ++column) {
                std::fill(totals.begin(), totals.end(), 0);
                for_each_tap(geometry, call.input, row % call.output.height, column,
                             [&](int64_t tap, int64_t offset) {
                                 const int8_t* x = bytes.values.data() + image * image_size + offset;
                                 layer.kernels->add_signed_bytes(
                                     spread(geometry, x, room), weights_.data() + tap * geometry.outputs,
                                     geometry.outputs, totals.data());
                             });
                float* y = call.y + (row * call.output.width + column) * geometry.outputs;
                layer.kernels->finish_fast(totals.data(), {1, geometry.outputs, layer.scale.data(), call.bias,
                                                           &bytes.scales[image], y, 0});
            }
        }
    };
    run_in_threads(call.threads, work);
}

}  // namespace binaryrelax
