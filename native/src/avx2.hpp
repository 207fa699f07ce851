// What the files for 256-bit registers use: a set of 16 outputs is two registers, called halves. The functions are local to
// each file.
#pragma once

#include "x86.hpp"

namespace binaryrelax {
namespace avx2 {
namespace {

constexpr int HALF = LANES / 2;

inline __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

inline void store(void* to, __m256i value) { _mm256_storeu_si256(static_cast<__m256i*>(to), value); }

inline __m256i broadcast_four(const void* bytes) {
    int32_t four;
    __builtin_memcpy(&four, bytes, sizeof four);
    return _mm256_set1_epi32(four);
}

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

}  // namespace
}  // namespace avx2
}  // namespace binaryrelax
