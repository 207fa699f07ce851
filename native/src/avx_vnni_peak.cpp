// AVX-VNNI: `vpdpbusd` adds four products of bytes to each of eight sums.
#include "avx2_peak.hpp"

namespace binaryrelax {
namespace avx_vnni {

int64_t add_products(int64_t rounds, uint8_t* bytes) {
    return add_in_registers<12>(rounds, bytes, [](__m256i sums, __m256i x, __m256i weights) {
        return _mm256_dpbusd_avx_epi32(sums, x, weights);
    });
}

}  // namespace avx_vnni
}  // namespace binaryrelax
