// Layers in float32 in which every output reads one channel: a unit is a band of rows, and the loops run over channels
// side by side. Taps outside the image are left out instead of multiplied by zero.
#include "float_product.hpp"

namespace binaryrelax {
namespace {

thread_local AlignedBuffer<float> thread_sums;
thread_local std::vector<int64_t> thread_offsets;
thread_local std::vector<const float*> thread_weights;

// Taps begin to end of a kernel that lie inside the image.
struct Taps {
    int64_t begin, end;

    Taps(const Reach& reach, int64_t output, int64_t inputs) {
        const int64_t first = reach.first_input(output);
        begin = first < 0 ? std::min(reach.kernel, divide_up(-first, reach.dilation)) : 0;
        end = first >= inputs ? 0 : std::min(reach.kernel, divide_up(inputs - first, reach.dilation));
        end = std::max(begin, end);
    }
    bool operator==(const Taps& other) const { return begin == other.begin && end == other.end; }
};

class DepthwiseFloats : public FloatProduct, public PanelFilter {
  public:
    DepthwiseFloats(const Operation& operation, const NetworkFile& file, const FloatKernels& kernels,
                    const WeightSource& source)
        : kernels_(kernels),
          vertical_(operation, source, 0),
          horizontal_(operation, source, 1),
          channels_(operation.groups),
          per_channel_(source.outputs() / operation.groups),
          epilogue_(operation, file) {
        for (int64_t i = 0; i < per_channel_; ++i) {
            for (int64_t tap = 0; tap < source.taps(); ++tap) {
                for (int64_t channel = 0; channel < channels_; ++channel) {
                    weights_.push_back(source.weight(channel * per_channel_ + i, tap));
                }
            }
        }
    }

    int64_t units(const Shape& out) const override { return bands(out).per_image * out.images * num_slices(); }

    int64_t room(const Shape& out) const override { return out.width * channels_ * int64_t{sizeof(float)}; }

    void run(const ConstMap& x, const Map& y, const float* added, int64_t unit) const override {
        const Bands bands = this->bands(y.shape);
        if (is_filter()) return filter(x, y, added, bands, unit);
        const int64_t before = bands.image(unit) * y.shape.height, first = bands.first_row(unit);
        for (int64_t row = first; row < first + bands.num_rows(unit); ++row) {
            run_row(x, y, bands.image(unit), row);
            float* out = y.row(before + row);
            const FloatFinish finish = epilogue_.job(out, y.shape.channels, y.shape.width, 0, y.shape.channels, out, y.shape.channels,
                                                     added ? added + (out - y.data) : nullptr);
            kernels_.finish_floats(finish);
            epilogue_.activate(finish);
        }
    }

    void set_activation(const Activation& activation) override { epilogue_.set_activation(activation); }

    int64_t bytes() const override { return static_cast<int64_t>(weights_.size() * sizeof(float)); }

    const PanelFilter* as_filter() const override { return is_filter() ? this : nullptr; }
    int64_t first_input(int64_t row) const override { return vertical_.first_input(row); }
    int64_t end_input(int64_t row) const override { return vertical_.first_input(row - 1) + vertical_.kernel; }
    int64_t channels() const override { return channels_; }
    void run_panel(const PanelRows& x, float* y, int64_t first_row, int64_t num_rows, int64_t width) const override {
        filter_rows(x, y + x.first_channel, first_row, num_rows, width, nullptr);
    }

  private:
    Bands bands(const Shape& out) const {
        const int64_t others = std::max<int64_t>(1, out.images * num_slices());
        return {out.height, divide_up(out.height, divide_up(FLOAT_UNITS, others))};
    }

    bool is_filter() const {
        const auto fits = [](const Reach& reach) { return reach.kernel == 3 && reach.dilation == 1 && reach.stride <= 2; };
        return fits(vertical_) && fits(horizontal_) && vertical_.stride == horizontal_.stride && horizontal_.before == 1 &&
               horizontal_.after <= 1 && per_channel_ == 1 &&
               channels_ % LANES == 0 && kernels_.filter_channels;
    }

    // Of channels. Few at a time take an input once from the L2 cache for all rows that read it.
    int64_t num_slices() const { return is_filter() ? std::min(FLOAT_UNITS, channels_ / LANES) : 1; }

