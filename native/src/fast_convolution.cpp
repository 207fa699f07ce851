// Fast mode: the images become bytes once; each thread expands a panel of weights and uses it for many pixels.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "activations.hpp"
#include "field.hpp"
#include "layer.hpp"
#include "thread_pool.hpp"

namespace binaryrelax {
namespace {

constexpr uint8_t ZERO = 128;                    // bytes are unsigned here
constexpr int64_t IMAGES_BUDGET = 1 << 24;       // bytes of images that are prepared at a time
constexpr int64_t BAND_BUDGET = 1 << 19;         // bytes of a band, to stay in a core's L2 cache
constexpr int64_t FLOATS_PER_SHARE = 1 << 14;    // of the search for the largest magnitude

thread_local AlignedBuffer<int8_t> thread_panel;
thread_local AlignedBuffer<uint8_t> thread_rows;
thread_local AlignedBuffer<uint8_t> caller_bytes;

void raise_to(std::atomic<uint32_t>& largest, uint32_t value) {
    uint32_t before = largest.load();
    while (before < value && !largest.compare_exchange_weak(before, value)) {
    }
}

// One scale for each image, or for each of its rows.
std::vector<ByteScale> find_scales(const Layer& layer, const Call& call) {
    const int64_t rows = call.scale_per_row ? 1 : call.input.height;
    const int64_t count = call.scale_per_row ? call.images * call.input.height : call.images;
    const int64_t size = rows * call.input.width * layer.geometry.channels();
    const int64_t pieces = std::max<int64_t>(1, size / FLOATS_PER_SHARE);
    std::vector<std::atomic<uint32_t>> magnitudes(static_cast<size_t>(count));
    Shares shares(count * pieces, count * pieces / (4 * call.threads));
    auto work = [&] {
        for (int64_t piece, end; shares.take(piece, end);) {
            for (; piece < end; ++piece) {
                const int64_t begin = piece % pieces * size / pieces, stop = (piece % pieces + 1) * size / pieces;
                const float* x = call.x + piece / pieces * size;
                raise_to(magnitudes[piece / pieces], layer.kernels->largest_magnitude(x + begin, stop - begin));
            }
        }
    };
    run_in_threads(count * size > FLOATS_PER_SHARE ? call.threads : 1, work);
    return {magnitudes.begin(), magnitudes.end()};
}

// A stretch of bytes that a pixel's activations take from the field.
struct Run {
    int64_t offset, length;
};

std::vector<Run> runs_of(const std::vector<int64_t>& quad_offsets) {
    std::vector<Run> runs;
    for (const int64_t offset : quad_offsets) {
        if (!runs.empty() && runs.back().offset + runs.back().length == offset) {
            runs.back().length += 4;
        } else {
            runs.push_back({offset, 4});
        }
    }
    return runs;
}

struct FastWork {
    const Layer& layer;
    const Call& call;
    const Field<uint8_t>& field;
    const Units& units;
    const std::vector<int64_t>& offsets;
    const std::vector<Run>& runs;
    const std::vector<ByteScale>& scales;
    const uint8_t* bytes;
    Shares& shares;

    void operator()() const {
        int8_t* weights = thread_panel.reserve(padded_quads() * 4 * PANEL);
        const int64_t bands = units.images * units.bands;
        int64_t current_panel = -1;
        for (int64_t unit, end; shares.take(unit, end);) {
            for (; unit < end; ++unit) {
                const int64_t group = unit / bands / units.panels, panel = unit / bands % units.panels;
                if (unit / bands != current_panel) expand(group, panel, weights);
                current_panel = unit / bands;
                multiply(unit % bands, group, panel, weights);
            }
        }
    }

  private:
    // The output pixels of a band, in their order.
    struct Band {
        int64_t image, first_row, pixels;
    };

    int64_t quads() const { return static_cast<int64_t>(offsets.size()); }
    int64_t padded_quads() const { return (quads() + QUAD_BLOCK - 1) / QUAD_BLOCK * QUAD_BLOCK; }

    void expand(int64_t group, int64_t panel, int8_t* weights) const {
        const Tiles& tiles = layer.groups[group];
        const int64_t quad_size = tiles.panel_sets(panel) * LANES * 4;
        layer.kernels->expand(tiles.panel(panel), tiles.panel_sets(panel), quads(), layer.bits, weights);
        std::fill(weights + quads() * quad_size, weights + padded_quads() * quad_size, int8_t{0});
    }

    void multiply(int64_t index, int64_t group, int64_t panel, const int8_t* weights) const {
        const int64_t first_row = index % units.bands * units.band_rows;
        const int64_t rows = std::min(units.band_rows, call.output.height - first_row);
        const Band band{index / units.bands, first_row, rows * call.output.width};
        const bool in_rows = layer.kernels->dot_rows && band.pixels >= ROW_BLOCK && quads() >= QUAD_BLOCK;
        const int64_t step = in_rows ? MAX_ROWS : MAX_PIXELS;
        for (int64_t pixel = 0; pixel < band.pixels; pixel += step) {
            const int count = static_cast<int>(std::min(step, band.pixels - pixel));
            alignas(64) int32_t totals[MAX_ROWS * PANEL];
            const uint8_t* starts[MAX_ROWS];
            float x_scales[MAX_ROWS];
            for (int i = 0; i < count; ++i) locate(band, group, pixel + i, starts[i], x_scales[i]);
            in_rows ? dot_rows(group, panel, weights, starts, count, totals)
                    : dot_bytes(group, panel, weights, starts, count, totals);
            const int64_t before = (band.image * call.output.height + first_row) * call.output.width;
            FinishJob finish = finish_job(layer, call, group, panel, before + pixel, count);
            finish.x_scales = x_scales;
            layer.kernels->finish_fast(totals, finish);
        }
    }

