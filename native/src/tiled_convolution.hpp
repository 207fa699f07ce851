// Mode exact: a convolution of 3 x 3 and stride 1 by Winograd's products in float32 (`float_tiles.hpp`), for one size
// of image.
#pragma once

#include <vector>

#include "float_product.hpp"
#include "layer.hpp"

namespace binaryrelax {

class TiledConvolution {
  public:
    // The layer, the activation and the bias must outlive it.
    TiledConvolution(const Layer& layer, const Activation& activation, const float* bias, const Shape& in,
                     const Shape& out, int threads);

    static bool can(const Geometry& geometry);
    // Whether it is quicker than tables of sums, measured. Neither the batch nor the processor decides.
    static bool pays(const Layer& layer, const Shape& out);

    int64_t units() const { return blocks_ * parts_; }
    int64_t room() const;  // bytes of a thread's own memory
    // `added` is a map like y, or null.
    void run(const ConstMap& x, const Map& y, const float* added, int64_t unit) const;

  private:
    // Some rows of tiles, and sets of outputs of one panel.
    struct Task {
        int64_t first_row, rows;  // of tiles, over all images
        int64_t panel;
        int first_set, sets;

        int64_t first_output() const { return panel * PANEL + first_set * LANES; }
        int lanes() const { return sets * LANES; }
    };

    Task task(int64_t block, int64_t slice) const;
    int64_t rows_of_all() const { return out_.images * rows_; }
    int64_t field_stride(int64_t tiles) const { return tiles * channels_ + LANES; }
    void transform_fields(const ConstMap& x, int64_t first_row, int64_t rows) const;
    void multiply(const Task& task) const;
    void write(const Map& y, const float* added, const Task& task) const;

    const Layer& layer_;
    const FloatKernels& kernels_;
    const Shape out_;
    const int64_t channels_;
    const int64_t rows_, columns_;  // tiles of an image
    std::vector<float> factor_;
    FloatEpilogue epilogue_;
    int64_t blocks_, block_rows_;
    int64_t slices_, parts_;  // of a block; each part transforms the inputs
    int slice_sets_;
};

}  // namespace binaryrelax
