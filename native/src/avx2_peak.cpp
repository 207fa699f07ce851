// AVX2 has no instruction that adds products of bytes to sums: `vpmaddubsw` adds them in pairs, `vpaddw` the pairs.
#include "peak.hpp"
#include "x86.hpp"

namespace binaryrelax {
namespace avx2 {

int64_t add_products(int64_t rounds, uint8_t* bytes) {
    constexpr int SUMS = 8, BYTES = 32;
    static_assert((SUMS + 2) * BYTES <= PEAK_BYTES, "they must fit");
    const auto* places = reinterpret_cast<const __m256i*>(bytes);
    __m256i x = _mm256_loadu_si256(places);
    const __m256i weights = _mm256_loadu_si256(places + 1);
    __m256i sums[SUMS];
    UNROLL_ALL for (int i = 0; i < SUMS; ++i) sums[i] = _mm256_loadu_si256(places + i + 2);
    for (int64_t round = 0; round < rounds; ++round) {
        UNROLL_ALL for (int i = 0; i < SUMS; ++i) {
            asm volatile("" : "+x"(x));  // as if it were another: the product is made anew
            sums[i] = _mm256_add_epi16(sums[i], _mm256_maddubs_epi16(x, weights));
        }
    }
    UNROLL_ALL for (int i = 0; i < SUMS; ++i) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(bytes) + i + 2, sums[i]);
    }
    return rounds * SUMS * BYTES;
}

}  // namespace avx2
}  // namespace binaryrelax
