#include "activations.hpp"

#include <cmath>
#include <cstring>
#include <limits>

namespace binaryrelax {
namespace {

constexpr float LARGEST_BYTE = 127.0f;
// Below this the inverse of the magnitude overflows in fp32.
constexpr float TINY = 1e-36f;

}  // namespace

ByteScale::ByteScale(uint32_t magnitude_bits) {
    std::memcpy(&magnitude_, &magnitude_bits, sizeof magnitude_);
    scale_ = std::isfinite(magnitude_) ? magnitude_ / LARGEST_BYTE : std::numeric_limits<float>::quiet_NaN();
}

void ByteScale::to_bytes(const Kernels& kernels, const float* x, int64_t count, uint8_t flip,
                         uint8_t* out) const {
    if (magnitude_ == 0.0f || std::isnan(scale_)) {
        std::memset(out, flip, static_cast<size_t>(count));
    } else if (magnitude_ > TINY) {
        kernels.to_bytes(x, count, LARGEST_BYTE / magnitude_, flip, out);
    } else {
        for (int64_t i = 0; i < count; ++i) {
            const double value = std::nearbyint(double{LARGEST_BYTE} * x[i] / magnitude_);
            out[i] = static_cast<uint8_t>(static_cast<int8_t>(value)) ^ flip;
        }
    }
}

}  // namespace binaryrelax
