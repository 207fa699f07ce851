#include "network_layers.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tiled_convolution.hpp"

namespace binaryrelax {
namespace {

constexpr double MOST_GROWTH = 64.0;         // times the weights of the file that all layers may take
constexpr double SMALL = 64 << 20;           // bytes that they always may
constexpr double GROUP_BYTES = 512.0;        // of a group of channels, beside its weights
constexpr int64_t MOST_INPUTS = 1 << 23;  // 255 times this is what a sum of 32 bits holds

bool has_weight(const Operation& operation) {
    return operation.kind == OperationKind::Conv || operation.kind == OperationKind::Linear;
}

bool is_positive_activation(const Activation& activation) {
    switch (activation.kind) {
        case ActivationKind::Relu:
        case ActivationKind::Relu6:
        case ActivationKind::Sigmoid:
        case ActivationKind::HardSigmoid: return true;
        case ActivationKind::Clamp: return activation.low >= 0.0f;
        default: return false;
    }
}

bool keeps_sign(OperationKind kind) {
    switch (kind) {
        case OperationKind::Add:
        case OperationKind::Multiply:
        case OperationKind::Pool:
        case OperationKind::AdaptivePool:
        case OperationKind::Slice:
        case OperationKind::Flatten:
        case OperationKind::Concat:
        case OperationKind::Upsample: return true;
        default: return false;
    }
}

// The byte of a look-up table can only be moved, compared or changed one by one.
bool moves_bytes(const Operation& operation) {
    switch (operation.kind) {
        case OperationKind::Pool: return operation.maximum;
        case OperationKind::Slice: return true;
        case OperationKind::Pad: return operation.value == 0.0f;
        default: return false;
    }
}

// Whether tables of sums are quicker than multiplying floats, measured: they must be built for few outputs again and
// again, and a sum of few inputs ends before it pays.
bool pays_to_look_up(const PackedTensor& weight, const Geometry& geometry) {
    if (geometry.inputs() <= 64 || geometry.inputs_in_group % 4 != 0) return false;
    const int64_t outputs = geometry.outputs_in_group(), taps = geometry.taps();
    if (weight.bits == 1) return taps > 1 || outputs > 32;
    return taps > 1 ? taps * outputs > 288 : outputs > 1024;
}

// About the bytes that a layer keeps of its weights: rows come in sets of lanes, and codes in whole words.
double room_of(const Operation& operation, const NetworkFile& file) {
    const PackedTensor* packed = operation.packed ? &file.packed.at(operation.weight) : nullptr;
    const std::vector<int64_t>& shape = packed ? packed->shape : file.floats.at(operation.weight).shape;
    const double groups = static_cast<double>(operation.groups), outputs = static_cast<double>(shape[0]);
    double taps = 1.0;
    for (size_t i = 2; i < shape.size(); ++i) taps *= static_cast<double>(shape[i]);
    if (operation.groups > 1 && shape[1] == 1) return outputs * taps * sizeof(float);
    const double rows = groups * std::ceil(outputs / groups / LANES) * LANES;
    const double bits = !packed ? 32.0 : packed->bits <= 2 ? packed->bits : packed->bits <= 4 ? 4.0 : 8.0;
    const double codes = taps * static_cast<double>((shape[1] + 3) / 4 * 4) * bits / 8.0 + sizeof(uint32_t);
    const double scales = packed ? static_cast<double>(packed->scales_per_row * sizeof(float)) : 0.0;
    return rows * (codes + scales) + groups * GROUP_BYTES;
}

CanonicalCodes canonical(const PackedTensor& weight) {
    return {weight.codes.data(), weight.outputs(), weight.row_length(), weight.bits};
}

}  // namespace

ByteCode ByteCode::of(Range range) {
    const float low = std::min(range.low, 0.0f), high = std::max(range.high, 0.0f);
    const float scale = (high - low) / 255.0f;
    if (!(scale > 1e-36f) || !std::isfinite(scale)) return {1.0f, 0};
    return {scale, static_cast<int>(std::nearbyint(std::min(255.0f, -low / scale)))};
}

Geometry geometry_of(const Operation& operation, const std::vector<int64_t>& weight_shape) {
    const Axis one{1, 1, 0, 1};
    if (operation.kind == OperationKind::Linear) return {weight_shape[0], weight_shape[1], 1, one, one};
    auto axis = [&](int place, int64_t before, int64_t after) {
        return Axis{weight_shape[2 + place], operation.stride[place], before, operation.dilation[place],
                    after - before};
    };
    return {weight_shape[0], weight_shape[1], operation.groups, axis(0, operation.padding[0], operation.padding[1]),
            axis(1, operation.padding[2], operation.padding[3])};
}

NetworkLayers::NetworkLayers(NetworkFile file, const Kernels& kernels) : file_(std::move(file)), kernels_(&kernels) {
    layers_.resize(file_.operations.size());
    find_users();
    find_positive();
    require_little_room();
    for (size_t operation = 0; operation < layers_.size(); ++operation) make_layer(operation);
    fuse_additions();
    choose_codes();
}

void NetworkLayers::find_users() {
    users_.resize(file_.values.size());
    outputs_.resize(file_.values.size());
    for (const int value : file_.outputs) outputs_[value] = true;
    for (size_t operation = 0; operation < file_.operations.size(); ++operation) {
        for (const int value : file_.operations[operation].in) users_[value].push_back(static_cast<int>(operation));
    }
}

void NetworkLayers::find_positive() {
    positive_.resize(file_.values.size());
    for (size_t index = 0; index < file_.operations.size(); ++index) {
        const Operation& operation = file_.operations[index];
        const bool all = std::all_of(operation.in.begin(), operation.in.end(), [&](int in) { return positive_[in]; });
        const bool kept = operation.activation.kind == ActivationKind::None && keeps_sign(operation.kind) && all;
        const bool share = operation.kind == OperationKind::Softmax && !operation.log;
        positive_[first_value() + index] = kept || share || is_positive_activation(operation.activation);
    }
}

// A file may name the same weights in many operations, and groups of few channels take many times the bytes of their
// codes. Checked before any layer is made.
void NetworkLayers::require_little_room() const {
    double stored = 0.0, room = 0.0;
    for (const auto& [name, tensor] : file_.packed) {
        stored += static_cast<double>(tensor.codes.size() + tensor.scales.size() * sizeof(float));
    }
    for (const auto& [name, tensor] : file_.floats) stored += static_cast<double>(tensor.values.size() * sizeof(float));
    for (const Operation& operation : file_.operations) {
        if (has_weight(operation)) room += room_of(operation, file_);
    }
    if (room <= std::max(SMALL, MOST_GROWTH * stored)) return;
    throw std::invalid_argument("its operations would take " + std::to_string(static_cast<int64_t>(room / 1e6)) +
                                " MB for weights of " + std::to_string(static_cast<int64_t>(stored / 1e6)) +
                                " MB: they use the same ones too often");
}

void NetworkLayers::make_layer(size_t index) {
    const Operation& operation = file_.operations[index];
    OperationLayer& layer = layers_[index];
    layer.writes = first_value() + static_cast<int>(index);
    layer.activation = operation.activation;
    if (!has_weight(operation)) return;
    if (!operation.packed) {
        layer.floats = std::make_unique<FloatLayer>(operation, file_, *kernels_);
        return;
    }
    const PackedTensor& weight = file_.packed.at(operation.weight);
    const Geometry geometry = geometry_of(operation, weight.shape);
    const bool depthwise = geometry.inputs_in_group == 1 && geometry.groups > 1;
    const bool coded = (weight.is_binary() || weight.is_ternary()) && weight.scales_per_row == 1;
    if (file_.fast && weight.row_length() < MOST_INPUTS && ByteLayer::can(weight, geometry)) {
        layer.bytes = std::make_unique<ByteLayer>(weight, geometry, *kernels_);
    } else if (!file_.fast && coded && !depthwise &&
               (TiledConvolution::can(geometry) || pays_to_look_up(weight, geometry))) {
        layer.exact = std::make_unique<Layer>(
            Layer{geometry, weight.bits, {}, tile_groups(canonical(weight), geometry), kernels_});
    } else {
        layer.floats = std::make_unique<FloatLayer>(operation, file_, *kernels_);
        return;
    }
    const float* factor = operation.factor ? file_.floats.at(*operation.factor).values.data() : nullptr;
    const float* bias = operation.bias ? file_.floats.at(*operation.bias).values.data() : nullptr;
    for (int64_t output = 0; output < geometry.outputs; ++output) {
        layer.scale.push_back(weight.scales[output] * (factor ? factor[output] : 1.0f));
        layer.bias.push_back(bias ? bias[output] : 0.0f);
    }
    if (layer.exact) layer.exact->scale = layer.scale;
}

// An addition is done by a layer whose output it adds, before that output is written. The layer then runs in the
// addition's place: nothing else waits for it, and what is added to it may be computed later than its own input.
// Of two layers that can, the one with the wider range does it: the other's output is what is rounded.
void NetworkLayers::fuse_additions() {
    for (size_t index = 0; index < file_.operations.size(); ++index) {
        const Operation& addition = file_.operations[index];
        if (addition.kind != OperationKind::Add || addition.in[0] == addition.in[1]) continue;
        const int later = std::max(addition.in[0], addition.in[1]), sooner = std::min(addition.in[0], addition.in[1]);
        int adding = can_add(later) ? later : sooner;
        if (!can_add(adding)) continue;
        if (can_add(sooner) && width(sooner) > width(later)) adding = sooner;
        OperationLayer& layer = layers_[adding - first_value()];
        layer.added = adding == later ? sooner : later;
        layer.writes = first_value() + static_cast<int>(index);
        layer.activation = addition.activation;
        if (layer.floats) layer.floats->set_activation(addition.activation);
        layers_[index].done_by = adding - first_value();
    }
}

// Of what its bytes cover; 0 where that is not known.
float NetworkLayers::width(int value) const {
    const std::optional<Range>& range = file_.values[value].range;
    return range ? range->high - range->low : 0.0f;
}

// Whether the layer that writes the value can add to it: nothing else reads it.
bool NetworkLayers::can_add(int value) const {
    if (value < first_value() || outputs_[value] || users_[value].size() != 1) return false;
    const OperationLayer& layer = layers_[value - first_value()];
    const bool has_epilogue = layer.bytes || (!file_.fast && (layer.exact || layer.floats));
    return has_epilogue && layer.activation.kind == ActivationKind::None && layer.added < 0;
}

void NetworkLayers::choose_codes() {
    codes_.resize(file_.values.size());
    if (!file_.fast) return;
    for (size_t index = 0; index < file_.operations.size(); ++index) {
        const OperationLayer& layer = layers_[index];
        const int value = layer.writes;
        const std::optional<Range>& range = file_.values[value].range;
        if (layer.done_by >= 0 || !range || outputs_[value] || !can_write_bytes(index)) continue;
        const std::vector<int>& users = users_[value];
        if (!std::all_of(users.begin(), users.end(), [&](int user) { return can_read_bytes(user, value); })) continue;
        // What only moves bytes keeps their code.
        codes_[value] = layer.bytes ? ByteCode::of(*range) : codes_[file_.operations[index].in[0]];
    }
}

bool NetworkLayers::can_write_bytes(size_t index) const {
    const Operation& operation = file_.operations[index];
    return layers_[index].bytes || (moves_bytes(operation) && codes_[operation.in[0]]);
}

bool NetworkLayers::can_read_bytes(size_t index, int value) const {
    const Operation& operation = file_.operations[index];
    if (layers_[index].done_by >= 0) return true;
    if (layers_[index].bytes) return value == operation.in[0] || value == layers_[index].added;
    const bool averages_all = operation.kind == OperationKind::AdaptivePool && !operation.maximum &&
                              operation.size[0] == 1 && operation.size[1] == 1;
    return moves_bytes(operation) || averages_all;
}

std::optional<ByteCode> NetworkLayers::code_of_range(int value) const {
    const std::optional<Range>& range = file_.values[value].range;
    return range ? std::optional<ByteCode>(ByteCode::of(*range)) : std::nullopt;
}

int64_t NetworkLayers::bytes() const {
    int64_t total = 0;
    for (const OperationLayer& layer : layers_) {
        total += static_cast<int64_t>((layer.scale.size() + layer.bias.size()) * sizeof(float));
        if (layer.bytes) total += layer.bytes->bytes();
        if (layer.exact) total += layer.exact->bytes();
        if (layer.floats) total += layer.floats->bytes();
    }
    return total;
}

}  // namespace binaryrelax
