#include "plan_builder.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include "byte_steps.hpp"
#include "float_steps.hpp"

namespace binaryrelax {
namespace {

struct Border {
    int64_t top = 0, left = 0, bottom = 0, right = 0;

    void include(const Border& other) {
        top = std::max(top, other.top);
        left = std::max(left, other.left);
        bottom = std::max(bottom, other.bottom);
        right = std::max(right, other.right);
    }
};

// What an axis of a layer reads behind the last input.
int64_t beyond(const Axis& axis, int64_t outputs, int64_t inputs) {
    return std::max<int64_t>(0, (outputs - 1) * axis.stride + axis.span() - axis.padding - inputs);
}

class PlanBuilder {
  public:
    PlanBuilder(const NetworkLayers& layers, const std::vector<Shape>& inputs, int threads, int64_t most_bytes)
        : layers_(layers), threads_(threads), shapes_(infer_shapes(layers.file(), inputs, most_bytes / 4)) {
        bytes_.resize(shapes_.size());
        rearranged_.resize(shapes_.size());
        floats_.resize(shapes_.size());
        for (size_t input = 0; input < inputs.size(); ++input) {
            floats_[input] = FloatMap{-1, static_cast<int>(input), shapes_[input]};
        }
    }

    std::shared_ptr<const Plan> build(int64_t most_bytes) {
        if (layers_.file().fast) mark_poison();
        for (size_t operation = 0; operation < layers_.file().operations.size(); ++operation) add_operation(operation);
        for (size_t output = 0; output < layers_.file().outputs.size(); ++output) {
            const int value = layers_.file().outputs[output];
            plan_.outputs.push_back(shapes_[value]);
            plan_.add(store_step("output", as_floats(value), static_cast<int>(output), poison_));
        }
        plan_.place_buffers(most_bytes);
        return std::make_shared<const Plan>(std::move(plan_));
    }

  private:
    const Operation& operation(size_t index) const { return layers_.file().operations[index]; }

    void mark_poison() {
        const int64_t images = shapes_[0].images;
        poison_ = plan_.new_buffer(images);
        plan_.add(clear_step(poison_, images));
    }

    void add_operation(size_t index) {
        const OperationLayer& layer = layers_.layer(index);
        if (layer.done_by >= 0) return add_layer(static_cast<size_t>(layer.done_by));
        if (layer.bytes || layer.exact || layer.floats) {
            if (layer.added < 0 && !is_done_by_filter(index)) add_layer(index);
            return;  // else the addition's or the filter's turn comes
        }
        const std::string& name = operation(index).name;
        const int value = layer.writes, in = operation(index).in[0];
        if (is_kept_as_bytes(in) && layers_.code(value)) return move_bytes(index);
        const bool averages = operation(index).kind == OperationKind::AdaptivePool && is_kept_as_bytes(in) &&
                              !floats_[in] && layers_.code(in) &&
                              shapes_[value].height * shapes_[value].width == 1 && !operation(index).maximum;
        if (averages) {
            const ByteMap from = as_bytes(in);
            return plan_.add(average_bytes_step(name, from, new_floats(value)));
        }
        std::vector<FloatMap> from;
        for (const int source : operation(index).in) from.push_back(as_floats(source));
        const FloatMap to = new_floats(value);
        plan_.add(float_operation_step(name, operation(index), layers_.file(), from, to, threads_));
    }

    // Whether the one layer that reads its output computes that too.
    bool is_done_by_filter(size_t index) const {
        const OperationLayer& layer = layers_.layer(index);
        if (!layer.floats || layers_.is_output(layer.writes) || layers_.users(layer.writes).size() != 1) return false;
        const OperationLayer& filter = layers_.layer(static_cast<size_t>(layers_.users(layer.writes)[0]));
        return filter.floats && filter.added < 0 && can_expand(*layer.floats, *filter.floats, shapes_[layer.writes]);
    }

