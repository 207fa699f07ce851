// Activations as bytes: x is about scale * byte, with one scale for a row or an image.
#pragma once

#include <cstdint>

#include "kernels.hpp"

namespace binaryrelax {

class ByteScale {
  public:
    // From the bits of the largest magnitude, as `Kernels::largest_magnitude` gives them.
    explicit ByteScale(uint32_t magnitude_bits);

    // NaN where the activations are not all finite: it makes every output NaN.
    float scale() const { return scale_; }
    // out = round(x / scale) ^ flip.
    void to_bytes(const Kernels& kernels, const float* x, int64_t count, uint8_t flip, uint8_t* out) const;

  private:
    float magnitude_;
    float scale_;
};

}  // namespace binaryrelax
