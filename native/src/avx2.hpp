// What both AVX2 files use: a set of 16 outputs is two registers, called halves. The functions are local to
// each file.
#pragma once

#include "x86.hpp"

namespace binaryrelax {
namespace avx2 {
namespace {

constexpr int HALF = LANES / 2;

inline __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

}  // namespace
}  // namespace avx2
}  // namespace binaryrelax
