// SHA-256 (FIPS 180-4), with the instructions that some CPUs have for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace binaryrelax {

class Sha256 {
  public:
    void update(const void* data, size_t size);
    void update(std::string_view text) { update(text.data(), text.size()); }
    // 64 lower-case hexadecimal digits. The object is of no use afterwards.
    std::string finish();

  private:
    uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                          0x5be0cd19};
    uint8_t pending_[64] = {};
    uint64_t size_ = 0;
};

}  // namespace binaryrelax
