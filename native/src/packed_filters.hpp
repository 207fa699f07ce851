// A bank of packed filters and its convolution with NHWC images.
#pragma once

#include "depthwise.hpp"
#include "layer.hpp"

namespace binaryrelax {

class PackedFilters {
  public:
    // `codes` have rows over (inputs in group, vertical, horizontal); `scale` has one value for each output.
    PackedFilters(const CanonicalCodes& codes, std::vector<float> scale, const Geometry& geometry,
                  const Kernels& kernels);
    PackedFilters(const PackedFilters&) = delete;
    PackedFilters(PackedFilters&&) = default;

    // x: images of `size` with all channels innermost; y likewise; bias may be null.
    void convolve(const float* x, int64_t images, Image size, const float* bias, bool fast, int threads,
                  float* y) const;

    Image output_size(Image input) const;
    const Geometry& geometry() const { return layer_.geometry; }
    int64_t bytes() const { return layer_.bytes() + depthwise_.bytes(); }

  private:
    Layer layer_;
    bool is_depthwise_;
    DepthwiseCodes depthwise_;
};

}  // namespace binaryrelax
