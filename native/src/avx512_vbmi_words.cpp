// Products of bytes with weights that are expanded from codes in registers.
//
// Shifts, masks and subtractions go to other units than the products do, and cost nothing beside them. (Shuffles and
// `vpmultishiftqb` share the units of the products, and so do stores.)
#include "avx512_multiply.hpp"

namespace binaryrelax {
namespace avx512_vbmi {
namespace {

using namespace avx512;

// Has the codes loaded anew for each quad: there are no registers to keep them.
inline void forget_loads() { asm volatile("" ::: "memory"); }

template <int BITS>
struct Words {
    static constexpr int QUADS = 8 / BITS;  // of a word

    template <int PIXELS, int SETS>
    struct Multiply {
        // Few sums would wait for one another: several for each pixel and set.
        static constexpr int WAYS = PIXELS * SETS >= 8 ? 1 : PIXELS * SETS >= 4 ? 2 : 4;
        using Sums = __m512i[WAYS][PIXELS][SETS];

        // Weights of a quad of a word: 1-bit codes are shifted so that what is left of them is 0 or 2.
        static inline __m512i weights_of(const uint32_t* words, int quad) {
            const __m512i codes = _mm512_loadu_si512(words);
            const __m512i mask = _mm512_set1_epi8(BITS == 1 ? 2 : 3), one = _mm512_set1_epi8(1);
            if (BITS == 1 && quad == 0) return _mm512_sub_epi8(_mm512_and_si512(_mm512_add_epi8(codes, codes), mask), one);
            const __m512i moved = _mm512_srli_epi32(codes, static_cast<unsigned>(BITS == 1 ? quad - 1 : quad * BITS));
            return _mm512_sub_epi8(_mm512_and_si512(moved, mask), one);
        }

        static inline void multiply_quad(const uint32_t* words, int quad, const uint8_t* const* pixels, int64_t offset,
                                         __m512i (&sums)[PIXELS][SETS]) {
            if (SETS > 2) forget_loads();
            __m512i weights[SETS];
            UNROLL for (int set = 0; set < SETS; ++set) weights[set] = weights_of(words + set * LANES, quad);
            UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                const __m512i activations = four_bytes(pixels[pixel] + offset);
                UNROLL for (int set = 0; set < SETS; ++set) {
                    sums[pixel][set] = _mm512_dpbusd_epi32(sums[pixel][set], activations, weights[set]);
                    hold(sums[pixel][set]);
                }
            }
        }

        static inline void run_of_codes(const WordsJob& job, const CodeRun& run, const uint8_t* const* pixels, Sums& sums) {
            const uint32_t* words = job.words + run.word * SETS * LANES;
            int64_t offset = run.offset, quads = run.quads;
            for (; quads >= QUADS; quads -= QUADS, offset += 4 * QUADS, words += SETS * LANES) {
                UNROLL for (int set = 0; set < SETS; ++set) _mm_prefetch(words + WORDS_AHEAD + set * LANES, _MM_HINT_T0);
                UNROLL for (int i = 0; i < QUADS; ++i) {
                    multiply_quad(words, i, pixels, offset + 4 * i, sums[i % WAYS]);
                }
            }
            UNROLL for (int i = 0; i < QUADS - 1; ++i) {
                if (i == quads) return;
                multiply_quad(words, i, pixels, offset + 4 * i, sums[i % WAYS]);
            }
        }

        static void run(const WordsJob& job, int first_pixel) {
            const uint8_t* pixels[PIXELS];
            Sums sums;
            UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                pixels[pixel] = job.pixels[first_pixel + pixel];
                UNROLL for (int set = 0; set < SETS; ++set) {
                    UNROLL for (int way = 0; way < WAYS; ++way) sums[way][pixel][set] = _mm512_setzero_si512();
                }
            }
            for (int64_t i = 0; i < job.num_runs; ++i) run_of_codes(job, job.runs[i], pixels, sums);
            const __mmask16 before = job.first ? 0 : 0xffff;  // the totals that count
            UNROLL_ALL for (int pixel = 0; pixel < PIXELS; ++pixel) {
                const int slot = job.slots ? job.slots[first_pixel + pixel] : first_pixel + pixel;
                UNROLL for (int set = 0; set < SETS; ++set) {
                    int32_t* totals = job.totals + slot * PANEL + set * LANES;
                    __m512i sum = sums[0][pixel][set];
                    UNROLL for (int way = 1; way < WAYS; ++way) sum = _mm512_add_epi32(sum, sums[way][pixel][set]);
                    sum = _mm512_add_epi32(sum, _mm512_maskz_loadu_epi32(before, totals));
                    _mm512_storeu_si512(totals, sum);
                }
            }
        }
    };
};

}  // namespace

void multiply_words(const WordsJob& job) {
    job.bits == 1 ? run_in_blocks<Words<1>::Multiply, 1>(job) : run_in_blocks<Words<2>::Multiply, 1>(job);
}

}  // namespace avx512_vbmi
}  // namespace binaryrelax
