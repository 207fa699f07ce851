// The two kinds of layers in float32: dense ones, and those in which every output reads one channel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "float_operations.hpp"
#include "float_weights.hpp"

namespace binaryrelax {

// Gives the outputs of a panel for pixels that lie side by side.
class PanelProduct {
  public:
    virtual ~PanelProduct() = default;
    virtual int64_t num_panels() const = 0;
    virtual void run_panel(const float* x, int64_t pixels, int64_t panel, float* y, int64_t y_stride) const = 0;
};

// Some rows of the channels of a panel: `first` and `count` of them.
struct PanelRows {
    const float* data;
    int64_t first_row, num_rows, width, stride;
    int64_t first_channel, num_channels;
};

// Gives rows of outputs of which each reads one channel of a panel.
class PanelFilter {
  public:
    virtual ~PanelFilter() = default;
    // Rows of its input, which may lie outside the image: the first that an output row reads, and the one behind what
    // the output row before this one reads.
    virtual int64_t first_input(int64_t row) const = 0;
    virtual int64_t end_input(int64_t row) const = 0;
    virtual int64_t channels() const = 0;
    // `y` is where row `first_row` of an image begins.
    virtual void run_panel(const PanelRows& x, float* y, int64_t first_row, int64_t num_rows, int64_t width) const = 0;
};

class FloatProduct {
  public:
    virtual ~FloatProduct() = default;
    virtual int64_t units(const Shape& out) const = 0;
    virtual int64_t room(const Shape& out) const = 0;
    // `added` is a map like y, or null.
    virtual void run(const ConstMap& x, const Map& y, const float* added, int64_t unit) const = 0;
    virtual void set_activation(const Activation& activation) = 0;
    virtual int64_t bytes() const = 0;
    // A layer of one tap without padding or groups, or null; and a layer that filters such a layer's panels, or null.
    virtual const PanelProduct* as_panels() const { return nullptr; }
    virtual const PanelFilter* as_filter() const { return nullptr; }
};

std::unique_ptr<FloatProduct> make_dense_floats(const Operation& operation, const NetworkFile& file,
                                                const FloatKernels& kernels);
std::unique_ptr<FloatProduct> make_depthwise_floats(const Operation& operation, const NetworkFile& file,
                                                    const FloatKernels& kernels);

constexpr int64_t FLOAT_UNITS = 32;  // wanted of a layer, so that 16 threads have work

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// What the taps of a kernel read along one axis: from output * stride - before, `dilation` apart.
struct Reach {
    int64_t kernel, stride, dilation, before, after;

    Reach(const Operation& operation, const WeightSource& source, int axis)
        : kernel(source.shape().size() == 4 ? source.shape()[static_cast<size_t>(2 + axis)] : 1),
          stride(operation.stride[axis]),
          dilation(operation.dilation[axis]),
          before(operation.padding[2 * axis]),
          after(operation.padding[2 * axis + 1]) {}

    int64_t first_input(int64_t output) const { return output * stride - before; }
    // Inputs that so many outputs read, padding included.
    int64_t field(int64_t outputs) const { return (outputs - 1) * stride + dilation * (kernel - 1) + 1; }
    bool is_plain() const { return kernel == 1 && stride == 1 && before == 0 && after == 0; }
};

// Outputs come in bands of rows, each of one image.
struct Bands {
    int64_t height, rows, per_image;

    Bands(int64_t height, int64_t rows)
        : height(height), rows(std::max<int64_t>(1, std::min(rows, height))), per_image(divide_up(height, this->rows)) {}
    int64_t first_row(int64_t band) const { return band % per_image * rows; }
    int64_t num_rows(int64_t band) const { return std::min(rows, height - first_row(band)); }
    int64_t image(int64_t band) const { return band / per_image; }
};

// How sums become outputs.
class FloatEpilogue {
  public:
    FloatEpilogue(const Operation& operation, const NetworkFile& file);
    FloatEpilogue(const Activation& activation, const float* factor, const float* bias);
    // The activation that is meant from now on; it must outlive the epilogue.
    void set_activation(const Activation& activation);
    // What makes `count` outputs of each pixel, from `first_output` on; y is where that of the first pixel lies, and so
    // is `added`, which may be null. All but the activations that `activate` does.
    FloatFinish job(const float* totals, int64_t totals_stride, int64_t num_pixels, int64_t first_output,
                    int64_t count, float* y, int64_t y_stride, const float* added) const;
    void activate(const FloatFinish& job) const;

  private:
    const Activation* activation_ = nullptr;
    const float *factor_, *bias_;
    float low_ = 0.0f, high_ = 0.0f;
    bool is_limit_ = true;  // whether the activation is no more than limits
};

}  // namespace binaryrelax
