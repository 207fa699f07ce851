// Dense layers in float32: a unit is a panel of outputs for a band of rows. Sums take the inputs in chunks, so that
// a chunk of weights serves many pixels from the L1 cache. Chunks and their order depend on the layer alone: the
// outputs of an image are the same bits whatever else is computed beside it.
#include <atomic>
#include <cstring>

#include "float_product.hpp"

namespace binaryrelax {
namespace {

constexpr int64_t BAND_BYTES = 1 << 18;           // of a padded band, to stay in a core's L2 cache
constexpr int64_t MOST_PIXELS = 80 * FLOAT_PIXELS;  // of a band
constexpr int64_t BLOCK = 10 * FLOAT_PIXELS;      // pixels that take their turn with a chunk of weights
constexpr int64_t CHUNK = 96 * PANEL;             // weights that stay in the L1 cache
constexpr int64_t LEAST_WORK = 1 << 17;           // products that make up for handing out a unit

thread_local AlignedBuffer<float> thread_band;
thread_local AlignedBuffer<float> thread_totals;

// The chunk that a thread expanded last: the next pixels often want the same.
struct Expanded {
    AlignedBuffer<float> weights;
    uint64_t layer = 0;
    const FloatPanels::Panel* panel = nullptr;
    int64_t first_input = 0;
};
thread_local Expanded thread_expanded;
thread_local std::vector<FloatRun> thread_runs;

// What the outputs of a band read: `start` is the first tap of the first.
struct Field {
    const float* start;
    int64_t row_size, pixel_size;
};

class DenseFloats : public FloatProduct, public PanelProduct {
  public:
    DenseFloats(const Operation& operation, const NetworkFile& file, const FloatKernels& kernels,
                const WeightSource& source)
        : kernels_(kernels),
          vertical_(operation, source, 0),
          horizontal_(operation, source, 1),
          groups_(operation.groups),
          inputs_in_group_(source.shape()[1]),
          outputs_(source.outputs()),
          weights_(source, operation.groups),
          epilogue_(operation, file) {
        static std::atomic<uint64_t> made{0};
        identity_ = ++made;
    }

    int64_t units(const Shape& out) const override {
        const Shape shape = in_one_image(out);
        return bands(shape).per_image * shape.images * num_panels();
    }

    int64_t room(const Shape& out) const override {
        if (!has_padding()) return 0;
        const Bands bands = this->bands(out);
        return vertical_.field(bands.rows) * horizontal_.field(out.width) * inputs_in_group_ * int64_t{sizeof(float)};
    }

    void run(const ConstMap& x, const Map& y, const float* added, int64_t unit) const override;

    void set_activation(const Activation& activation) override { epilogue_.set_activation(activation); }

    int64_t bytes() const override { return weights_.bytes(); }

    const PanelProduct* as_panels() const override {
        return vertical_.is_plain() && horizontal_.is_plain() && !has_padding() && groups_ == 1 ? this : nullptr;
    }
    int64_t num_panels() const override { return static_cast<int64_t>(weights_.panels().size()); }
    void run_panel(const float* x, int64_t pixels, int64_t panel, float* y, int64_t y_stride) const override;

  private:
    // A band of an image, and where its outputs start.
    struct Task {
        const FloatPanels::Panel& panel;
        Field field;
        int64_t rows, width;
        float* y;            // of the panel's first output
        int64_t y_stride;
        const float* added;  // or null

        int64_t pixels() const { return rows * width; }
    };

    // Inputs whose weights make a chunk, a multiple of 32.
    static int64_t chunk_inputs(const FloatPanels::Panel& panel) { return CHUNK / (panel.sets * LANES); }

    int64_t channels() const { return inputs_in_group_ * groups_; }

    // Where a pixel's output reads that pixel alone, all images are one.
    Shape in_one_image(const Shape& shape) const {
        if (!vertical_.is_plain() || !horizontal_.is_plain()) return shape;
        return {1, shape.images * shape.height, shape.width, shape.channels, true};
    }

    bool has_padding() const {
        return vertical_.before + vertical_.after + horizontal_.before + horizontal_.after > 0;
    }

