#include "byte_steps.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

namespace binaryrelax {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

void fill_pixels(uint8_t* out, int64_t pixels, const ByteMap& map) {
    std::memset(out, map.zero, static_cast<size_t>(pixels * map.layout.record));
}

// A row of the image in NHWC, from wherever it is.
const float* row_of(const Bound& bound, const FloatMap& map, int64_t image, int64_t row, std::vector<float>& room) {
    const Shape& shape = map.shape;
    const int64_t size = shape.width * shape.channels;
    if (map.input < 0) return bound.at<const float>(map.buffer) + (image * shape.height + row) * size;
    const float* source = bound.input(map.input) + image * shape.height * size;
    if (shape.channels == 1 || shape.height * shape.width == 1) return source + row * size;
    room.resize(static_cast<size_t>(size));
    for (int64_t channel = 0; channel < shape.channels; ++channel) {
        const float* plane = source + (channel * shape.height + row) * shape.width;
        for (int64_t x = 0; x < shape.width; ++x) room[x * shape.channels + channel] = plane[x];
    }
    return room.data();
}

float magnitude_of(const uint32_t* pieces) {
    const uint32_t bits = *std::max_element(pieces, pieces + PIECES);
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
    return magnitude;
}

// The scale of an image, so that its largest magnitude takes all of a byte's numbers on one side of zero.
float scale_of(const uint32_t* pieces, int zero) {
    const float magnitude = magnitude_of(pieces);
    if (!std::isfinite(magnitude)) return std::numeric_limits<float>::quiet_NaN();
    return std::max(magnitude, 1e-34f) / static_cast<float>(zero == 0 ? 255 : 127);
}

}  // namespace

void fill_border(const Bound& bound, const ByteMap& map, int64_t image) {
    const ByteLayout& layout = map.layout;
    uint8_t* start = bound.at<uint8_t>(map.buffer) + image * layout.image_bytes;
    const int64_t width = layout.row_bytes / layout.record, height = map.shape.height;
    fill_pixels(start, layout.top * width, map);
    fill_pixels(start + (layout.top + height) * layout.row_bytes, layout.bottom * width, map);
    for (int64_t row = 0; row < height && layout.left + layout.right > 0; ++row) {
        uint8_t* line = start + (layout.top + row) * layout.row_bytes;
        fill_pixels(line, layout.left, map);
        fill_pixels(line + (layout.left + map.shape.width) * layout.record, layout.right, map);
    }
    const int64_t unused = layout.record - map.shape.channels;
    if (unused == 0) return;
    for (int64_t row = 0; row < height; ++row) {
        uint8_t* pixel = bound.at<uint8_t>(map.buffer) + layout.pixel(image, row, 0) + map.shape.channels;
        for (int64_t x = 0; x < map.shape.width; ++x, pixel += layout.record) {
            std::memset(pixel, map.zero, static_cast<size_t>(unused));
        }
    }
}

Step measure_step(const std::string& name, const FloatMap& from, int magnitudes, const Kernels& kernels) {
    const int64_t size = from.shape.height * from.shape.width * from.shape.channels;
    auto run = [=, &kernels](const Bound& bound, int64_t unit) {
        const float* image = from.input < 0 ? bound.at<const float>(from.buffer) : bound.input(from.input);
        const float* x = image + unit / PIECES * size;
        const int64_t begin = unit % PIECES * size / PIECES, end = (unit % PIECES + 1) * size / PIECES;
        bound.at<uint32_t>(magnitudes)[unit] = kernels.largest_magnitude(x + begin, end - begin);
    };
    return {name + ": measure", from.shape.images * PIECES, {from.buffer}, magnitudes, run};
}

