// SHA-256 with the SHA instructions of x86. The state lies in two registers as the instructions want it: ABEF, CDGH.
#include <immintrin.h>

#include "sha256_blocks.hpp"

namespace binaryrelax {
namespace {

__m128i load(const void* place) { return _mm_loadu_si128(static_cast<const __m128i*>(place)); }
void store(void* place, __m128i value) { _mm_storeu_si128(static_cast<__m128i*>(place), value); }

// Four rounds, with four words of the message.
void four_rounds(__m128i& abef, __m128i& cdgh, __m128i words, int round) {
    const __m128i added = _mm_add_epi32(words, load(SHA256_CONSTANTS + round));
    cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
    abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(added, 0x0e));
}

// The four words that follow sixteen.
__m128i next_words(__m128i w0, __m128i w1, __m128i w2, __m128i w3) {
    const __m128i sum = _mm_add_epi32(_mm_sha256msg1_epu32(w0, w1), _mm_alignr_epi8(w3, w2, 4));
    return _mm_sha256msg2_epu32(sum, w3);
}

}  // namespace

void compress_with_sha_ni(uint32_t* state, const uint8_t* blocks, size_t count) {
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bll, 0x0405060700010203ll);
    const __m128i cdab = _mm_shuffle_epi32(load(state), 0xb1), efgh = _mm_shuffle_epi32(load(state + 4), 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
    for (const uint8_t* block = blocks; block != blocks + 64 * count; block += 64) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i words[4];
        for (int i = 0; i < 4; ++i) words[i] = _mm_shuffle_epi8(load(block + 16 * i), big_endian);
        for (int round = 0; round < 48; round += 16) {
            for (int i = 0; i < 4; ++i) {
                four_rounds(abef, cdgh, words[i], round + 4 * i);
                words[i] = next_words(words[i], words[(i + 1) % 4], words[(i + 2) % 4], words[(i + 3) % 4]);
            }
        }
        for (int i = 0; i < 4; ++i) four_rounds(abef, cdgh, words[i], 48 + 4 * i);
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    store(state, _mm_blend_epi16(feba, dchg, 0xf0));
    store(state + 4, _mm_alignr_epi8(dchg, feba, 8));
}

}  // namespace binaryrelax
