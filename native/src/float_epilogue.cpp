#include <limits>

#include "float_product.hpp"

namespace binaryrelax {
namespace {

const float* values_of(const std::optional<std::string>& name, const NetworkFile& file) {
    return name ? file.floats.at(*name).values.data() : nullptr;
}

}  // namespace

FloatEpilogue::FloatEpilogue(const Operation& operation, const NetworkFile& file)
    : FloatEpilogue(operation.activation, values_of(operation.factor, file), values_of(operation.bias, file)) {}

FloatEpilogue::FloatEpilogue(const Activation& activation, const float* factor, const float* bias)
    : factor_(factor), bias_(bias) {
    set_activation(activation);
}

void FloatEpilogue::set_activation(const Activation& activation) {
    activation_ = &activation;
    low_ = -std::numeric_limits<float>::infinity();
    high_ = std::numeric_limits<float>::infinity();
    is_limit_ = true;
    switch (activation.kind) {
        case ActivationKind::None: break;
        case ActivationKind::Relu: low_ = 0.0f; break;
        case ActivationKind::Relu6: low_ = 0.0f; high_ = 6.0f; break;
        case ActivationKind::Clamp: low_ = activation.low; high_ = activation.high; break;
        default: is_limit_ = false;
    }
}

FloatFinish FloatEpilogue::job(const float* totals, int64_t totals_stride, int64_t num_pixels, int64_t first_output,
                               int64_t count, float* y, int64_t y_stride, const float* added) const {
    return {totals, totals_stride, num_pixels, count, factor_ ? factor_ + first_output : nullptr,
            bias_ ? bias_ + first_output : nullptr, low_, high_, y, y_stride, added};
}

void FloatEpilogue::activate(const FloatFinish& job) const {
    if (is_limit_) return;
    for (int64_t pixel = 0; pixel < job.num_pixels; ++pixel) {
        apply_activation(*activation_, job.y + pixel * job.y_stride, job.outputs);
    }
}

}  // namespace binaryrelax
