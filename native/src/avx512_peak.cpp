// AVX-512: `vpdpbusd` adds 64 products at once.
#include "peak.hpp"
#include "x86.hpp"

namespace binaryrelax {
namespace avx512 {

int64_t add_products(int64_t rounds, uint8_t* bytes) {
    constexpr int SUMS = 16, BYTES = 64;
    static_assert((SUMS + 2) * BYTES <= PEAK_BYTES, "they must fit");
    const __m512i x = _mm512_loadu_si512(bytes), weights = _mm512_loadu_si512(bytes + BYTES);
    __m512i sums[SUMS];  // read, so that no two are known to be equal
    UNROLL_ALL for (int i = 0; i < SUMS; ++i) sums[i] = _mm512_loadu_si512(bytes + (i + 2) * BYTES);
    for (int64_t round = 0; round < rounds; ++round) {
        UNROLL_ALL for (int i = 0; i < SUMS; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], x, weights);
    }
    UNROLL_ALL for (int i = 0; i < SUMS; ++i) _mm512_storeu_si512(bytes + (i + 2) * BYTES, sums[i]);
    return rounds * SUMS * BYTES;
}

}  // namespace avx512
}  // namespace binaryrelax
