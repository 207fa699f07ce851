// AVX2 has no instruction that adds products of bytes to sums: `vpmaddubsw` adds them in pairs, `vpaddw` the pairs.
#include "avx2_peak.hpp"

namespace binaryrelax {
namespace avx2 {

int64_t add_products(int64_t rounds, uint8_t* bytes) {
    return add_in_registers<8>(rounds, bytes, [](__m256i sums, __m256i x, __m256i weights) {
        return _mm256_add_epi16(sums, _mm256_maddubs_epi16(x, weights));
    });
}

}  // namespace avx2
}  // namespace binaryrelax
