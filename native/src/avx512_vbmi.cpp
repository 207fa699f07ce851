// Fast mode with AVX-512 and VBMI: weights are expanded with one instruction that picks bits from anywhere.
#include "x86.hpp"

namespace binaryrelax {
namespace avx512_vbmi {
namespace {

// `vpmultishiftqb` fetches, for each byte, eight bits from any place of its 64: the places of the codes of quad
// 0 in the two words there. For 1 bit one place lower, so that masking with 2 leaves 0 or 2.
template <int BITS>
inline __m512i places_of_codes() {
    alignas(64) uint8_t places[64];
    for (int i = 0; i < 64; ++i) places[i] = static_cast<uint8_t>((i % 8 / 4 * 32 + i % 4 * BITS + BITS - 2) & 63);
    return _mm512_load_si512(places);
}

template <int BITS>
void expand_codes(const uint32_t* words, int sets, int64_t quads, int8_t* panel) {
    constexpr int QUADS_PER_WORD = 8 / BITS;
    const __m512i first_places = places_of_codes<BITS>();
    const __m512i mask = _mm512_set1_epi8(BITS == 1 ? 2 : 3), one = _mm512_set1_epi8(1);
    for (int64_t quad = 0; quad < quads; quad += QUADS_PER_WORD, words += sets * LANES) {
        const int count = static_cast<int>(quads - quad < QUADS_PER_WORD ? quads - quad : QUADS_PER_WORD);
        for (int set = 0; set < sets; ++set) {
            _mm_prefetch(words + WORDS_AHEAD + set * LANES, _MM_HINT_T0);
            const __m512i codes = _mm512_loadu_si512(words + set * LANES);
            __m512i places = first_places;
            for (int i = 0; i < count; ++i) {
                const __m512i bytes = _mm512_and_si512(_mm512_multishift_epi64_epi8(places, codes), mask);
                _mm512_storeu_si512(panel + ((quad + i) * sets + set) * 4 * LANES, _mm512_sub_epi8(bytes, one));
                places = _mm512_add_epi8(places, _mm512_set1_epi8(4 * BITS));
            }
        }
    }
}

}  // namespace

void expand(const uint32_t* words, int sets, int64_t quads, int bits, int8_t* panel) {
    bits == 1 ? expand_codes<1>(words, sets, quads, panel) : expand_codes<2>(words, sets, quads, panel);
}

}  // namespace avx512_vbmi
}  // namespace binaryrelax
