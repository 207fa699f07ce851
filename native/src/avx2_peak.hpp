// The loop of `peak.hpp` for 256-bit registers. The function is local to each file.
#pragma once

#include "peak.hpp"
#include "x86.hpp"

namespace binaryrelax {
namespace {

template <int SUMS, typename Add>
int64_t add_in_registers(int64_t rounds, uint8_t* bytes, Add add) {
    constexpr int BYTES = 32;
    static_assert((SUMS + 2) * BYTES <= PEAK_BYTES, "they must fit");
    const auto* places = reinterpret_cast<const __m256i*>(bytes);
    __m256i x = _mm256_loadu_si256(places);
    const __m256i weights = _mm256_loadu_si256(places + 1);
    __m256i sums[SUMS];
    UNROLL_ALL for (int i = 0; i < SUMS; ++i) sums[i] = _mm256_loadu_si256(places + i + 2);
    for (int64_t round = 0; round < rounds; ++round) {
        UNROLL_ALL for (int i = 0; i < SUMS; ++i) {
            asm volatile("" : "+x"(x));  // as if it were another: the product is made anew
            sums[i] = add(sums[i], x, weights);
        }
    }
    UNROLL_ALL for (int i = 0; i < SUMS; ++i) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes) + i + 2, sums[i]);
    }
    return rounds * SUMS * BYTES;
}

}  // namespace
}  // namespace binaryrelax