    Bands bands(const Shape& out) const;
    Field pad(const ConstMap& x, const Shape& shape, int64_t image, int64_t first_row, int64_t out_rows,
              int64_t out_width, int64_t group) const;
    void find_runs(const Field& field, int64_t chunk) const;
    void multiply_all(const Task& task) const;
    void multiply(const Task& task, int64_t first_pixel, int64_t num_pixels) const;

    const float* weights_of(const Task& task, int64_t first_input, int64_t inputs) const;

    uint64_t identity_;  // no other layer of this process has it
    const FloatKernels& kernels_;
    const Reach vertical_, horizontal_;
    const int64_t groups_, inputs_in_group_, outputs_;
    const FloatPanels weights_;
    FloatEpilogue epilogue_;
};

Bands DenseFloats::bands(const Shape& out) const {
    const int64_t width = std::max<int64_t>(1, out.width);
    const int64_t wanted = divide_up(FLOAT_UNITS, std::max<int64_t>(1, out.images * num_panels()));
    const int64_t row_work = width * weights_.inputs() * weights_.panels()[0].sets * LANES;
    const int64_t least = std::max(divide_up(FLOAT_PIXELS, width), divide_up(LEAST_WORK, row_work));
    const int64_t shared = std::max(divide_up(out.height, wanted), least);
    int64_t most = MOST_PIXELS / width;
    if (has_padding()) {
        const int64_t row_bytes = horizontal_.field(width) * inputs_in_group_ * int64_t{sizeof(float)};
        most = std::min(most, (BAND_BYTES / row_bytes - vertical_.field(1)) / vertical_.stride + 1);
    }
    return {out.height, std::min(shared, most)};
}

void DenseFloats::run(const ConstMap& x, const Map& y, const float* added, int64_t unit) const {
    const Shape in = in_one_image(x.shape), out = in_one_image(y.shape);
    const Bands bands = this->bands(out);
    const int64_t all = bands.per_image * out.images, band = unit % all;
    const FloatPanels::Panel& panel = weights_.panels()[static_cast<size_t>(unit / all)];
    const int64_t image = bands.image(band), row = bands.first_row(band), rows = bands.num_rows(band);
    Field field{x.data + ((image * in.height + row * vertical_.stride) * in.width) * in.channels +
                    panel.group * inputs_in_group_,
                in.width * in.channels, in.channels};
    if (has_padding()) field = pad(x, in, image, row, rows, out.width, panel.group);
    find_runs(field, chunk_inputs(panel));
    const int64_t start = (image * out.height + row) * out.width * outputs_ + panel.first_output;
    multiply_all({panel, field, rows, out.width, y.data + start, outputs_, added ? added + start : nullptr});
}

void DenseFloats::run_panel(const float* x, int64_t pixels, int64_t panel, float* y, int64_t y_stride) const {
    const Field field{x, pixels * inputs_in_group_, inputs_in_group_};
    find_runs(field, chunk_inputs(weights_.panels()[static_cast<size_t>(panel)]));
    multiply_all({weights_.panels()[static_cast<size_t>(panel)], field, 1, pixels, y, y_stride, nullptr});
}

void DenseFloats::multiply_all(const Task& task) const {
    // With one chunk the sums are outputs at once, and stay where they are.
    const int64_t block = weights_.inputs() <= chunk_inputs(task.panel) ? FLOAT_PIXELS : BLOCK;
    for (int64_t pixel = 0; pixel < task.pixels(); pixel += block) {
        multiply(task, pixel, std::min(block, task.pixels() - pixel));
    }
}

// A copy of the channels of a group, with zeros around the image.
Field DenseFloats::pad(const ConstMap& x, const Shape& shape, int64_t image, int64_t first_row, int64_t out_rows,
                       int64_t out_width, int64_t group) const {
    const int64_t channels = inputs_in_group_, width = horizontal_.field(out_width), row_size = width * channels;
    const int64_t rows = vertical_.field(out_rows);
    const int64_t left = std::min(horizontal_.before, width), columns = std::min(shape.width, width - left);
    float* out = thread_band.reserve(rows * row_size);
    for (int64_t i = 0; i < rows; ++i, out += row_size) {
        const int64_t row = vertical_.first_input(first_row) + i;
        if (row < 0 || row >= shape.height) {
            std::fill_n(out, row_size, 0.0f);
            continue;
        }
        const float* source = x.data + (image * shape.height + row) * shape.width * shape.channels + group * channels;
        std::fill_n(out, left * channels, 0.0f);
        float* inside = out + left * channels;
        if (groups_ == 1) {
            std::copy_n(source, columns * channels, inside);
        } else {
            for (int64_t j = 0; j < columns; ++j) {
                std::copy_n(source + j * shape.channels, channels, inside + j * channels);
            }
        }
        std::fill(inside + columns * channels, out + row_size, 0.0f);
    }
    return {thread_band.data(), row_size, channels};
}

// The inputs of an output as runs, cut where chunks end.
void DenseFloats::find_runs(const Field& field, int64_t chunk) const {
    std::vector<FloatRun>& runs = thread_runs;
    runs.clear();
    int64_t place = 0;
    for (int64_t tap = 0; tap < vertical_.kernel * horizontal_.kernel; ++tap) {
        int64_t offset = tap / horizontal_.kernel * vertical_.dilation * field.row_size +
                         tap % horizontal_.kernel * horizontal_.dilation * field.pixel_size;
        for (int64_t left = inputs_in_group_; left > 0;) {
            const int64_t length = std::min(left, chunk - place % chunk);
            const bool goes_on = place % chunk > 0 && runs.back().offset + runs.back().length == offset;
            if (goes_on) {
                runs.back().length += length;
            } else {
                runs.push_back({offset, length});
            }
            place += length;
            offset += length;
            left -= length;
        }
    }
}

void DenseFloats::multiply(const Task& task, int64_t first_pixel, int64_t num_pixels) const {
    float* totals = thread_totals.reserve(BLOCK * PANEL);
    const FloatRun* run = thread_runs.data();
    const float* pixels[BLOCK];
    int64_t row = first_pixel / task.width, column = first_pixel % task.width;
    for (int64_t i = 0; i < num_pixels; ++i) {
        pixels[i] = task.field.start + row * vertical_.stride * task.field.row_size +
                    column * horizontal_.stride * task.field.pixel_size;
        if (++column < task.width) continue;
        column = 0;
        ++row;
    }
    const int64_t chunk_size = chunk_inputs(task.panel);
    for (int64_t input = 0; input < weights_.inputs(); input += chunk_size) {
        const int64_t count = std::min(chunk_size, weights_.inputs() - input);
        const float* chunk = weights_of(task, input, count);
        int64_t num_runs = 0;
        for (int64_t covered = 0; covered < count; ++num_runs) covered += run[num_runs].length;
        const bool is_last = input + count == weights_.inputs();
        for (int64_t i = 0; i < num_pixels; i += FLOAT_PIXELS) {
            const int64_t pixels_left = std::min<int64_t>(FLOAT_PIXELS, num_pixels - i);
            const int64_t place = (first_pixel + i) * task.y_stride;
            const FloatFinish finish =
                epilogue_.job(totals + i * PANEL, PANEL, pixels_left, task.panel.first_output, task.panel.outputs,
                              task.y + place, task.y_stride, task.added ? task.added + place : nullptr);
            kernels_.dot_floats({chunk, task.panel.sets, run, num_runs, pixels + i, static_cast<int>(pixels_left),
                                 totals + i * PANEL, PANEL, input == 0, is_last ? &finish : nullptr});
            if (is_last) epilogue_.activate(finish);
        }
        run += num_runs;
    }
}

const float* DenseFloats::weights_of(const Task& task, int64_t first_input, int64_t inputs) const {
    Expanded& room = thread_expanded;
    const bool is_there = room.layer == identity_ && room.panel == &task.panel && room.first_input == first_input;
    if (is_there) return room.weights.data();
    float* out = room.weights.reserve(CHUNK);
    const float* weights = weights_.chunk(kernels_, task.panel, first_input, inputs, out);
    room.layer = weights == out ? identity_ : 0;
    room.panel = &task.panel;
    room.first_input = first_input;
    return weights;
}

}  // namespace

std::unique_ptr<FloatProduct> make_dense_floats(const Operation& operation, const NetworkFile& file,
                                                const FloatKernels& kernels) {
    return std::make_unique<DenseFloats>(operation, file, kernels, WeightSource(operation, file));
}

}  // namespace binaryrelax