Step quantize_step(const std::string& name, const FloatMap& from, const ByteMap& to, int magnitudes, int poison,
                   const Kernels& kernels) {
    const Shape shape = from.shape;
    auto run = [=, &kernels](const Bound& bound, int64_t unit) {
        if (unit >= shape.rows()) {
            fill_border(bound, to, unit - shape.rows());
            return;
        }
        const int64_t image = unit / shape.height, y = unit % shape.height;
        thread_local std::vector<float> room;
        const float* row = row_of(bound, from, image, y, room);
        float scale = to.scale;
        bool is_finite;
        if (magnitudes >= 0) {
            scale = scale_of(bound.at<const uint32_t>(magnitudes) + image * PIECES, to.zero);
            is_finite = !std::isnan(scale);
            if (y == 0) bound.at<float>(to.scales)[image] = scale;
        } else {
            is_finite = kernels.largest_magnitude(row, shape.width * shape.channels) < 0x7f800000u;
        }
        if (!is_finite) bound.at<std::atomic<uint8_t>>(poison)[image].store(1, std::memory_order_relaxed);
        const float inverse = std::isnan(scale) ? 0.0f : 1.0f / scale, zero = static_cast<float>(to.zero);
        uint8_t* out = bound.at<uint8_t>(to.buffer) + to.layout.pixel(image, y, 0);
        if (to.layout.record == shape.channels) {
            kernels.quantize(row, shape.width * shape.channels, inverse, zero, out);
            return;
        }
        thread_local std::vector<uint8_t> bytes;
        bytes.resize(static_cast<size_t>(shape.width * shape.channels));
        kernels.quantize(row, shape.width * shape.channels, inverse, zero, bytes.data());
        for (int64_t x = 0; x < shape.width; ++x, out += to.layout.record) {
            for (int64_t c = 0; c < shape.channels; ++c) out[c] = bytes[x * shape.channels + c];
        }
    };
    Step step{name + ": to bytes", shape.rows() + shape.images, {from.buffer}, to.buffer, run};
    if (magnitudes >= 0) step.reads.push_back(magnitudes);
    if (to.scales >= 0) step.reads.push_back(to.scales);
    if (poison >= 0) step.reads.push_back(poison);
    return step;
}

Step dequantize_step(const std::string& name, const ByteMap& from, const FloatMap& to) {
    const Shape shape = to.shape;
    auto run = [=](const Bound& bound, int64_t unit) {
        const int64_t image = unit / shape.height, y = unit % shape.height;
        const uint8_t* in = bound.at<const uint8_t>(from.buffer) + from.layout.pixel(image, y, 0);
        float* out = bound.at<float>(to.buffer) + unit * shape.width * shape.channels;
        const float scale = from.scales < 0 ? from.scale : bound.at<const float>(from.scales)[image];
        for (int64_t x = 0; x < shape.width; ++x, in += from.layout.record, out += shape.channels) {
            for (int64_t c = 0; c < shape.channels; ++c) out[c] = scale * static_cast<float>(in[c] - from.zero);
        }
    };
    Step step{name + ": to floats", shape.rows(), {from.buffer}, to.buffer, run};
    if (from.scales >= 0) step.reads.push_back(from.scales);
    return step;
}

int64_t gathered_size(const ByteLayer& layer, Shape output) {
    const int64_t pixels = divide_up(output.pixels(), GROUP) * GROUP;
    return layer.groups() * pixels * layer.gathered_bytes() + ByteLayout::SLACK;
}

Step gather_step(const std::string& name, const ByteLayer& layer, const ByteMap& from, Shape output, int rows) {
    const Geometry& geometry = layer.geometry();
    const int64_t row_bytes = layer.gathered_bytes(), channels = geometry.padded_inputs_in_group();
    const int64_t pixels = divide_up(output.pixels(), GROUP) * GROUP;
    struct Stretch {
        int64_t from, to, bytes;
    };
    std::vector<Stretch> stretches;
    for (size_t run = 0; run < layer.runs().size(); ++run) {
        const ByteLayer::Run& found = layer.runs()[run];
        const int64_t offset = found.row * geometry.vertical.dilation * from.layout.row_bytes +
                               found.column * geometry.horizontal.dilation * from.layout.record;
        stretches.push_back({offset, layer.gathered_run(static_cast<int64_t>(run)), found.bytes});
    }
    auto work = [=, &geometry](const Bound& bound, int64_t unit) {
        const int64_t group = unit / output.rows(), row = unit % output.rows();
        const int64_t image = row / output.height, y = row % output.height;
        uint8_t* out = bound.at<uint8_t>(rows) + (group * pixels + row * output.width) * row_bytes;
        const uint8_t* map = bound.at<const uint8_t>(from.buffer) + group * channels;
        for (int64_t x = 0; x < output.width; ++x, out += row_bytes) {
            const uint8_t* pixel =
                map + from.layout.pixel(image, y * geometry.vertical.stride - geometry.vertical.padding,
                                        x * geometry.horizontal.stride - geometry.horizontal.padding);
            for (const Stretch& stretch : stretches) {
                std::memcpy(out + stretch.to, pixel + stretch.from, static_cast<size_t>(stretch.bytes));
            }
        }
    };
    return {name + ": gather", layer.groups() * output.rows(), {from.buffer}, rows, work};
}

