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

// The first `count` quads of the words of a set.
template <int BITS, int QUADS_PER_WORD = 8 / BITS>
inline void expand_word(__m512i codes, const __m512i (&places)[QUADS_PER_WORD], int count, int64_t line, int8_t* out) {
    const __m512i mask = _mm512_set1_epi8(BITS == 1 ? 2 : 3), one = _mm512_set1_epi8(1);
    UNROLL for (int i = 0; i < QUADS_PER_WORD; ++i) {
        if (i == count) return;
        const __m512i bytes = _mm512_and_si512(_mm512_multishift_epi64_epi8(places[i], codes), mask);
        _mm512_storeu_si512(out + i * line, _mm512_sub_epi8(bytes, one));
    }
}

template <int BITS>
void expand_codes(const uint32_t* words, int sets, int64_t quads, int8_t* panel) {
    constexpr int QUADS_PER_WORD = 8 / BITS;
    const int64_t line = sets * LANES * 4;
    __m512i places[QUADS_PER_WORD] = {places_of_codes<BITS>()};
    for (int i = 1; i < QUADS_PER_WORD; ++i) {
        places[i] = _mm512_add_epi8(places[i - 1], _mm512_set1_epi8(4 * BITS));
    }
    for (; quads >= QUADS_PER_WORD; quads -= QUADS_PER_WORD, words += sets * LANES, panel += QUADS_PER_WORD * line) {
        for (int set = 0; set < sets; ++set) {
            _mm_prefetch(words + WORDS_AHEAD + set * LANES, _MM_HINT_T0);
            expand_word<BITS>(_mm512_loadu_si512(words + set * LANES), places, QUADS_PER_WORD, line,
                              panel + set * LANES * 4);
        }
    }
    for (int set = 0; quads > 0 && set < sets; ++set) {
        expand_word<BITS>(_mm512_loadu_si512(words + set * LANES), places, static_cast<int>(quads), line,
                          panel + set * LANES * 4);
    }
}

}  // namespace

void expand(const uint32_t* words, int sets, int64_t quads, int bits, int8_t* panel) {
    bits == 1 ? expand_codes<1>(words, sets, quads, panel) : expand_codes<2>(words, sets, quads, panel);
}

}  // namespace avx512_vbmi
}  // namespace binaryrelax
