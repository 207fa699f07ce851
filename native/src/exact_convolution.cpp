// Exact mode: each thread builds the tables of a band of the image once and looks up all its outputs there.
#include <algorithm>

#include "field.hpp"
#include "layer.hpp"
#include "thread_pool.hpp"

namespace binaryrelax {
namespace {

constexpr int64_t TABLE_BUDGET = 1 << 20;  // bytes of tables, to stay in a core's L2 cache

thread_local AlignedBuffer<float> thread_tables;

struct ExactWork {
    const Layer& layer;
    const Call& call;
    const Field<float>& field;
    const Units& units;
    const std::vector<int64_t>& offsets;
    Shares& shares;

    void operator()() const {
        const int64_t band_rows = layer.geometry.vertical.field(units.band_rows);
        float* tables = thread_tables.reserve(band_rows * field.row_size());
        int64_t current_band = -1;
        for (int64_t unit, end; shares.take(unit, end);) {
            for (; unit < end; ++unit) {
                const int64_t band = unit / (units.groups * units.panels);
                if (band != current_band) build(band, tables);
                current_band = band;
                look_up(band, unit / units.panels % units.groups, unit % units.panels, tables);
            }
        }
    }

  private:
    int64_t first_row(int64_t band) const { return band % units.bands * units.band_rows; }
    int64_t num_rows(int64_t band) const {
        return std::min(units.band_rows, call.output.height - first_row(band));
    }

    void build(int64_t band, float* tables) const {
        const float* image = call.image(layer.geometry, band / units.bands);
        for (int64_t row = 0; row < layer.geometry.vertical.field(num_rows(band)); ++row) {
            field.fill_row(image, first_row(band), row, tables + row * field.row_size(),
                           [&](const float* x, int64_t channels, float* out) {
                               layer.kernels->build_tables(x, channels, layer.bits, out);
                           });
        }
    }

    void look_up(int64_t band, int64_t group, int64_t panel, const float* tables) const {
        alignas(64) double totals[MAX_PIXELS * PANEL];
        const Tiles& tiles = layer.groups[group];
        const int64_t width = call.output.width, pixels = num_rows(band) * width;
        const int64_t before = (band / units.bands * call.output.height + first_row(band)) * width;
        for (int64_t pixel = 0; pixel < pixels; pixel += MAX_PIXELS) {
            const int count = static_cast<int>(std::min<int64_t>(MAX_PIXELS, pixels - pixel));
            const float* starts[MAX_PIXELS];
            for (int i = 0; i < count; ++i) {
                starts[i] = tables + field.pixel((pixel + i) / width, (pixel + i) % width, group);
            }
            layer.kernels->look_up({tiles.panel(panel), tiles.panel_sets(panel), tiles.num_nibbles(), starts,
                                    offsets.data(), count, totals});
            layer.kernels->finish_exact(totals,
                                        finish_job(layer, call, group, panel, before + pixel, count));
        }
    }
};

}  // namespace

void convolve_exact(const Layer& layer, const Call& call) {
    const Geometry& geometry = layer.geometry;
    const int64_t nibbles = geometry.padded_inputs_in_group() * layer.bits / 4;
    const Field<float> field{geometry, call.input, geometry.horizontal.field(call.output.width),
                             nibbles * TABLE, 0.0f};
    const std::vector<int64_t> offsets = layer.step_offsets(field.width, field.record(), nibbles, TABLE);

    const int64_t row_bytes = std::max<int64_t>(1, field.row_size() * int64_t{sizeof(float)});
    const int64_t spare_rows = TABLE_BUDGET / row_bytes - geometry.vertical.span();
    const Units units(layer, call, spare_rows / geometry.vertical.step() + 1);

    // Whole bands where there are enough: then no band's tables are built by two threads.
    const int64_t per_band = units.groups * units.panels;
    const int64_t share = std::min(per_band, units.count() / (4 * call.threads));
    Shares shares(units.count(), units.images * units.bands >= 2 * call.threads ? per_band : share);
    ExactWork work{layer, call, field, units, offsets, shares};
    run_in_threads(call.threads, work);
}

}  // namespace binaryrelax