    void add_layer(size_t index) {
        const OperationLayer& layer = layers_.layer(index);
        if (layer.bytes) return add_byte_layer(index);
        const std::string& name = operation(index).name;
        const int before = operation(index).in[0] - layers_.first_value();
        if (layer.floats && before >= 0 && is_done_by_filter(static_cast<size_t>(before))) {
            const FloatMap from = as_floats(operation(static_cast<size_t>(before)).in[0]);
            const Shape& between = shapes_[operation(index).in[0]];
            return plan_.add(expanded_filter_step(name, *layers_.layer(static_cast<size_t>(before)).floats, *layer.floats,
                                                  from, between, new_floats(layer.writes)));
        }
        const FloatMap from = as_floats(operation(index).in[0]);
        std::optional<FloatMap> added;
        if (layer.added >= 0) added = as_floats(layer.added);
        const FloatMap to = new_floats(layer.writes);
        plan_.add(layer.exact ? exact_layer_step(name, layer, from, added, to, threads_)
                              : float_layer_step(name, *layer.floats, from, added, to));
    }

    bool is_kept_as_bytes(int value) const { return bytes_[value] || rearranged_[value]; }

    // Slices and paddings wait until somebody needs their bytes: those that follow one another become one step.
    void move_bytes(size_t index) {
        const int value = layers_.layer(index).writes, in = operation(index).in[0];
        if (operation(index).kind == OperationKind::Pool) {
            const ByteMap from = as_bytes(in);
            return plan_.add(pool_bytes_step(operation(index).name, operation(index), from, new_bytes(value)));
        }
        const Rearranged before =
            rearranged_[in] ? *rearranged_[in] : Rearranged{in, Rearrangement::none(shapes_[in]), ""};
        rearranged_[value] = {before.from, before.how.then(operation(index), shapes_[value]), operation(index).name};
    }

    void add_byte_layer(size_t index) {
        const OperationLayer& layer = layers_.layer(index);
        const std::string& name = operation(index).name;
        const Shape output = shapes_[layer.writes];
        const ByteMap from = as_bytes(operation(index).in[0]);
        Added added;
        ByteMap added_bytes;
        FloatMap added_floats;
        if (layer.added >= 0) {
            if (layers_.code(layer.added)) {
                added_bytes = as_bytes(layer.added);
                added.bytes = &added_bytes;
            } else {
                added_floats = as_floats(layer.added);
                added.floats = &added_floats;
            }
        }
        Target to;
        FloatMap to_floats;
        if (layers_.code(layer.writes)) {
            to.bytes = &new_bytes(layer.writes);
        } else {
            to_floats = new_floats(layer.writes);
            to_floats.is_measured = is_read_as_measured_bytes(layer.writes);
            to.floats = &to_floats;
        }
        if (pays_to_tile(*layer.bytes, output, threads_)) {
            const int tiles = plan_.new_buffer(tiles_size(*layer.bytes, output));
            plan_.add(tile_step(name, *layer.bytes, from, output, tiles));
            return add_writing(layer.writes, to,
                               winograd_step(name, layer, from, tiles, added, to, output, threads_));
        }
        const Access access = access_of(*layer.bytes, from.layout, output);
        int rows = -1;
        if (access == Access::Gathered) {
            rows = plan_.new_buffer(gathered_size(*layer.bytes, output));
            plan_.add(gather_step(name, *layer.bytes, from, output, rows));
        }
        add_writing(layer.writes, to, multiply_step(name, layer, from, rows, access, added, to, output, threads_));
    }

    // Whether a layer will read the value as bytes with a scale for each image.
    bool is_read_as_measured_bytes(int value) const {
        if (layers_.code_of_range(value)) return false;
        const std::vector<int>& users = layers_.users(value);
        return std::any_of(users.begin(), users.end(), [&](int user) {
            return layers_.layer(user).bytes && operation(user).in[0] == value;
        });
    }

    // Each unit of a step that measures what it writes leaves a magnitude for each image.
    void add_writing(int value, const Target& to, Step step) {
        if (to.floats && to.floats->is_measured) {
            const int64_t bytes = step.units * shapes_[value].images * static_cast<int64_t>(sizeof(uint32_t));
            plan_.enlarge(to.floats->buffer, bytes);
            floats_[value]->is_measured = true;
            measured_parts_[value] = step.units;
        }
        plan_.add(std::move(step));
    }

