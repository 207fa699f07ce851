#include "float_steps.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>

#include "expanded_filter.hpp"
#include "tiled_convolution.hpp"

namespace binaryrelax {
namespace {

constexpr int64_t VALUES_PER_UNIT = 1 << 14;

ConstMap as_const(const Bound& bound, const FloatMap& map) { return {bound.at<const float>(map.buffer), map.shape}; }

Map as_map(const Bound& bound, const FloatMap& map) { return {bound.at<float>(map.buffer), map.shape}; }

// Rows that make a unit worth the while.
int64_t rows_of_unit(const Shape& shape, int threads) {
    const int64_t row = std::max<int64_t>(1, shape.width * shape.channels);
    const int64_t shared = std::max<int64_t>(1, shape.rows() / (4 * threads));
    return std::max<int64_t>(1, std::min(shared, std::max<int64_t>(1, VALUES_PER_UNIT / row)));
}

int64_t units_of(const Shape& shape, int64_t rows) { return (shape.rows() + rows - 1) / rows; }

const float* place_of(const Bound& bound, const std::optional<FloatMap>& map) {
    return map ? bound.at<const float>(map->buffer) : nullptr;
}

std::vector<int> buffers_read(const FloatMap& from, const std::optional<FloatMap>& added) {
    return added ? std::vector<int>{from.buffer, added->buffer} : std::vector<int>{from.buffer};
}

// A convolution by Winograd's products.
Step tiled_step(const std::string& name, const OperationLayer& layer, const FloatMap& from,
                const std::optional<FloatMap>& added, const FloatMap& to, int threads) {
    const auto convolution = std::make_shared<const TiledConvolution>(*layer.exact, layer.activation, layer.bias.data(),
                                                                      from.shape, to.shape, threads);
    auto run = [=](const Bound& bound, int64_t unit) {
        convolution->run(as_const(bound, from), as_map(bound, to), place_of(bound, added), unit);
    };
    return {name, convolution->units(), buffers_read(from, added), to.buffer, run, convolution->room()};
}

// A layer by tables of sums.
Step tables_step(const std::string& name, const OperationLayer& layer, const FloatMap& from,
                 const std::optional<FloatMap>& added, const FloatMap& to, int threads) {
    const Image input{from.shape.height, from.shape.width}, output{to.shape.height, to.shape.width};
    const auto convolution = std::make_shared<const ExactConvolution>(*layer.exact, input, output, from.shape.images, threads);
    auto run = [=, &layer](const Bound& bound, int64_t unit) {
        const Call call{bound.at<const float>(from.buffer), from.shape.images, input, output, layer.bias.data(),
                        false, threads, bound.at<float>(to.buffer)};
        convolution->run(call, unit);
        const float* more = place_of(bound, added);
        if (!more && layer.activation.kind == ActivationKind::None) return;
        convolution->for_each_written(call, unit, [&](float* y, int64_t outputs) {
            for (int64_t i = 0; more && i < outputs; ++i) y[i] += more[y - call.y + i];
            apply_activation(layer.activation, y, outputs);
        });
    };
    return {name, convolution->units(), buffers_read(from, added), to.buffer, run, convolution->room()};
}

// Three colours, in a loop that compilers make vectors of.
void interleave(const float* __restrict a, const float* __restrict b, const float* __restrict c, int64_t count,
                float* __restrict out) {
    for (int64_t i = 0; i < count; ++i) {
        out[3 * i] = a[i];
        out[3 * i + 1] = b[i];
        out[3 * i + 2] = c[i];
    }
}

}  // namespace

Step load_step(const std::string& name, const FloatMap& from, const FloatMap& to) {
    const Shape shape = from.shape;
    auto run = [=](const Bound& bound, int64_t row) {
        const int64_t image = row / shape.height, y = row % shape.height, size = shape.height * shape.width;
        const float* planes = bound.input(from.input) + image * size * shape.channels + y * shape.width;
        float* out = bound.at<float>(to.buffer) + row * shape.width * shape.channels;
        if (shape.channels == 3) return interleave(planes, planes + size, planes + 2 * size, shape.width, out);
        for (int64_t c = 0; c < shape.channels; ++c) {
            for (int64_t x = 0; x < shape.width; ++x) out[x * shape.channels + c] = planes[c * size + x];
        }
    };
    return {name + ": load", shape.rows(), {}, to.buffer, run};
}

Step store_step(const std::string& name, const FloatMap& from, int output, int poison) {
    const Shape shape = from.shape;
    auto run = [=](const Bound& bound, int64_t image) {
        const int64_t pixels = shape.height * shape.width, size = pixels * shape.channels;
        const float* in = bound.at<const float>(from.buffer) + image * size;
        float* out = bound.output(output) + image * size;
        if (poison >= 0 && bound.at<std::atomic<uint8_t>>(poison)[image].load(std::memory_order_relaxed)) {
            std::fill_n(out, size, std::numeric_limits<float>::quiet_NaN());
            return;
        }
        for (int64_t c = 0; c < shape.channels; ++c) {
            for (int64_t pixel = 0; pixel < pixels; ++pixel) out[c * pixels + pixel] = in[pixel * shape.channels + c];
        }
    };
    Step step{name + ": store", shape.images, {from.buffer}, -1, run};
    if (poison >= 0) step.reads.push_back(poison);
    return step;
}

Step clear_step(int buffer, int64_t bytes) {
    return {"begin", 1, {}, buffer, [=](const Bound& bound, int64_t) {
                std::memset(bound.at<uint8_t>(buffer), 0, static_cast<size_t>(bytes));
            }};
}

Step float_operation_step(const std::string& name, const Operation& operation, const NetworkFile& file,
                          const std::vector<FloatMap>& from, const FloatMap& to, int threads) {
    const int64_t rows = rows_of_unit(to.shape, threads);
    auto run = [=, &operation, &file](const Bound& bound, int64_t unit) {
        std::vector<ConstMap> in;
        in.reserve(from.size());
        for (const FloatMap& map : from) in.push_back(as_const(bound, map));
        const int64_t end = std::min((unit + 1) * rows, to.shape.rows());
        run_float_operation(operation, in, as_map(bound, to), file, unit * rows, end);
    };
    Step step{name, units_of(to.shape, rows), {}, to.buffer, run};
    for (const FloatMap& map : from) step.reads.push_back(map.buffer);
    return step;
}

Step float_layer_step(const std::string& name, const FloatLayer& layer, const FloatMap& from,
                      const std::optional<FloatMap>& added, const FloatMap& to) {
    auto run = [=, &layer](const Bound& bound, int64_t unit) {
        layer.run(as_const(bound, from), as_map(bound, to), place_of(bound, added), unit);
    };
    return {name, layer.units(to.shape), buffers_read(from, added), to.buffer, run, layer.room(to.shape)};
}

bool can_expand(const FloatLayer& layer, const FloatLayer& filter, const Shape& between) {
    const PanelProduct* product = layer.product().as_panels();
    const PanelFilter* second = filter.product().as_filter();
    return product && second && ExpandedFilter::pays(*product, *second, between);
}

Step expanded_filter_step(const std::string& name, const FloatLayer& layer, const FloatLayer& filter,
                          const FloatMap& from, const Shape& between, const FloatMap& to) {
    const auto both = std::make_shared<const ExpandedFilter>(*layer.product().as_panels(), *filter.product().as_filter(),
                                                             between, to.shape);
    auto run = [=](const Bound& bound, int64_t unit) { both->run(as_const(bound, from), as_map(bound, to), unit); };
    return {name, both->units(), {from.buffer}, to.buffer, run, both->room()};
}

Step exact_layer_step(const std::string& name, const OperationLayer& layer, const FloatMap& from,
                      const std::optional<FloatMap>& added, const FloatMap& to, int threads) {
    const bool in_tiles = TiledConvolution::can(layer.exact->geometry) && TiledConvolution::pays(*layer.exact, to.shape);
    return in_tiles ? tiled_step(name, layer, from, added, to, threads)
                    : tables_step(name, layer, from, added, to, threads);
}

}  // namespace binaryrelax
