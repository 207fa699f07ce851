// The kernels of each x86 instruction set, by name; `kernels.hpp` says what they do. Every file that defines
// some of them is compiled with the flags of its instruction set.
#pragma once

#include <immintrin.h>

#include "kernels.hpp"

// Arrays of registers stay in registers only if every loop over them is unrolled.
#define UNROLL _Pragma("GCC unroll 8")
#define UNROLL_ALL _Pragma("GCC unroll 16")

namespace binaryrelax {

// The hardware stops looking ahead at the end of a page; weights that come from memory must not.
constexpr int BYTES_AHEAD = 2048;
constexpr int WORDS_AHEAD = 2 * BYTES_AHEAD / 4;

#define DECLARE_KERNELS                                                                                     \
    void build_tables(const float* x, int64_t inputs, int bits, float* tables);                             \
    void look_up(const LookUpJob& job);                                                                     \
    void finish_exact(const double* totals, const FinishJob& job);                                          \
    uint32_t largest_magnitude(const float* x, int64_t count);                                              \
    void to_bytes(const float* x, int64_t count, float inverse, uint8_t flip, uint8_t* out);                \
    void shuffle(const int8_t* x, int64_t num_words, int bits, int8_t* out);                                \
    void dot_codes(const CodeJob& job);                                                                     \
    void expand(const uint32_t* words, int sets, int64_t quads, int bits, int8_t* panel);                   \
    void dot_bytes(const ByteJob& job);                                                                     \
    void add_signed(const float* x, const int8_t* weights, int64_t count, float* sums);                     \
    void add_signed(const int8_t* x, const int8_t* weights, int64_t count, int32_t* sums);                  \
    void finish_fast(const int32_t* totals, const FinishJob& job);                                          \
    void multiply(const ChunkJob& job);                                                                     \
    void multiply_depthwise(const DepthwiseJob& job);                                                       \
    void write_outputs(const OutputJob& job);                                                               \
    void quantize(const float* x, int64_t count, float inverse, float zero, uint8_t* out);

namespace avx2 {
DECLARE_KERNELS
}
namespace avx_vnni {
void dot_bytes(const ByteJob& job);
void multiply(const ChunkJob& job);
}
namespace avx512 {
DECLARE_KERNELS
void transform_input(const TileInputJob& job);
void transform_output(const TileOutputJob& job);
extern const WinogradKernels WINOGRAD;
}
namespace avx512_vbmi {
void expand(const uint32_t* words, int sets, int64_t quads, int bits, int8_t* panel);
void multiply_words(const WordsJob& job);
extern const WinogradKernels WINOGRAD;
}
namespace amx {
void dot_rows(const RowsJob& job);
void enter();
void leave();
void multiply(const ChunkJob& job);
}

}  // namespace binaryrelax
