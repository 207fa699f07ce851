#include "sha256.hpp"

#include <algorithm>
#include <cstring>

#ifdef BINARYRELAX_X86
#include <cpuid.h>
#endif

#include "sha256_blocks.hpp"

namespace binaryrelax {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
extern const uint32_t SHA256_CONSTANTS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

namespace {

using CompressBlocks = void (*)(uint32_t* state, const uint8_t* blocks, size_t count);

uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

uint32_t big_endian(const uint8_t* bytes) {
    return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | uint32_t{bytes[3]};
}

CompressBlocks choose_compression() {
#ifdef BINARYRELAX_X86
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned SHA = 1u << 29;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & SHA)) {
        return compress_with_sha_ni;
    }
#endif
    return compress_portably;
}

void compress(uint32_t* state, const uint8_t* blocks, size_t count) {
    static const CompressBlocks chosen = choose_compression();
    chosen(state, blocks, count);
}

}  // namespace

void compress_portably(uint32_t* state, const uint8_t* blocks, size_t count) {
    uint32_t words[64];
    for (const uint8_t* block = blocks; block != blocks + 64 * count; block += 64) {
        for (int i = 0; i < 16; ++i) words[i] = big_endian(block + 4 * i);
        for (int i = 16; i < 64; ++i) {
            const uint32_t w15 = words[i - 15], w2 = words[i - 2];
            const uint32_t s0 = rotate(w15, 7) ^ rotate(w15, 18) ^ w15 >> 3;
            const uint32_t s1 = rotate(w2, 17) ^ rotate(w2, 19) ^ w2 >> 10;
            words[i] = words[i - 16] + s0 + words[i - 7] + s1;
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 64; ++i) {
            const uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25), choice = (e & f) ^ (~e & g);
            const uint32_t t1 = h + s1 + choice + SHA256_CONSTANTS[i] + words[i];
            const uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
            const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
            h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
        }
        state[0] += a, state[1] += b, state[2] += c, state[3] += d;
        state[4] += e, state[5] += f, state[6] += g, state[7] += h;
    }
}

void Sha256::update(const void* data, size_t size) {
    if (size == 0) return;
    const uint8_t* bytes = static_cast<const uint8_t*>(data);
    const size_t held = size_ % 64;
    size_ += size;
    if (held > 0) {
        const size_t taken = std::min(size, 64 - held);
        std::memcpy(pending_ + held, bytes, taken);
        if (held + taken < 64) return;
        compress(state_, pending_, 1);
        bytes += taken, size -= taken;
    }
    compress(state_, bytes, size / 64);
    std::memcpy(pending_, bytes + size / 64 * 64, size % 64);
}

std::string Sha256::finish() {
    const uint64_t bits = size_ * 8;
    uint8_t end[72] = {0x80};
    const size_t zeros = (119 - size_ % 64) % 64;  // up to 8 bytes before the end of a block, with the first one
    for (int i = 0; i < 8; ++i) end[zeros + 1 + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
    update(end, zeros + 9);
    static constexpr char HEXADECIMAL[] = "0123456789abcdef";
    std::string digest;
    for (const uint32_t word : state_) {
        for (int shift = 28; shift >= 0; shift -= 4) digest += HEXADECIMAL[word >> shift & 15];
    }
    return digest;
}

}  // namespace binaryrelax
