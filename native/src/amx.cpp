// Fast mode with AMX: a tile instruction multiplies 16 rows of 64 bytes with 64 x 16 weights.
//
// The tiles' registers belong to the whole CPU core and make a switch between programs dearer; they are given
// back after every call.
#include "x86.hpp"

namespace binaryrelax {
namespace amx {
namespace {

constexpr int TILE_ROWS = 16;
constexpr int TILE_BYTES = 64;  // of a row
constexpr int TILE_QUADS = TILE_BYTES / 4;

struct alignas(64) TileConfig {
    uint8_t palette = 1;
    uint8_t start_row = 0;
    uint8_t reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Not on the stack: compilers believe that only its first bytes are read, and leave out the others.
const TileConfig CONFIG;

// Tiles 0 to 3 hold sums of [upper or lower rows][first or second set], 4 and 5 rows, 6 and 7 weights.
template <bool TWO_ROWS, bool TWO_SETS>
void multiply(const RowsJob& job, int first_row, int first_set) {
    const int64_t weights_stride = job.sets * LANES * 4, totals_stride = PANEL * 4;
    const uint8_t* rows = job.rows + first_row * job.row_stride;
    const int8_t* weights = job.panel + first_set * LANES * 4;
    int32_t* totals = job.totals + first_row * PANEL + first_set * LANES;
    _tile_loadd(0, totals, totals_stride);
    if (TWO_SETS) _tile_loadd(1, totals + LANES, totals_stride);
    if (TWO_ROWS) _tile_loadd(2, totals + TILE_ROWS * PANEL, totals_stride);
    if (TWO_ROWS && TWO_SETS) _tile_loadd(3, totals + TILE_ROWS * PANEL + LANES, totals_stride);
    for (int64_t quad = 0; quad < job.quads; quad += TILE_QUADS) {
        _tile_loadd(4, rows + quad * 4, job.row_stride);
        _tile_loadd(6, weights + quad * weights_stride, weights_stride);
        _tile_dpbusd(0, 4, 6);
        if (TWO_SETS) {
            _tile_loadd(7, weights + quad * weights_stride + LANES * 4, weights_stride);
            _tile_dpbusd(1, 4, 7);
        }
        if (TWO_ROWS) {
            _tile_loadd(5, rows + TILE_ROWS * job.row_stride + quad * 4, job.row_stride);
            _tile_dpbusd(2, 5, 6);
        }
        if (TWO_ROWS && TWO_SETS) _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, totals, totals_stride);
    if (TWO_SETS) _tile_stored(1, totals + LANES, totals_stride);
    if (TWO_ROWS) _tile_stored(2, totals + TILE_ROWS * PANEL, totals_stride);
    if (TWO_ROWS && TWO_SETS) _tile_stored(3, totals + TILE_ROWS * PANEL + LANES, totals_stride);
}

void multiply_rows(const RowsJob& job, int first_row, bool two_rows) {
    for (int set = 0; set < job.sets; set += 2) {
        if (set + 1 < job.sets) {
            two_rows ? multiply<true, true>(job, first_row, set) : multiply<false, true>(job, first_row, set);
        } else {
            two_rows ? multiply<true, false>(job, first_row, set) : multiply<false, false>(job, first_row, set);
        }
    }
}

}  // namespace

void enter() {
    _tile_loadconfig(&CONFIG);
}

void leave() { _tile_release(); }

namespace {

// Up to two groups of pixels times one or two sets. Tiles 0 to 3 hold sums of [group][set], 4 and 5 pixels, 6 and
// 7 weights.
template <bool TWO_GROUPS, bool TWO_SETS>
void multiply_groups(const ChunkJob& job, int first_pixel, int first_set) {
    const int64_t weights_stride = job.sets * LANES * 4, totals_stride = PANEL * 4;
    const uint8_t* upper = job.pixels[first_pixel];
    const uint8_t* lower = TWO_GROUPS ? job.pixels[first_pixel + GROUP] : nullptr;
    const int8_t* weights = job.panel + first_set * LANES * 4;
    int32_t* totals = job.totals + first_pixel * PANEL + first_set * LANES;
    if (job.first) {
        _tile_zero(0);
        if (TWO_SETS) _tile_zero(1);
        if (TWO_GROUPS) _tile_zero(2);
        if (TWO_GROUPS && TWO_SETS) _tile_zero(3);
    } else {
        _tile_loadd(0, totals, totals_stride);
        if (TWO_SETS) _tile_loadd(1, totals + LANES, totals_stride);
        if (TWO_GROUPS) _tile_loadd(2, totals + GROUP * PANEL, totals_stride);
        if (TWO_GROUPS && TWO_SETS) _tile_loadd(3, totals + GROUP * PANEL + LANES, totals_stride);
    }
    for (int64_t step = 0; step < job.steps; ++step, weights += TILE_QUADS * weights_stride) {
        const int64_t offset = job.offsets[step];
        _tile_loadd(4, upper + offset, job.pixel_stride);
        _tile_loadd(6, weights, weights_stride);
        _tile_dpbusd(0, 4, 6);
        if (TWO_SETS) {
            _tile_loadd(7, weights + LANES * 4, weights_stride);
            _tile_dpbusd(1, 4, 7);
        }
        if (TWO_GROUPS) {
            _tile_loadd(5, lower + offset, job.pixel_stride);
            _tile_dpbusd(2, 5, 6);
        }
        if (TWO_GROUPS && TWO_SETS) _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, totals, totals_stride);
    if (TWO_SETS) _tile_stored(1, totals + LANES, totals_stride);
    if (TWO_GROUPS) _tile_stored(2, totals + GROUP * PANEL, totals_stride);
    if (TWO_GROUPS && TWO_SETS) _tile_stored(3, totals + GROUP * PANEL + LANES, totals_stride);
}

}  // namespace

void multiply(const ChunkJob& job) {
    for (int pixel = 0; pixel < job.num_pixels; pixel += 2 * GROUP) {
        const bool two_groups = job.num_pixels - pixel > GROUP;
        for (int set = 0; set < job.sets; set += 2) {
            if (set + 1 < job.sets) {
                two_groups ? multiply_groups<true, true>(job, pixel, set)
                           : multiply_groups<false, true>(job, pixel, set);
            } else {
                two_groups ? multiply_groups<true, false>(job, pixel, set)
                           : multiply_groups<false, false>(job, pixel, set);
            }
        }
    }
}

void dot_rows(const RowsJob& job) {
    for (int row = 0; row < job.num_rows; ++row) {
        for (int set = 0; set < job.sets; ++set) {
            const __m512i correction = _mm512_loadu_si512(job.corrections + set * LANES);
            _mm512_storeu_si512(job.totals + row * PANEL + set * LANES, correction);
        }
    }
    _tile_loadconfig(&CONFIG);
    for (int row = 0; row < job.num_rows; row += 2 * TILE_ROWS) {
        multiply_rows(job, row, row + TILE_ROWS < job.num_rows);
    }
    _tile_release();
}

}  // namespace amx
}  // namespace binaryrelax
