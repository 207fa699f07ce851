// The innermost loop of SHA-256, for any CPU and for those with instructions for it. Like kernels.hpp it includes
// nothing that would leave functions behind, for the latter is compiled with flags of its own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace binaryrelax {

// Takes `count` blocks of 64 bytes into the state, eight words.
void compress_portably(uint32_t* state, const uint8_t* blocks, size_t count);
#ifdef BINARYRELAX_X86
void compress_with_sha_ni(uint32_t* state, const uint8_t* blocks, size_t count);
#endif

extern const uint32_t SHA256_CONSTANTS[64];

}  // namespace binaryrelax
