// Sums of activations with a sign or a zero for each: plain loops that the compiler turns into the instructions of
// whichever file includes them.
#pragma once

#include <cstdint>

namespace binaryrelax {
namespace {

// sums += weight * x for weights -1, 0 and 1, by additions. The zero is x - x: NaN where 0 * x would be.
void add_signed_floats(const float* x, const int8_t* weights, int64_t count, float* sums) {
    for (int64_t i = 0; i < count; ++i) {
        const float plus = x[i], minus = -x[i], zero = x[i] - x[i];
        const float negative_or_zero = weights[i] < 0 ? minus : zero;
        sums[i] += weights[i] > 0 ? plus : negative_or_zero;
    }
}

void add_signed_bytes(const int8_t* x, const int8_t* weights, int64_t count, int32_t* sums) {
    for (int64_t i = 0; i < count; ++i) sums[i] += weights[i] * x[i];
}

}  // namespace
}  // namespace binaryrelax
