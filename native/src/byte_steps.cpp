#include "byte_steps.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace binaryrelax {
namespace {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

void fill_pixels(uint8_t* out, int64_t pixels, const ByteMap& map) {
    std::memset(out, map.zero, static_cast<size_t>(pixels * map.layout.record));
}

// A row of the image: `lines` stretches of floats, one for each channel where the caller gave planes.
struct Row {
    const float* first;
    int64_t lines, length, stride;

    Row(const Bound& bound, const FloatMap& map, int64_t image, int64_t row) {
        const Shape& shape = map.shape;
        const int64_t size = shape.width * shape.channels;
        const bool is_input = map.input >= 0;
        const bool planes = is_input && shape.channels > 1 && shape.height * shape.width > 1;
        first = is_input ? bound.input(map.input) : bound.at<const float>(map.buffer);
        first += image * shape.height * size + row * (planes ? shape.width : size);
        lines = planes ? shape.channels : 1;
        length = planes ? shape.width : size;
        stride = planes ? shape.height * shape.width : 0;
    }
    const float* line(int64_t index) const { return first + index * stride; }
};

// Channels that lie `stride` apart to records; a record's unused bytes get the byte of zero.
void interleave(const uint8_t* lines, int64_t stride, const ByteMap& to, uint8_t* out) {
    const int64_t width = to.shape.width, channels = to.shape.channels, record = to.layout.record;
    if (record != 4) {
        for (int64_t x = 0; x < width; ++x, out += record) {
            for (int64_t c = 0; c < channels; ++c) out[c] = lines[c * stride + x];
            std::memset(out + channels, to.zero, static_cast<size_t>(record - channels));
        }
        return;
    }
    const auto zero = static_cast<uint32_t>(to.zero);
    const uint32_t unused[4] = {0, zero * 0x01010100u, zero * 0x01010000u, zero * 0x01000000u};
    for (int64_t x = 0; x < width; ++x) {
        uint32_t pixel = channels < 4 ? unused[channels] : 0;
        for (int64_t c = 0; c < channels; ++c) pixel |= uint32_t{lines[c * stride + x]} << 8 * c;
        std::memcpy(out + 4 * x, &pixel, 4);
    }
}

// The scale of an image, so that its largest magnitude takes all of a byte's numbers on one side of zero.
float scale_of(const uint32_t* magnitudes, int64_t parts, int64_t images, int zero) {
    uint32_t bits = 0;
    for (int64_t part = 0; part < parts; ++part) bits = std::max(bits, magnitudes[part * images]);
    float magnitude;
    std::memcpy(&magnitude, &bits, sizeof magnitude);
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
}

void fill_unused(const Bound& bound, const ByteMap& map, int64_t image) {
    const int64_t unused = map.layout.record - map.shape.channels;
    if (unused == 0) return;
    for (int64_t row = 0; row < map.shape.height; ++row) {
        uint8_t* pixel = bound.at<uint8_t>(map.buffer) + map.layout.pixel(image, row, 0) + map.shape.channels;
        for (int64_t x = 0; x < map.shape.width; ++x, pixel += map.layout.record) {
            std::memset(pixel, map.zero, static_cast<size_t>(unused));
        }
    }
}

Step measure_step(const std::string& name, const FloatMap& from, int magnitudes, const Kernels& kernels) {
    const int64_t size = from.shape.height * from.shape.width * from.shape.channels;
    auto run = [=, &kernels](const Bound& bound, int64_t unit) {
        const float* image = from.input < 0 ? bound.at<const float>(from.buffer) : bound.input(from.input);
        const int64_t piece = unit / from.shape.images;
        const float* x = image + unit % from.shape.images * size;
        const int64_t begin = piece * size / PIECES, end = (piece + 1) * size / PIECES;
        bound.at<uint32_t>(magnitudes)[unit] = kernels.largest_magnitude(x + begin, end - begin);
    };
    return {name + ": measure", from.shape.images * PIECES, {from.buffer}, magnitudes, run};
}

Step quantize_step(const std::string& name, const FloatMap& from, const ByteMap& to, Magnitudes magnitudes, int poison,
                   const Kernels& kernels) {
    const Shape shape = from.shape;
    auto run = [=, &kernels](const Bound& bound, int64_t unit) {
        if (unit >= shape.rows()) return fill_border(bound, to, unit - shape.rows());
        const int64_t image = unit / shape.height, y = unit % shape.height;
        const Row row(bound, from, image, y);
        float scale = to.scale;
        bool is_finite = true;
        if (magnitudes.buffer >= 0) {
            const uint32_t* found = bound.at<const uint32_t>(magnitudes.buffer) + magnitudes.offset + image;
            scale = scale_of(found, magnitudes.parts, shape.images, to.zero);
            is_finite = !std::isnan(scale);
            if (y == 0) bound.at<float>(to.scales)[image] = scale;
        }
        const float inverse = std::isnan(scale) ? 0.0f : 1.0f / scale, zero = static_cast<float>(to.zero);
        uint8_t* out = bound.at<uint8_t>(to.buffer) + to.layout.pixel(image, y, 0);
        const bool in_place = row.lines == 1 && to.layout.record == shape.channels;
        thread_local std::vector<uint8_t> bytes;
        if (!in_place) bytes.resize(static_cast<size_t>(row.lines * row.length));
        for (int64_t line = 0; line < row.lines; ++line) {
            const float* x = row.line(line);
            if (magnitudes.buffer < 0) is_finite = is_finite && kernels.largest_magnitude(x, row.length) < 0x7f800000u;
            kernels.quantize(x, row.length, inverse, zero, in_place ? out : bytes.data() + line * row.length);
        }
        if (!is_finite) bound.at<std::atomic<uint8_t>>(poison)[image].store(1, std::memory_order_relaxed);
        if (in_place) return;
        if (row.lines > 1) return interleave(bytes.data(), row.length, to, out);
        for (int64_t x = 0; x < shape.width; ++x, out += to.layout.record) {
            std::memcpy(out, bytes.data() + x * shape.channels, static_cast<size_t>(shape.channels));
            std::memset(out + shape.channels, to.zero, static_cast<size_t>(to.layout.record - shape.channels));
        }
    };
    Step step{name + ": to bytes", shape.rows() + shape.images, {from.buffer}, to.buffer, run};
    if (magnitudes.buffer >= 0) step.reads.push_back(magnitudes.buffer);
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

// Sixteen bytes in whatever registers the CPU has for them.
typedef uint8_t Sixteen __attribute__((vector_size(16)));

constexpr int64_t BLOCK = 64;  // channels that stay in registers while the taps pass by

// The largest of the bytes at each of `taps`. Reads whole blocks, writes only what there is.
void largest_of(const uint8_t* const* taps, size_t num_taps, int64_t channels, uint8_t* out) {
    for (int64_t c = 0; c < channels; c += BLOCK) {
        Sixteen largest[BLOCK / 16] = {};
        for (size_t tap = 0; tap < num_taps; ++tap) {
            for (int i = 0; i < BLOCK / 16; ++i) {
                Sixteen x;
                std::memcpy(&x, taps[tap] + c + 16 * i, sizeof x);
                largest[i] = x > largest[i] ? x : largest[i];
            }
        }
        if (channels - c >= BLOCK) {
            std::memcpy(out + c, largest, BLOCK);  // of a known size: no call
        } else {
            std::memcpy(out + c, largest, static_cast<size_t>(channels - c));
        }
    }
}

// Where the bytes lie that a pixel's window reads, in a row of windows. All of them move along together where no column
// of a window lies outside the map.
class Windows {
  public:
    Windows(const Operation& pool, const ByteMap& map, const uint8_t* bytes, int64_t image, int64_t y)
        : pool_(pool), map_(map), bytes_(bytes), image_(image), first_row_(y * pool.stride[0] - pool.padding[0]),
          width_(pool.dilation[1] * (pool.kernel[1] - 1) + 1) {}

    void find(int64_t x, std::vector<const uint8_t*>& taps) {
        const int64_t first = x * pool_.stride[1] - pool_.padding[2];
        const bool was_inside = is_inside_;
        is_inside_ = first >= 0 && first + width_ <= map_.shape.width;
        if (was_inside && is_inside_) {
            for (const uint8_t*& tap : taps) tap += pool_.stride[1] * map_.layout.record;
            return;
        }
        taps.clear();
        for (int64_t i = 0; i < pool_.kernel[0]; ++i) {
            const int64_t row = first_row_ + i * pool_.dilation[0];
            if (row < 0 || row >= map_.shape.height) continue;
            for (int64_t column = first; column < first + width_; column += pool_.dilation[1]) {
                if (column < 0 || column >= map_.shape.width) continue;
                taps.push_back(bytes_ + map_.layout.pixel(image_, row, column));
            }
        }
    }

  private:
    const Operation& pool_;
    const ByteMap& map_;
    const uint8_t* bytes_;
    const int64_t image_, first_row_, width_;
    bool is_inside_ = false;
};

}  // namespace

Step pool_bytes_step(const std::string& name, const Operation& pool, const ByteMap& from, const ByteMap& to) {
    const Shape out = to.shape;
    auto run = [=, &pool](const Bound& bound, int64_t unit) {
        if (unit >= out.rows()) {
            fill_border(bound, to, unit - out.rows());
            return fill_unused(bound, to, unit - out.rows());
        }
        const int64_t image = unit / out.height, y = unit % out.height;
        uint8_t* place = bound.at<uint8_t>(to.buffer) + to.layout.pixel(image, y, 0);
        Windows windows(pool, from, bound.at<const uint8_t>(from.buffer), image, y);
        thread_local std::vector<const uint8_t*> taps;
        for (int64_t x = 0; x < out.width; ++x, place += to.layout.record) {
            windows.find(x, taps);
            largest_of(taps.data(), taps.size(), out.channels, place);
        }
    };
    return {name, out.rows() + out.images, {from.buffer}, to.buffer, run};
}

Rearrangement Rearrangement::none(const Shape& shape) {
    Rearrangement found;
    for (int axis = 0; axis < 3; ++axis) {
        found.sources[axis].resize(static_cast<size_t>(axis == 0 ? shape.channels : axis == 1 ? shape.height : shape.width));
        std::iota(found.sources[axis].begin(), found.sources[axis].end(), int64_t{0});
    }
    return found;
}

// What an operation takes from nowhere stays there.
Rearrangement Rearrangement::then(const Operation& operation, const Shape& out) const {
    Rearrangement found = none(out);
    for (int axis = 0; axis < 3; ++axis) {
        const auto size = static_cast<int64_t>(sources[axis].size());
        for (int64_t& place : found.sources[axis]) {
            if (operation.kind == OperationKind::Pad) {
                place -= operation.padding[axis == 0 ? 4 : 2 * (axis - 1)];
            } else if (operation.axis == axis + 1) {
                place = operation.start + place * operation.step;
            }
            place = place >= 0 && place < size ? sources[axis][place] : -1;
        }
    }
    return found;
}

Step rearrange_step(const std::string& name, const Rearrangement& how, const ByteMap& from, const ByteMap& to) {
    const Shape out = to.shape;
    // Channels that follow one another are copied at once: [first, end) of the output.
    const std::vector<int64_t>& channels = how.sources[0];
    const auto is_there = [](int64_t source) { return source >= 0; };
    const int64_t first = std::find_if(channels.begin(), channels.end(), is_there) - channels.begin();
    int64_t end = first;
    while (end < out.channels && channels[end] == channels[first] + end - first && channels[end] >= 0) ++end;
    const bool in_one = std::none_of(channels.begin() + end, channels.end(), is_there);
    auto run = [=](const Bound& bound, int64_t unit) {
        if (unit >= out.rows()) {
            fill_border(bound, to, unit - out.rows());
            return fill_unused(bound, to, unit - out.rows());
        }
        const int64_t image = unit / out.height, row = how.sources[1][unit % out.height];
        const uint8_t* map = bound.at<const uint8_t>(from.buffer);
        uint8_t* place = bound.at<uint8_t>(to.buffer) + to.layout.pixel(image, unit % out.height, 0);
        for (int64_t x = 0; x < out.width; ++x, place += to.layout.record) {
            const int64_t column = how.sources[2][x];
            if (first > 0 || end < out.channels || row < 0 || column < 0) {
                std::memset(place, to.zero, static_cast<size_t>(out.channels));
            }
            if (row < 0 || column < 0 || first == out.channels) continue;
            const uint8_t* pixel = map + from.layout.pixel(image, row, column);
            if (in_one) {
                std::memcpy(place + first, pixel + how.sources[0][first], static_cast<size_t>(end - first));
                continue;
            }
            for (int64_t c = first; c < out.channels; ++c) {
                if (how.sources[0][c] >= 0) place[c] = pixel[how.sources[0][c]];
            }
        }
    };
    return {name, out.rows() + out.images, {from.buffer}, to.buffer, run};
}

}  // namespace binaryrelax