    void locate(const Band& band, int64_t group, int64_t pixel, const uint8_t*& start, float& x_scale) const {
        const int64_t image_rows = layer.geometry.vertical.field(call.output.height);
        const int64_t row = band.first_row + pixel / call.output.width, column = pixel % call.output.width;
        start = bytes + band.image * image_rows * field.row_size() + field.pixel(row, column, group);
        x_scale = scales[call.scale_per_row ? band.image * call.output.height + row : band.image].scale();
    }

    void dot_bytes(int64_t group, int64_t panel, const int8_t* weights, const uint8_t* const* starts, int count,
                   int32_t* totals) const {
        const Tiles& tiles = layer.groups[group];
        layer.kernels->dot_bytes({weights, tiles.panel_sets(panel), quads(), starts, offsets.data(), count,
                                  tiles.corrections(panel), 0, totals});
    }

    // Rows that already lie in memory as they are wanted are used there; others are put together first.
    void dot_rows(int64_t group, int64_t panel, const int8_t* weights, const uint8_t* const* starts, int count,
                  int32_t* totals) const {
        const Tiles& tiles = layer.groups[group];
        const int num_rows = (count + ROW_BLOCK - 1) / ROW_BLOCK * ROW_BLOCK;
        const bool in_place = layer.geometry.taps() == 1 && call.output.width == 1 && num_rows == count &&
                              padded_quads() == quads();
        const int64_t stride = in_place ? field.row_size() : padded_quads() * 4;
        const uint8_t* rows = in_place ? starts[0] : gather(starts, count, stride);
        layer.kernels->dot_rows({weights, tiles.panel_sets(panel), padded_quads(), rows, stride, num_rows,
                                 tiles.corrections(panel), totals});
    }

    const uint8_t* gather(const uint8_t* const* starts, int count, int64_t stride) const {
        uint8_t* rows = thread_rows.reserve(MAX_ROWS * stride);
        for (int i = 0; i < count; ++i) {
            uint8_t* out = rows + i * stride;
            for (const Run& run : runs) {
                std::memcpy(out, starts[i] + run.offset, static_cast<size_t>(run.length));
                out += run.length;
            }
        }
        return rows;
    }
};

void to_bytes(const Layer& layer, const Call& call, const Field<uint8_t>& field, const std::vector<ByteScale>& scales,
              uint8_t* bytes) {
    const int64_t rows = layer.geometry.vertical.field(call.output.height);
    const int64_t all_rows = call.images * rows;
    const int64_t channels_padded = layer.geometry.padded_inputs_in_group();
    Shares shares(all_rows, all_rows / (4 * call.threads));
    auto work = [&] {
        for (int64_t row, end; shares.take(row, end);) {
            for (; row < end; ++row) {
                const int64_t image = row / rows;
                const ByteScale& scale = scales[call.scale_per_row ? row : image];
                field.fill_row(call.image(layer.geometry, image), 0, row % rows, bytes + row * field.row_size(),
                               [&](const float* x, int64_t channels, uint8_t* out) {
                                   scale.to_bytes(*layer.kernels, x, channels, ZERO, out);
                                   if (channels < channels_padded) {
                                       std::fill(out + channels, out + channels_padded, ZERO);
                                   }
                               });
            }
        }
    };
    run_in_threads(call.threads, work);
}

void convolve_block(const Layer& layer, const Call& call) {
    const Geometry& geometry = layer.geometry;
    const int64_t quads = geometry.padded_inputs_in_group() / 4;
    const Field<uint8_t> field{geometry, call.input, geometry.horizontal.field(call.output.width), quads * 4,
                               ZERO};
    const std::vector<int64_t> offsets = layer.step_offsets(field.width, field.record(), quads, 4);
    const std::vector<ByteScale> scales = find_scales(layer, call);
    const int64_t image_size = geometry.vertical.field(call.output.height) * field.row_size();
    uint8_t* bytes = caller_bytes.reserve(call.images * image_size);
    to_bytes(layer, call, field, scales, bytes);

    const int64_t spare_rows = BAND_BUDGET / std::max<int64_t>(1, field.row_size()) - geometry.vertical.span();
    const Units units(layer, call, spare_rows / geometry.vertical.step() + 1);
    Shares shares(units.count(), units.count() / (8 * call.threads));
    const std::vector<Run> runs = runs_of(offsets);
    FastWork work{layer, call, field, units, offsets, runs, scales, bytes, shares};
    run_in_threads(call.threads, work);
}

}  // namespace

void convolve_fast(const Layer& layer, const Call& call) {
    const int64_t image_bytes =
        std::max<int64_t>(1, call.input.height * call.input.width * layer.geometry.channels());
    const int64_t block = std::max<int64_t>(1, IMAGES_BUDGET / image_bytes);
    for (int64_t image = 0; image < call.images; image += block) {
        Call part = call;
        part.x = call.image(layer.geometry, image);
        part.images = std::min(block, call.images - image);
        part.y = call.y + image * call.output.height * call.output.width * layer.geometry.outputs;
        convolve_block(layer, part);
    }
}

}  // namespace binaryrelax
