// The two steps of a convolution with Winograd's products: its inputs as tiles, and all the rest.
#include <algorithm>
#include <memory>

#include "byte_epilogue.hpp"
#include "winograd.hpp"

namespace binaryrelax {
namespace {

constexpr int64_t MOST_TILES = 16;       // of a unit
constexpr double MOST_WORK = 0.82;       // of that of all products, for it to pay: transforms are work as well

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Tiles of all images: [image][row][column].
struct TileGrid {
    int64_t images, rows, columns;

    explicit TileGrid(const Shape& output)
        : images(output.images), rows(divide_up(output.height, TILE)), columns(divide_up(output.width, TILE)) {}
    int64_t count() const { return images * rows * columns; }
    int64_t groups() const { return divide_up(count(), TILE_GROUP); }
};

// A thread's room. The weights that were kept last stay.
struct Room {
    AlignedBuffer<uint8_t> weights, products_room;
    AlignedBuffer<int32_t> products, totals;
    uint64_t layer = 0;
    int64_t panel = -1;
};
thread_local Room room;

class WinogradWork {
  public:
    WinogradWork(const OperationLayer& owner, const ByteMap& from, int tiles, Added added, Target to,
                 const Shape& output, int threads)
        : layer_(*owner.bytes), kernels_(*layer_.kernels().winograd), channels_(layer_.geometry().inputs_in_group),
          tiles_(tiles), output_(output), grid_(output), layout_(channels_),
          epilogue_(owner, from, added, to, output) {
        const int64_t wanted = divide_up(threads, layer_.panels());
        const int64_t fewest = divide_up(grid_.count(), MOST_TILES);
        blocks_ = std::min(grid_.groups(), divide_up(fewest, wanted) * wanted);
    }

    int64_t units() const { return layer_.panels() * blocks_ + (epilogue_.has_border() ? output_.images : 0); }
    const ByteEpilogue& epilogue() const { return epilogue_; }
    // Bytes that a thread needs for a unit.
    int64_t room_bytes() const {
        const int64_t weights = (kernels_.kept_lines + kernels_.room_lines) * tile_line(channels_, layer_.panel_sets(0, 0));
        const int64_t sums = POSITIONS * product_stride(MOST_TILES) + TILE * TILE * PANEL;
        return weights + sums * static_cast<int64_t>(sizeof(int32_t));
    }

    void operator()(const Bound& bound, int64_t unit) const {
        const int64_t work = layer_.panels() * blocks_;
        if (unit >= work) return epilogue_.write_border(bound, unit - work);
        const int64_t panel = unit / blocks_, block = unit % blocks_;
        const int64_t first = block * grid_.groups() / blocks_ * TILE_GROUP;
        const int64_t end = std::min((block + 1) * grid_.groups() / blocks_ * TILE_GROUP, grid_.count());
        epilogue_.begin(bound, unit);
        multiply(bound.at<const uint8_t>(tiles_), panel, first, end - first);
        write(bound, unit, panel, first, end - first);
    }

  private:
    static int64_t product_stride(int64_t count) { return count * PANEL + 2 * LANES; }

    void multiply(const uint8_t* tiles, int64_t panel, int64_t first, int64_t count) const {
        const int sets = layer_.panel_sets(0, panel);
        const uint8_t* weights = keep_weights(panel);
        uint8_t* work = room.products_room.reserve(kernels_.room_lines * tile_line(channels_, sets));
        int32_t* products = room.products.reserve(POSITIONS * product_stride(MOST_TILES));
        kernels_.multiply({weights, work, sets, layer_.bits(), channels_, tiles + layout_.place(first), layout_.position,
                           layout_.group, static_cast<int>(count), products, product_stride(count)});
    }

    const uint8_t* keep_weights(int64_t panel) const {
        const int sets = layer_.panel_sets(0, panel);
        uint8_t* out = room.weights.reserve(kernels_.kept_lines * tile_line(channels_, sets));
        if (room.layer == layer_.identity() && room.panel == panel) return out;
        kernels_.keep_weights({layer_.words(0, panel), sets, layer_.bits(), channels_, out});
        room.layer = layer_.identity();
        room.panel = panel;
        return out;
    }

    void write(const Bound& bound, int64_t unit, int64_t panel, int64_t first, int64_t count) const {
        int32_t* totals = room.totals.reserve(TILE * TILE * PANEL);
        for (int64_t i = 0; i < count; ++i) {
            kernels_.transform_output({room.products.data() + i * PANEL, product_stride(count),
                                       layer_.panel_sets(0, panel), totals});
            write_tile(bound, unit, panel, first + i, totals);
        }
    }

