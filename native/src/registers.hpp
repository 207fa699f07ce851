// Small things about registers of 512 bits. The functions are local to each file.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace binaryrelax {
namespace {

// Keeps a sum in its register, where the compiler would copy it to memory at every step for what follows the loop.
inline void hold(__m512i& sum) { asm("" : "+v"(sum)); }

// Four bytes in every lane.
inline __m512i four_bytes(const uint8_t* place) {
    int32_t four;
    __builtin_memcpy(&four, place, sizeof four);
    return _mm512_set1_epi32(four);
}

}  // namespace
}  // namespace binaryrelax
