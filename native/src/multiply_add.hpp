// a * b + c with one rounding on every CPU, so that a network gives the same bits on all of them.
#pragma once

#include <cstdint>

namespace binaryrelax {
namespace {

#if defined(__FMA__) || defined(__aarch64__)
inline float multiply_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
// Without an instruction for it: the product is exact in double, and the sum is rounded to odd there, which leaves
// the second rounding nothing to get wrong (Boldo and Melquiond, 2008). A call of the library's would take longer.
inline float multiply_add(float a, float b, float c) {
    const double product = static_cast<double>(a) * b, sum = product + c;
    const double rounded = sum - product;
    const double error = (product - (sum - rounded)) + (c - rounded);
    int64_t bits;
    __builtin_memcpy(&bits, &sum, sizeof bits);
    const bool is_away = (error > 0.0) == (sum > 0.0);  // whether the exact sum lies farther from zero
    if ((error > 0.0 || error < 0.0) && !(bits & 1)) bits += is_away ? 1 : -1;
    double odd;
    __builtin_memcpy(&odd, &bits, sizeof odd);
    return static_cast<float>(odd);
}
#endif

}  // namespace
}  // namespace binaryrelax
