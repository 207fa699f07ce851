#include "layer.hpp"

#include <algorithm>

namespace binaryrelax {
namespace {

// Some more units than threads, so that a thread that is held up does not hold up the others.
constexpr int64_t UNITS_PER_THREAD = 4;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

std::vector<int64_t> Layer::step_offsets(int64_t field_width, int64_t record, int64_t steps_per_tap,
                                         int64_t step_size) const {
    std::vector<int64_t> offsets;
    offsets.reserve(static_cast<size_t>(geometry.taps() * steps_per_tap));
    for (int64_t i = 0; i < geometry.vertical.kernel; ++i) {
        for (int64_t j = 0; j < geometry.horizontal.kernel; ++j) {
            const int64_t row = i * geometry.vertical.dilation, column = j * geometry.horizontal.dilation;
            const int64_t pixel = (row * field_width + column) * record;
            for (int64_t step = 0; step < steps_per_tap; ++step) offsets.push_back(pixel + step * step_size);
        }
    }
    return offsets;
}

int64_t Layer::bytes() const {
    int64_t total = static_cast<int64_t>(scale.size() * sizeof(float));
    for (const Tiles& tiles : groups) total += tiles.bytes();
    return total;
}

std::vector<Tiles> tile_groups(const CanonicalCodes& codes, const Geometry& geometry) {
    std::vector<int64_t> sources;
    for (int64_t tap = 0; tap < geometry.taps(); ++tap) {
        for (int64_t channel = 0; channel < geometry.padded_inputs_in_group(); ++channel) {
            sources.push_back(channel < geometry.inputs_in_group ? channel * geometry.taps() + tap : -1);
        }
    }
    std::vector<Tiles> groups;
    const int64_t outputs = geometry.outputs_in_group();
    for (int64_t group = 0; group < geometry.groups; ++group) {
        groups.emplace_back(codes, group * outputs, outputs, sources);
    }
    return groups;
}

Units::Units(const Layer& layer, const Call& call, int64_t most_rows)
    : images(call.images), panels(layer.groups[0].num_panels()), groups(layer.geometry.groups) {
    const int64_t others = std::max<int64_t>(1, images * panels * groups);
    const int64_t wanted_bands = divide_up(UNITS_PER_THREAD * call.threads, others);
    const int64_t shared_rows = divide_up(call.output.height, wanted_bands);
    band_rows = std::max<int64_t>(1, std::min(most_rows, shared_rows));
    bands = divide_up(call.output.height, band_rows);
}

FinishJob finish_job(const Layer& layer, const Call& call, int64_t group, int64_t panel, int64_t first_pixel,
                     int num_pixels) {
    const Tiles& tiles = layer.groups[group];
    const int64_t first_output = group * tiles.outputs() + panel * PANEL;
    return {num_pixels,
            tiles.panel_outputs(panel),
            layer.scale.data() + first_output,
            call.bias ? call.bias + first_output : nullptr,
            nullptr,
            call.y + first_pixel * layer.geometry.outputs + first_output,
            layer.geometry.outputs};
}

}  // namespace binaryrelax
