// Winograd's transforms in float32 with AVX-512.
#include "float_tile_loops.hpp"
#include "x86.hpp"

namespace binaryrelax {
namespace avx512 {
namespace {

struct Register {
    static constexpr int WIDTH = 16;

    struct Codes {
        __m512i words;
        static Codes load(const uint32_t* from) { return {_mm512_loadu_si512(from)}; }
        Codes operator>>(int bits) const { return {_mm512_srl_epi32(words, _mm_cvtsi32_si128(bits))}; }
    };

    __m512 floats;
    static Register load(const float* from) { return {_mm512_loadu_ps(from)}; }
    static Register zero() { return {_mm512_setzero_ps()}; }
    void store(float* to) const { _mm512_storeu_ps(to, floats); }
    Register operator+(const Register& other) const { return {_mm512_add_ps(floats, other.floats)}; }
    Register operator-(const Register& other) const { return {_mm512_sub_ps(floats, other.floats)}; }

    // Bits above the code's do not matter: the levels are repeated.
    template <int BITS>
    static Register level(const Codes& codes) {
        const __m512 ones = _mm512_set1_ps(1.0f);
        const __m512 levels = BITS == 1 ? _mm512_mask_blend_ps(0x5555, ones, _mm512_set1_ps(-1.0f))
                                        : _mm512_mask_blend_ps(0x1111, _mm512_maskz_mov_ps(0x4444, ones),
                                                               _mm512_set1_ps(-1.0f));
        return {_mm512_permutexvar_ps(codes.words, levels)};
    }
};

}  // namespace

const FloatTileKernels FLOAT_TILES = float_tiles<Register>();

}  // namespace avx512
}  // namespace binaryrelax
