// Winograd's transforms in float32, the reference: plain C++ for any CPU.
#include "float_tile_loops.hpp"

namespace binaryrelax {
namespace {

// Four floats, for which compilers find registers on most CPUs.
using FourFloats = float __attribute__((vector_size(16)));
using FourWords = uint32_t __attribute__((vector_size(16)));
using FourNumbers = int32_t __attribute__((vector_size(16)));

struct Register {
    static constexpr int WIDTH = 4;

    struct Codes {
        FourWords words;
        static Codes load(const uint32_t* from) {
            Codes codes;
            __builtin_memcpy(&codes.words, from, sizeof codes.words);
            return codes;
        }
        Codes operator>>(int bits) const { return {words >> static_cast<uint32_t>(bits)}; }
    };

    FourFloats floats;
    static Register load(const float* from) {
        Register loaded;
        __builtin_memcpy(&loaded.floats, from, sizeof loaded.floats);
        return loaded;
    }
    static Register zero() { return {FourFloats{}}; }
    void store(float* to) const { __builtin_memcpy(to, &floats, sizeof floats); }
    Register operator+(const Register& other) const { return {floats + other.floats}; }
    Register operator-(const Register& other) const { return {floats - other.floats}; }

    template <int BITS>
    static Register level(const Codes& codes) {
        const auto code = reinterpret_cast<FourNumbers>(codes.words & ((1u << BITS) - 1));
        return {__builtin_convertvector(BITS == 1 ? 2 * code - 1 : code - 1, FourFloats)};
    }
};

}  // namespace

const FloatTileKernels PORTABLE_FLOAT_TILES = float_tiles<Register>();

}  // namespace binaryrelax