Step average_bytes_step(const std::string& name, const ByteMap& from, const FloatMap& to) {
    const Shape in = from.shape;
    auto run = [=](const Bound& bound, int64_t image) {
        thread_local std::vector<int32_t> sums;
        sums.assign(static_cast<size_t>(in.channels), 0);
        for (int64_t y = 0; y < in.height; ++y) {
            const uint8_t* pixel = bound.at<const uint8_t>(from.buffer) + from.layout.pixel(image, y, 0);
            for (int64_t x = 0; x < in.width; ++x, pixel += from.layout.record) {
                for (int64_t c = 0; c < in.channels; ++c) sums[c] += pixel[c];
            }
        }
        const double pixels = static_cast<double>(in.height * in.width);
        float* out = bound.at<float>(to.buffer) + image * in.channels;
        for (int64_t c = 0; c < in.channels; ++c) {
            out[c] = static_cast<float>(from.scale * (sums[c] / pixels - from.zero));
        }
    };
    return {name, in.images, {from.buffer}, to.buffer, run};
}

namespace {

void pool_row(const Operation& pool, const uint8_t* map, const ByteMap& from, int64_t image, int64_t y, int64_t width,
              int64_t record, uint8_t* out) {
    const Shape& in = from.shape;
    for (int64_t x = 0; x < width; ++x, out += record) {
        std::memset(out, 0, static_cast<size_t>(in.channels));
        for (int64_t i = 0; i < pool.kernel[0]; ++i) {
            const int64_t row = y * pool.stride[0] - pool.padding[0] + i * pool.dilation[0];
            if (row < 0 || row >= in.height) continue;
            for (int64_t j = 0; j < pool.kernel[1]; ++j) {
                const int64_t column = x * pool.stride[1] - pool.padding[2] + j * pool.dilation[1];
                if (column < 0 || column >= in.width) continue;
                const uint8_t* pixel = map + from.layout.pixel(image, row, column);
                for (int64_t c = 0; c < in.channels; ++c) out[c] = std::max(out[c], pixel[c]);
            }
        }
    }
}

// A row of what slicing and padding leave; -1 where there is nothing of the input.
int64_t source_of(const Operation& operation, int axis, int64_t place, int64_t size) {
    if (operation.kind == OperationKind::Slice) {
        return operation.axis == axis ? operation.start + place * operation.step : place;
    }
    const int64_t before = operation.padding[axis == 1 ? 4 : 2 * (axis - 2)];
    const int64_t source = place - before;
    return source >= 0 && source < size ? source : -1;
}

void rearrange_row(const Operation& operation, const uint8_t* map, const ByteMap& from, int64_t image, int64_t y,
                   const ByteMap& to, uint8_t* out) {
    const int64_t row = source_of(operation, 2, y, from.shape.height);
    for (int64_t x = 0; x < to.shape.width; ++x, out += to.layout.record) {
        std::memset(out, to.zero, static_cast<size_t>(to.shape.channels));
        const int64_t column = source_of(operation, 3, x, from.shape.width);
        if (row < 0 || column < 0) continue;
        const uint8_t* pixel = map + from.layout.pixel(image, row, column);
        for (int64_t c = 0; c < to.shape.channels; ++c) {
            const int64_t channel = source_of(operation, 1, c, from.shape.channels);
            if (channel >= 0) out[c] = pixel[channel];
        }
    }
}

}  // namespace

Step move_bytes_step(const std::string& name, const Operation& operation, const ByteMap& from, const ByteMap& to) {
    const Shape out = to.shape;
    auto run = [=, &operation](const Bound& bound, int64_t unit) {
        if (unit >= out.rows()) return fill_border(bound, to, unit - out.rows());
        const int64_t image = unit / out.height, y = unit % out.height;
        const uint8_t* map = bound.at<const uint8_t>(from.buffer);
        uint8_t* row = bound.at<uint8_t>(to.buffer) + to.layout.pixel(image, y, 0);
        if (operation.kind == OperationKind::Pool) {
            pool_row(operation, map, from, image, y, out.width, to.layout.record, row);
        } else {
            rearrange_row(operation, map, from, image, y, to, row);
        }
    };
    return {name, out.rows() + out.images, {from.buffer}, to.buffer, run};
}

}  // namespace binaryrelax
