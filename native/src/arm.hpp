// What 64-bit ARM has beside the portable loops.
#pragma once

#include "kernels.hpp"

namespace binaryrelax {
namespace dotprod {
void dot_bytes(const ByteJob& job);
void multiply(const ChunkJob& job);
}  // namespace dotprod
}  // namespace binaryrelax