    // Without what stands over the edge of the map.
    void write_tile(const Bound& bound, int64_t unit, int64_t panel, int64_t tile, int32_t* totals) const {
        const int64_t row = tile / grid_.columns, y = row % grid_.rows * TILE, x = tile % grid_.columns * TILE;
        const int height = static_cast<int>(std::min<int64_t>(TILE, output_.height - y));
        const int width = static_cast<int>(std::min<int64_t>(TILE, output_.width - x));
        PixelRun runs[TILE];
        for (int i = 0; i < height; ++i) {
            runs[i] = {row / grid_.rows, y + i, x, width};
            if (width < TILE) std::copy_n(totals + i * TILE * PANEL, width * PANEL, totals + i * width * PANEL);
        }
        epilogue_.write(bound, unit, runs, height, panel * PANEL, layer_.panel_outputs(panel), totals);
    }

    const ByteLayer& layer_;
    const WinogradKernels& kernels_;
    int64_t channels_;
    int tiles_;
    Shape output_;
    TileGrid grid_;
    TileLayout layout_;
    ByteEpilogue epilogue_;
    int64_t blocks_;
};

}  // namespace

bool pays_to_tile(const ByteLayer& layer, const Shape& output, int threads) {
    const Geometry& geometry = layer.geometry();
    const auto fits = [](const Axis& axis) { return axis.kernel == 3 && axis.stride == 1 && axis.dilation == 1; };
    if (!layer.kernels().winograd || geometry.groups != 1 || !fits(geometry.vertical) || !fits(geometry.horizontal) ||
        geometry.inputs_in_group % TILE_CHANNELS != 0 || 255 * geometry.inputs() >= MOST_TILE_SUM) {
        return false;
    }
    const WinogradKernels& kernels = *layer.kernels().winograd;
    if (layer.panels() * TileGrid(output).groups() < threads) return false;  // some would have nothing to do
    const double all = static_cast<double>(output.pixels() * 9) / 4;
    const int64_t tiles = divide_up(TileGrid(output).count(), kernels.tiles_at_once) * kernels.tiles_at_once;
    return static_cast<double>(tiles * POSITIONS) / 2 + kernels.work_of_weights < MOST_WORK * all;
}

int64_t beyond_tiles(const Axis& axis, int64_t outputs, int64_t inputs) {
    return std::max<int64_t>(0, divide_up(outputs, TILE) * TILE + 2 - axis.padding - inputs);
}

int64_t tiles_size(const ByteLayer& layer, const Shape& output) {
    return TileGrid(output).groups() * TileLayout(layer.geometry().inputs_in_group).group;
}

Step tile_step(const std::string& name, const ByteLayer& layer, const ByteMap& from, const Shape& output, int tiles) {
    const TileGrid grid(output);
    const WinogradKernels& kernels = *layer.kernels().winograd;
    const Geometry& geometry = layer.geometry();
    const int64_t channels = geometry.inputs_in_group;
    const TileLayout layout(channels);
    auto run = [=, &kernels, &geometry](const Bound& bound, int64_t row) {
        const uint8_t* pixels = bound.at<const uint8_t>(from.buffer) +
                                from.layout.pixel(row / grid.rows, row % grid.rows * TILE - geometry.vertical.padding,
                                                  -geometry.horizontal.padding);
        uint8_t* out = bound.at<uint8_t>(tiles);
        for (int64_t column = 0; column < grid.columns; ++column) {
            kernels.transform_input({pixels + column * TILE * from.layout.record, from.layout.row_bytes,
                                     from.layout.record, channels, out + layout.place(row * grid.columns + column),
                                     layout.position});
        }
    };
    return {name + ": tiles", grid.images * grid.rows, {from.buffer}, tiles, run};
}

Step winograd_step(const std::string& name, const OperationLayer& layer, const ByteMap& from, int tiles, Added added,
                   Target to, const Shape& output, int threads) {
    const auto work = std::make_shared<const WinogradWork>(layer, from, tiles, added, to, output, threads);
    Step step{name, work->units(), {tiles}, work->epilogue().writes(),
              [work](const Bound& bound, int64_t unit) { (*work)(bound, unit); }};
    work->epilogue().add_reads(step.reads);
    step.room = work->room_bytes();
    return step;
}

}  // namespace binaryrelax