    // A band of rows and a slice of channels at once, to the same bits.
    void filter(const ConstMap& x, const Map& y, const float* added, const Bands& bands, int64_t unit) const {
        const int64_t band = unit / num_slices(), slice = unit % num_slices(), sets = channels_ / LANES;
        const int64_t first = slice * sets / num_slices() * LANES, end = (slice + 1) * sets / num_slices() * LANES;
        const PanelRows rows{x.row(bands.image(band) * x.shape.height) + first, 0, x.shape.height, x.shape.width, channels_,
                             first, end - first};
        float* out = y.row(bands.image(band) * y.shape.height + bands.first_row(band)) + first;
        filter_rows(rows, out, bands.first_row(band), bands.num_rows(band), y.shape.width,
                    added ? added + (out - y.data) : nullptr);
    }

    void filter_rows(const PanelRows& x, float* y, int64_t first_row, int64_t num_rows, int64_t width,
                     const float* added) const {
        const FloatFinish finish = epilogue_.job(y, channels_, num_rows * width, x.first_channel, x.num_channels, y,
                                                 channels_, added);
        kernels_.filter_channels({x.data, x.num_rows, x.width, x.stride, vertical_.stride,
                                  vertical_.before + x.first_row, weights_.data() + x.first_channel, channels_, first_row,
                                  num_rows, width, finish});
        epilogue_.activate(finish);
    }

    // Columns that see the same taps of the kernel go together.
    void run_row(const ConstMap& x, const Map& y, int64_t image, int64_t row) const {
        const Taps rows(vertical_, row, x.shape.height);
        for (int64_t column = 0; column < y.shape.width;) {
            const Taps columns(horizontal_, column, x.shape.width);
            int64_t end = column + 1;
            while (end < y.shape.width && columns == Taps(horizontal_, end, x.shape.width)) ++end;
            const int64_t first_row = vertical_.first_input(row), first_column = horizontal_.first_input(column);
            find_offsets(rows, columns, (first_row * x.shape.width + first_column) * channels_, x.shape.width);
            float* out = y.row(image * y.shape.height + row) + column * y.shape.channels;
            for (int64_t i = 0; i < per_channel_; ++i) {
                run_columns(x.row(image * x.shape.height), rows, columns, end - column, i, out);
            }
            column = end;
        }
    }

    // From the image's start to what the taps of the first column read.
    void find_offsets(const Taps& rows, const Taps& columns, int64_t first, int64_t width) const {
        thread_offsets.clear();
        for (int64_t i = rows.begin; i < rows.end; ++i) {
            for (int64_t j = columns.begin; j < columns.end; ++j) {
                thread_offsets.push_back(first + (i * vertical_.dilation * width + j * horizontal_.dilation) * channels_);
            }
        }
    }

    // The i-th output of each channel.
    void run_columns(const float* image, const Taps& rows, const Taps& columns, int64_t count, int64_t i,
                     float* out) const {
        const int64_t taps = vertical_.kernel * horizontal_.kernel;
        thread_weights.clear();
        for (int64_t row = rows.begin; row < rows.end; ++row) {
            for (int64_t column = columns.begin; column < columns.end; ++column) {
                const int64_t tap = row * horizontal_.kernel + column;
                thread_weights.push_back(weights_.data() + (i * taps + tap) * channels_);
            }
        }
        float* sums = per_channel_ == 1 ? out : thread_sums.reserve(count * channels_);
        kernels_.dot_channels({image, horizontal_.stride * channels_, thread_offsets.data(), thread_weights.data(),
                               static_cast<int64_t>(thread_offsets.size()), channels_, count, sums, channels_});
        if (per_channel_ == 1) return;
        for (int64_t j = 0; j < count * channels_; ++j) out[j * per_channel_ + i] = sums[j];
    }

    const FloatKernels& kernels_;
    const Reach vertical_, horizontal_;
    const int64_t channels_, per_channel_;
    std::vector<float> weights_;  // [output of a channel][tap][channel]
    FloatEpilogue epilogue_;
};

}  // namespace

std::unique_ptr<FloatProduct> make_depthwise_floats(const Operation& operation, const NetworkFile& file,
                                                    const FloatKernels& kernels) {
    return std::make_unique<DepthwiseFloats>(operation, file, kernels, WeightSource(operation, file));
}

}  // namespace binaryrelax
