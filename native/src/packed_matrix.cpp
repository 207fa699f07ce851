#include "packed_matrix.hpp"

#include <algorithm>
#include <utility>

#include "activations.hpp"
#include "thread_pool.hpp"

namespace binaryrelax {
namespace {

// Up to this many rows it is faster to expand the weights in registers for each row anew.
constexpr int64_t FEW_ROWS = 2;

// Rows are prepared in blocks of about so many activations, which bounds the memory for them.
constexpr int64_t BLOCK_BUDGET = 1 << 24;
constexpr int64_t LEAST_BLOCK = 64;

thread_local AlignedBuffer<uint8_t> caller_bytes;
thread_local AlignedBuffer<int8_t> caller_shuffled;

Geometry matrix_geometry(const CanonicalCodes& codes) {
    const Axis one_tap{1, 1, 0, 1};
    return {codes.outputs, codes.inputs, 1, one_tap, one_tap};
}

}  // namespace

PackedMatrix::PackedMatrix(const CanonicalCodes& codes, std::vector<float> scale, const Kernels& kernels)
    : layer_{matrix_geometry(codes), codes.bits, std::move(scale),
             tile_groups(codes, matrix_geometry(codes)), &kernels} {}

void PackedMatrix::multiply(const float* x, int64_t rows, const float* bias, bool fast, int threads,
                            float* y) const {
    if (rows == 0 || outputs() == 0) return;
    if (fast && rows <= FEW_ROWS) {
        for (int64_t row = 0; row < rows; ++row) {
            multiply_row_fast(x + row * inputs(), bias, threads, y + row * outputs());
        }
        return;
    }
    const int64_t most_rows = std::max(LEAST_BLOCK, BLOCK_BUDGET / std::max<int64_t>(1, inputs()));
    for (int64_t row = 0; row < rows; row += most_rows) {
        const Image size{std::min(most_rows, rows - row), 1};
        const Call call{x + row * inputs(), 1, size, size, bias, true, threads, y + row * outputs()};
        fast ? convolve_fast(layer_, call) : convolve_exact(layer_, call);
    }
}

void PackedMatrix::multiply_row_fast(const float* x, const float* bias, int threads, float* y) const {
    const Tiles& tiles = layer_.groups[0];
    const Kernels& kernels = *layer_.kernels;
    const int64_t row_bytes = tiles.num_words() * 32 / tiles.bits();
    uint8_t* bytes = caller_bytes.reserve(row_bytes);
    int8_t* shuffled = caller_shuffled.reserve(row_bytes);
    const ByteScale x_scale(kernels.largest_magnitude(x, inputs()));
    x_scale.to_bytes(kernels, x, inputs(), 0, bytes);
    std::fill(bytes + inputs(), bytes + row_bytes, uint8_t{0});
    const int8_t* values = reinterpret_cast<const int8_t*>(bytes);
    int32_t sum = 0;
    for (int64_t i = 0; i < inputs(); ++i) sum += values[i];
    kernels.shuffle(values, tiles.num_words(), tiles.bits(), shuffled);

    const Image size{1, 1};
    const Call call{x, 1, size, size, bias, true, threads, y};
    const float scale = x_scale.scale();
    Shares shares(tiles.num_panels(), tiles.num_panels() / (8 * threads));
    auto work = [&] {
        alignas(64) int32_t totals[PANEL];
        for (int64_t panel, end; shares.take(panel, end);) {
            for (; panel < end; ++panel) {
                kernels.dot_codes({tiles.panel(panel), tiles.panel_sets(panel), tiles.num_words(), tiles.bits(),
                                   shuffled, sum, totals});
                FinishJob finish = finish_job(layer_, call, 0, panel, 0, 1);
                finish.x_scales = &scale;
                kernels.finish_fast(totals, finish);
            }
        }
    };
    run_in_threads(threads, work);
}

}  // namespace binaryrelax
