// How many products of bytes one core of this CPU can add in a second: what no kernel can pass that multiplies.
#pragma once

#include <cstdint>
#include <string>

namespace binaryrelax {

// Multiply-additions per second of one core, with the best instruction of that set; see `choose_kernels`.
double int8_peak(const std::string& instruction_set);

// Loops over registers alone, one for each instruction set: `rounds` times the same products, added to sums that do
// not wait for one another. They give the number of multiply-additions. As in `kernels.hpp`, the files that define
// them use nothing from the standard library.
constexpr int PEAK_BYTES = 2048;  // of operands and sums

namespace avx2 {
int64_t add_products(int64_t rounds, uint8_t* bytes);
}
namespace avx_vnni {
int64_t add_products(int64_t rounds, uint8_t* bytes);
}
namespace avx512 {
int64_t add_products(int64_t rounds, uint8_t* bytes);
}
namespace amx {
int64_t add_products(int64_t rounds, uint8_t* bytes);
}

}  // namespace binaryrelax
