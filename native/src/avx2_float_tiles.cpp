// Winograd's transforms in float32 with AVX2.
#include "avx2.hpp"
#include "float_tile_loops.hpp"

namespace binaryrelax {
namespace avx2 {
namespace {

struct Register {
    static constexpr int WIDTH = HALF;

    struct Codes {
        __m256i words;
        static Codes load(const uint32_t* from) { return {avx2::load(from)}; }
        Codes operator>>(int bits) const { return {_mm256_srl_epi32(words, _mm_cvtsi32_si128(bits))}; }
    };

    __m256 floats;
    static Register load(const float* from) { return {_mm256_loadu_ps(from)}; }
    static Register zero() { return {_mm256_setzero_ps()}; }
    void store(float* to) const { _mm256_storeu_ps(to, floats); }
    Register operator+(const Register& other) const { return {_mm256_add_ps(floats, other.floats)}; }
    Register operator-(const Register& other) const { return {_mm256_sub_ps(floats, other.floats)}; }

    // Bits above the code's do not matter: the levels are repeated.
    template <int BITS>
    static Register level(const Codes& codes) {
        const __m256 levels = BITS == 1 ? _mm256_setr_ps(-1, 1, -1, 1, -1, 1, -1, 1)
                                        : _mm256_setr_ps(-1, 0, 1, 0, -1, 0, 1, 0);
        return {_mm256_permutevar8x32_ps(levels, codes.words)};
    }
};

}  // namespace

const FloatTileKernels FLOAT_TILES = float_tiles<Register>();

}  // namespace avx2
}  // namespace binaryrelax