    // A value as floats in NHWC; made of its bytes, or of what the caller gave, where it is not there yet.
    FloatMap as_floats(int value) {
        if (floats_[value] && floats_[value]->input < 0) return *floats_[value];
        const std::string name = "value " + std::to_string(value);
        if (floats_[value]) {
            const FloatMap given = *floats_[value];
            const FloatMap loaded = new_floats(value);
            plan_.add(load_step(name, given, loaded));
            return loaded;
        }
        const ByteMap from = as_bytes(value);
        const FloatMap to = new_floats(value);
        plan_.add(dequantize_step(name, from, to));
        return to;
    }

    ByteMap as_bytes(int value) {
        if (bytes_[value]) return *bytes_[value];
        if (rearranged_[value]) {
            const auto& [source, how, name] = *rearranged_[value];
            const ByteMap from = *bytes_[source];
            plan_.add(rearrange_step(name, how, from, new_bytes(value)));
            return *bytes_[value];
        }
        const FloatMap from = *floats_[value];
        const std::string name = "value " + std::to_string(value);
        ByteMap to = byte_map(value);
        Magnitudes magnitudes;
        if (const std::optional<ByteCode> code = layers_.code_of_range(value)) {
            to.scale = code->scale;
            to.zero = code->zero;
        } else {
            to.scales = plan_.new_buffer(from.shape.images * 4);
            to.zero = layers_.is_positive(value) ? 0 : 128;
            magnitudes = magnitudes_of(value, from);
        }
        plan_.add(quantize_step(name, from, to, magnitudes, poison_, layers_.kernels()));
        bytes_[value] = to;
        return to;
    }

    // Those that a layer found when it wrote the value, or those of a search.
    Magnitudes magnitudes_of(int value, const FloatMap& from) {
        if (from.is_measured) return {from.buffer, from.shape.count(), measured_parts_[value]};
        const int buffer = plan_.new_buffer(from.shape.images * PIECES * 4);
        plan_.add(measure_step("value " + std::to_string(value), from, buffer, layers_.kernels()));
        return {buffer, 0, PIECES};
    }

    const ByteMap& new_bytes(int value) {
        ByteMap map = byte_map(value);
        map.scale = layers_.code(value)->scale;
        map.zero = layers_.code(value)->zero;
        bytes_[value] = map;
        return *bytes_[value];
    }

    ByteMap byte_map(int value) {
        const Shape& shape = shapes_[value];
        const Border border = border_of(value);
        ByteMap map;
        map.shape = shape;
        map.layout = ByteLayout::of(shape.channels, {shape.height, shape.width}, border.top, border.left,
                                    border.bottom, border.right);
        map.buffer = plan_.new_buffer(map.layout.bytes(shape.images));
        return map;
    }

    FloatMap new_floats(int value) {
        const int64_t bytes = shapes_[value].count() * static_cast<int64_t>(sizeof(float));
        floats_[value] = FloatMap{plan_.new_buffer(bytes), -1, shapes_[value]};
        return *floats_[value];
    }

    // What all layers that read the value as bytes need around it.
    Border border_of(int value) const {
        Border border;
        for (const int user : layers_.users(value)) {
            const OperationLayer& layer = layers_.layer(user);
            if (!layer.bytes || operation(user).in[0] != value) continue;
            const Shape &in = shapes_[value], &out = shapes_[layer.writes];
            const Geometry& geometry = layer.bytes->geometry();
            const auto after = pays_to_tile(*layer.bytes, out, threads_) ? beyond_tiles : beyond;
            border.include({geometry.vertical.padding, geometry.horizontal.padding,
                            after(geometry.vertical, out.height, in.height),
                            after(geometry.horizontal, out.width, in.width)});
        }
        return border;
    }

    struct Rearranged {
        int from;  // the value
        Rearrangement how;
        std::string name;
    };

    const NetworkLayers& layers_;
    const int threads_;
    const std::vector<Shape> shapes_;
    std::vector<std::optional<ByteMap>> bytes_;
    std::vector<std::optional<Rearranged>> rearranged_;
    std::vector<std::optional<FloatMap>> floats_;
    std::map<int, int64_t> measured_parts_;  // by value
    int poison_ = -1;
    Plan plan_;
};

}  // namespace

std::shared_ptr<const Plan> build_plan(const NetworkLayers& layers, const std::vector<Shape>& inputs, int threads,
                                       int64_t most_bytes) {
    return PlanBuilder(layers, inputs, threads, most_bytes).build(most_bytes);
}

}  // namespace binaryrelax
