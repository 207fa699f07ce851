// Fast mode with AVX-512 and VBMI: weights are expanded with one instruction that picks bits from anywhere.
#include "registers.hpp"
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
inline __m512i quad_of(__m512i codes, __m512i places) {
    const __m512i mask = _mm512_set1_epi8(BITS == 1 ? 2 : 3), one = _mm512_set1_epi8(1);
    return _mm512_sub_epi8(_mm512_and_si512(_mm512_multishift_epi64_epi8(places, codes), mask), one);
}

template <int BITS>
struct Places {
    static constexpr int QUADS = 8 / BITS;  // of a word
    __m512i of[QUADS];

    Places() {
        of[0] = places_of_codes<BITS>();
        for (int i = 1; i < QUADS; ++i) of[i] = _mm512_add_epi8(of[i - 1], _mm512_set1_epi8(4 * BITS));
    }
};

// The first `count` quads of the words of a set.
template <int BITS>
inline void expand_word(__m512i codes, const Places<BITS>& places, int count, int64_t line, int8_t* out) {
    UNROLL for (int i = 0; i < Places<BITS>::QUADS; ++i) {
        if (i == count) return;
        _mm512_storeu_si512(out + i * line, quad_of<BITS>(codes, places.of[i]));
    }
}

template <int BITS>
void expand_codes(const uint32_t* words, int sets, int64_t quads, int8_t* panel) {
    constexpr int QUADS_PER_WORD = Places<BITS>::QUADS;
    const int64_t line = sets * LANES * 4;
    const Places<BITS> places;
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
