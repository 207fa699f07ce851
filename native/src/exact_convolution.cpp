// Exact mode: the tables of a band of the image are built once, and all its outputs are looked up there.
#include <algorithm>

#include "layer.hpp"
#include "thread_pool.hpp"

namespace binaryrelax {
namespace {

constexpr int64_t TABLE_BUDGET = 1 << 20;  // bytes of tables, to stay in a core's L2 cache
constexpr int64_t UNITS_PER_THREAD = 4;    // a thread that is held up does not hold up the others

thread_local AlignedBuffer<float> thread_tables;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t nibbles_of(const Layer& layer) { return layer.geometry.padded_inputs_in_group() * layer.bits / 4; }

}  // namespace

ExactConvolution::ExactConvolution(const Layer& layer, Image input, Image output, int64_t images, int threads)
    : layer_(layer),
      field_{layer.geometry, input, layer.geometry.horizontal.field(output.width), nibbles_of(layer) * TABLE, 0.0f},
      offsets_(layer.step_offsets(field_.width, field_.record(), nibbles_of(layer), TABLE)),
      images_(images),
      panels_(layer.groups[0].num_panels() * layer.geometry.groups) {
    const Axis& vertical = layer.geometry.vertical;
    const int64_t row_bytes = std::max<int64_t>(1, field_.row_size() * int64_t{sizeof(float)});
    const int64_t fit = (TABLE_BUDGET / row_bytes - vertical.span()) / vertical.step() + 1;
    const int64_t wanted = UNITS_PER_THREAD * threads;
    const int64_t shared = divide_up(output.height, divide_up(wanted, std::max<int64_t>(1, images)));
    band_rows_ = std::max<int64_t>(1, std::min(fit, shared));
    bands_ = divide_up(output.height, band_rows_);
    // Where there are too few bands, threads share the panels of one, and each builds its tables.
    parts_ = std::min(panels_, divide_up(threads, std::max<int64_t>(1, images * bands_)));
}

void ExactConvolution::run(const Call& call, int64_t unit) const {
    const int64_t band = unit / parts_, part = unit % parts_;
    float* tables = thread_tables.reserve(room() / int64_t{sizeof(float)});
    build(call, band, tables);
    for (int64_t panel = part * panels_ / parts_; panel < (part + 1) * panels_ / parts_; ++panel) {
        look_up(call, band, panel, tables);
    }
}

int64_t ExactConvolution::room() const {
    return layer_.geometry.vertical.field(band_rows_) * field_.row_size() * int64_t{sizeof(float)};
}

int64_t ExactConvolution::num_rows(const Call& call, int64_t band) const {
    return std::min(band_rows_, call.output.height - first_row(band));
}

void ExactConvolution::build(const Call& call, int64_t band, float* tables) const {
    const float* image = call.image(layer_.geometry, band / bands_);
    for (int64_t row = 0; row < layer_.geometry.vertical.field(num_rows(call, band)); ++row) {
        field_.fill_row(image, first_row(band), row, tables + row * field_.row_size(),
                        [&](const float* x, int64_t channels, float* out) {
                            layer_.kernels->build_tables(x, channels, layer_.bits, out);
                        });
    }
}

void ExactConvolution::look_up(const Call& call, int64_t band, int64_t index, const float* tables) const {
    alignas(64) double totals[MAX_PIXELS * PANEL];
    const int64_t in_group = layer_.groups[0].num_panels(), group = index / in_group, panel = index % in_group;
    const Tiles& tiles = layer_.groups[group];
    const int64_t width = call.output.width, pixels = num_rows(call, band) * width;
    const int64_t before = (band / bands_ * call.output.height + first_row(band)) * width;
    for (int64_t pixel = 0; pixel < pixels; pixel += MAX_PIXELS) {
        const int count = static_cast<int>(std::min<int64_t>(MAX_PIXELS, pixels - pixel));
        const float* starts[MAX_PIXELS];
        for (int i = 0; i < count; ++i) {
            starts[i] = tables + field_.pixel((pixel + i) / width, (pixel + i) % width, group);
        }
        layer_.kernels->look_up({tiles.panel(panel), tiles.panel_sets(panel), tiles.num_nibbles(), starts,
                                 offsets_.data(), count, totals});
        layer_.kernels->finish_exact(totals, finish_job(layer_, call, group, panel, before + pixel, count));
    }
}

void convolve_exact(const Layer& layer, const Call& call) {
    const ExactConvolution convolution(layer, call.input, call.output, call.images, call.threads);
    Shares shares(convolution.units(), 1);
    auto work = [&] {
        for (int64_t unit, end; shares.take(unit, end);) {
            for (; unit < end; ++unit) convolution.run(call, unit);
        }
    };
    run_in_threads(call.threads, work);
}

}  // namespace binaryrelax
