// The activation functions as torch computes them. Comparisons are written so that NaN stays NaN.
#include <cmath>

#include "float_operations.hpp"

namespace binaryrelax {
namespace {

template <typename Function>
void apply(float* x, int64_t count, Function function) {
    for (int64_t i = 0; i < count; ++i) x[i] = function(x[i]);
}

inline float limit(float x, float low, float high) {
    const float raised = x < low ? low : x;
    return raised > high ? high : raised;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

inline float gelu(float x) {
    constexpr float SQRT_HALF = 0.70710678118654752f;
    return 0.5f * x * (1.0f + std::erf(x * SQRT_HALF));
}

inline float gelu_tanh(float x) {
    constexpr float SQRT_TWO_OVER_PI = 0.79788456080286536f;
    return 0.5f * x * (1.0f + std::tanh(SQRT_TWO_OVER_PI * (x + 0.044715f * x * x * x)));
}

}  // namespace

void apply_activation(const Activation& activation, float* x, int64_t count) {
    const float low = activation.low, high = activation.high;
    switch (activation.kind) {
        case ActivationKind::None: return;
        case ActivationKind::Relu: return apply(x, count, [](float v) { return v < 0.0f ? 0.0f : v; });
        case ActivationKind::Relu6: return apply(x, count, [](float v) { return limit(v, 0.0f, 6.0f); });
        case ActivationKind::Silu: return apply(x, count, [](float v) { return v / (1.0f + std::exp(-v)); });
        case ActivationKind::Gelu: return apply(x, count, gelu);
        case ActivationKind::GeluTanh: return apply(x, count, gelu_tanh);
        case ActivationKind::HardSwish:
            return apply(x, count, [](float v) { return v * limit(v + 3.0f, 0.0f, 6.0f) / 6.0f; });
        case ActivationKind::HardSigmoid:
            return apply(x, count, [](float v) { return limit(v + 3.0f, 0.0f, 6.0f) / 6.0f; });
        case ActivationKind::Sigmoid: return apply(x, count, sigmoid);
        case ActivationKind::Tanh: return apply(x, count, [](float v) { return std::tanh(v); });
        case ActivationKind::Clamp: return apply(x, count, [=](float v) { return limit(v, low, high); });
        case ActivationKind::LeakyRelu: return apply(x, count, [=](float v) { return v > 0.0f ? v : v * low; });
    }
}

}  // namespace binaryrelax
