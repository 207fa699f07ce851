// AVX-VNNI: `vpdpbusd` adds four products of bytes to each of eight sums.
#include "peak.hpp"
#include "x86.hpp"

namespace binaryrelax {
namespace avx_vnni {

int64_t add_products(int64_t rounds, uint8_t* bytes) {
    constexpr int SUMS = 12, BYTES = 32;
    static_assert((SUMS + 2) * BYTES <= PEAK_BYTES, "they must fit");
    const auto* places = reinterpret_cast<const __m256i*>(bytes);
    __m256i x = _mm256_loadu_si256(places);
    const __m256i weights = _mm256_loadu_si256(places + 1);
    __m256i sums[SUMS];
    UNROLL_ALL for (int i = 0; i < SUMS; ++i) sums[i] = _mm256_loadu_si256(places + i + 2);
    for (int64_t round = 0; round < rounds; ++round) {
        UNROLL_ALL for (int i = 0; i < SUMS; ++i) {
            asm volatile("" : "+x"(x));  // as if it were another: the product is made anew
            sums[i] = _mm256_dpbusd_avx_epi32(sums[i], x, weights);
        }
    }
    UNROLL_ALL for (int i = 0; i < SUMS; ++i) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes) + i + 2, sums[i]);
    }
    return rounds * SUMS * BYTES;
}

}  // namespace avx_vnni
}  // namespace binaryrelax
