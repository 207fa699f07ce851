// A matrix of packed weights and its products with rows of activations.
#pragma once

#include "layer.hpp"

namespace binaryrelax {

class PackedMatrix {
  public:
    // `scale` has one value for each output.
    PackedMatrix(const CanonicalCodes& codes, std::vector<float> scale, const Kernels& kernels);
    PackedMatrix(const PackedMatrix&) = delete;
    PackedMatrix(PackedMatrix&&) = default;

    // y[row][output] = scale[output] * sum of weight * x[row][input] + bias[output]; bias may be null.
    void multiply(const float* x, int64_t rows, const float* bias, bool fast, int threads, float* y) const;

    int64_t inputs() const { return layer_.geometry.inputs_in_group; }
    int64_t outputs() const { return layer_.geometry.outputs; }
    int64_t bytes() const { return layer_.bytes(); }

  private:
    void multiply_row_fast(const float* x, const float* bias, int threads, float* y) const;

    Layer layer_;
};

}  // namespace binaryrelax
