#include "tiled_convolution.hpp"

namespace binaryrelax {
namespace {

constexpr int64_t FIELD_BYTES = 1 << 19;  // of transformed inputs, to stay in a core's L2 cache
constexpr int64_t MOST_TILES = 72;        // of a unit
constexpr int64_t FEWEST_TILES = 16;      // for which weights are worth transforming, if there are more
constexpr int64_t CHUNK_CHANNELS = 64;    // whose weights stay in the caches
constexpr int64_t UNITS_PER_THREAD = 4;   // a thread that is held up does not hold up the others

// Positions do not lie at multiples of a page: they would fall on one another in the caches.
int64_t weight_stride(int64_t channels, int lanes) { return channels * lanes + LANES; }
int64_t sum_stride(int64_t tiles, int lanes) { return tiles * lanes + LANES; }

struct Room {
    AlignedBuffer<float> fields, weights, sums, totals;
};
thread_local Room room_of_thread;

}  // namespace

bool TiledConvolution::can(const Geometry& geometry) {
    const auto fits = [](const Axis& axis) { return axis.kernel == 3 && axis.stride == 1 && axis.dilation == 1; };
    return geometry.groups == 1 && fits(geometry.vertical) && fits(geometry.horizontal) &&
           geometry.inputs_in_group % FLOAT_TILE_CHANNELS == 0;
}

bool TiledConvolution::pays(const Layer& layer, const Shape& out) {
    const int64_t channels = layer.geometry.inputs_in_group;
    const int64_t tiles = divide_up(out.height, FLOAT_TILE) * divide_up(out.width, FLOAT_TILE);
    // Tables of 1 bit stand for twice the products of ternary ones; few channels do not make up for building them.
    return tiles >= 16 && (layer.bits == 2 || channels < 32);
}

TiledConvolution::TiledConvolution(const Layer& layer, const Activation& activation, const float* bias,
                                   const Shape& in, const Shape& out, int threads)
    : layer_(layer),
      kernels_(*layer.kernels->floats),
      out_(out),
      channels_(in.channels),
      rows_(divide_up(out.height, FLOAT_TILE)),
      columns_(divide_up(out.width, FLOAT_TILE)),
      factor_(layer.scale),
      epilogue_(activation, factor_.data(), bias) {
    for (float& factor : factor_) factor *= 0.25f;
    const int64_t wanted = UNITS_PER_THREAD * threads, sets = divide_up(layer.geometry.outputs, LANES);
    const int64_t row_bytes = columns_ * channels_ * FLOAT_POSITIONS * int64_t{sizeof(float)};
    const int64_t fit = std::min(FIELD_BYTES / row_bytes, MOST_TILES / columns_);
    const int64_t shared = std::max(divide_up(rows_of_all(), wanted), divide_up(FEWEST_TILES, columns_));
    block_rows_ = std::max<int64_t>(1, std::min({fit, shared, rows_of_all()}));
    blocks_ = divide_up(rows_of_all(), block_rows_);
    slice_sets_ = MAX_SETS;
    while (slice_sets_ > 1 && blocks_ * divide_up(sets, slice_sets_) < wanted / 2) slice_sets_ /= 2;
    slices_ = divide_up(sets, slice_sets_);
    parts_ = std::min(slices_, divide_up(wanted / 2, blocks_));
}

TiledConvolution::Task TiledConvolution::task(int64_t block, int64_t slice) const {
    const int64_t first_row = block * block_rows_;
    const int64_t panel = slice * slice_sets_ / MAX_SETS;
    const int first_set = static_cast<int>(slice * slice_sets_ % MAX_SETS);
    const int sets = std::min(slice_sets_, layer_.groups[0].panel_sets(panel) - first_set);
    return {first_row, std::min(block_rows_, rows_of_all() - first_row), panel, first_set, sets};
}

int64_t TiledConvolution::room() const {
    const int64_t tiles = block_rows_ * columns_;
    const int lanes = slice_sets_ * LANES;
    const int64_t floats = FLOAT_POSITIONS * (field_stride(tiles) + sum_stride(tiles, lanes) +
                                              weight_stride(std::min(CHUNK_CHANNELS, channels_), lanes)) +
                           FLOAT_TILE * FLOAT_TILE * columns_ * lanes;
    return floats * int64_t{sizeof(float)};
}

void TiledConvolution::run(const ConstMap& x, const Map& y, const float* added, int64_t unit) const {
    const int64_t block = unit % blocks_, part = unit / blocks_, first_row = block * block_rows_;
    transform_fields(x, first_row, std::min(block_rows_, rows_of_all() - first_row));
    for (int64_t slice = part * slices_ / parts_; slice < (part + 1) * slices_ / parts_; ++slice) {
        const Task task = this->task(block, slice);
        multiply(task);
        write(y, added, task);
    }
}

void TiledConvolution::transform_fields(const ConstMap& x, int64_t first_row, int64_t rows) const {
    const int64_t stride = field_stride(rows * columns_);
    float* out = room_of_thread.fields.reserve(FLOAT_POSITIONS * stride);
    for (int64_t i = first_row; i < first_row + rows; ++i, out += columns_ * channels_) {
        const int64_t image = i / rows_, row = i % rows_;
        kernels_.tiles->transform_fields({x.row(image * x.shape.height), x.shape.height, x.shape.width, channels_,
                                          row * FLOAT_TILE - layer_.geometry.vertical.padding,
                                          -layer_.geometry.horizontal.padding, columns_, out, stride});
    }
}

// The weights of some channels at a time serve all tiles.
void TiledConvolution::multiply(const Task& task) const {
    const Tiles& codes = layer_.groups[0];
    const int64_t tiles = task.rows * columns_, stride = field_stride(tiles), sums_stride = sum_stride(tiles, task.lanes());
    float* sums = room_of_thread.sums.reserve(FLOAT_POSITIONS * sums_stride);
    const float* pixels[FLOAT_PIXELS];
    for (int64_t first = 0; first < channels_; first += CHUNK_CHANNELS) {
        const int64_t count = std::min(CHUNK_CHANNELS, channels_ - first), weights_stride = weight_stride(count, task.lanes());
        float* weights = room_of_thread.weights.reserve(FLOAT_POSITIONS * weights_stride);
        kernels_.tiles->transform_levels({codes.panel(task.panel) + task.first_set * LANES,
                                          codes.panel_sets(task.panel) * int64_t{LANES}, layer_.bits, task.sets,
                                          channels_, first, count, weights, weights_stride});
        for (int64_t position = 0; position < FLOAT_POSITIONS; ++position) {
            const FloatRun run{position * stride + first, count};
            for (int64_t tile = 0; tile < tiles; tile += FLOAT_PIXELS) {
                const int left = static_cast<int>(std::min<int64_t>(FLOAT_PIXELS, tiles - tile));
                for (int i = 0; i < left; ++i) pixels[i] = room_of_thread.fields.data() + (tile + i) * channels_;
                kernels_.dot_floats({weights + position * weights_stride, task.sets, &run, 1, pixels, left,
                                     sums + position * sums_stride + tile * task.lanes(), task.lanes(), first == 0,
                                     nullptr});
            }
        }
    }
}

// Without what stands over the edge of the map.
void TiledConvolution::write(const Map& y, const float* added, const Task& task) const {
    const int lanes = task.lanes();
    const int64_t stride = sum_stride(task.rows * columns_, lanes), row_size = FLOAT_TILE * columns_ * lanes;
    const int64_t outputs = std::min<int64_t>(lanes, layer_.geometry.outputs - task.first_output());
    float* totals = room_of_thread.totals.reserve(FLOAT_TILE * row_size);
    for (int64_t i = 0; i < task.rows; ++i) {
        const int64_t image = (task.first_row + i) / rows_, row = (task.first_row + i) % rows_ * FLOAT_TILE;
        kernels_.tiles->transform_sums({room_of_thread.sums.data() + i * columns_ * lanes, stride, columns_, task.sets,
                                        totals, row_size});
        for (int64_t j = 0; j < std::min<int64_t>(FLOAT_TILE, out_.height - row); ++j) {
            const int64_t place = (image * out_.height + row + j) * out_.width * out_.channels + task.first_output();
            const FloatFinish finish = epilogue_.job(totals + j * row_size, lanes, out_.width, task.first_output(),
                                                     outputs, y.data + place, out_.channels,
                                                     added ? added + place : nullptr);
            kernels_.finish_floats(finish);
            epilogue_.activate(finish);
        }
    }
}

}  // namespace binaryrelax
