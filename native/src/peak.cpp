#include "peak.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "dispatch.hpp"

namespace binaryrelax {
namespace {

using Loop = int64_t (*)(int64_t rounds, uint8_t* bytes);
using Clock = std::chrono::steady_clock;

constexpr double TOTAL_SECONDS = 0.02;
constexpr int64_t ROUNDS = 4096;  // between two looks at the clock: tens of microseconds

// A CPU without any of the instructions: the portable kernel on a panel in the nearest cache.
int64_t portable_products(int64_t rounds, uint8_t* bytes) {
    constexpr int64_t QUADS = 16, ROUNDS_A_CALL = 64;
    static_assert(QUADS * LANES * 4 <= PEAK_BYTES, "the panel must fit");
    int64_t offsets[QUADS];
    for (int64_t quad = 0; quad < QUADS; ++quad) offsets[quad] = 4 * quad;
    int32_t start[PANEL] = {}, totals[PANEL];
    const uint8_t* pixel = bytes;
    const int8_t* panel = reinterpret_cast<const int8_t*>(bytes);
    const ByteJob job{panel, 1, QUADS, &pixel, offsets, 1, start, PANEL, totals};
    const int64_t calls = std::max<int64_t>(1, rounds / ROUNDS_A_CALL);
    for (int64_t call = 0; call < calls; ++call) PORTABLE_KERNELS.dot_bytes(job);
    return calls * QUADS * 4 * LANES;
}

Loop loop_of(const std::string& name) {
#ifdef BINARYRELAX_X86
    if (name == "amx") return amx::add_products;
    if (name.rfind("avx512", 0) == 0) return avx512::add_products;  // they multiply by the same instruction
    if (name == "avx_vnni") return avx_vnni::add_products;
    if (name == "avx2") return avx2::add_products;
#endif
    (void)name;
    return portable_products;
}

}  // namespace

double int8_peak(const std::string& instruction_set) {
    const Kernels& kernels = choose_kernels(instruction_set);
    const Loop loop = loop_of(kernels.name);
    alignas(64) uint8_t bytes[PEAK_BYTES];
    std::memset(bytes, 1, sizeof(bytes));
    double best = 0;
    if (kernels.enter) kernels.enter();
    for (const auto begin = Clock::now(); std::chrono::duration<double>(Clock::now() - begin).count() < TOTAL_SECONDS;) {
        const auto start = Clock::now();
        const auto count = static_cast<double>(loop(ROUNDS, bytes));
        const std::chrono::duration<double> taken = Clock::now() - start;
        best = std::max(best, count / taken.count());  // others on the machine only ever slow it
    }
    if (kernels.leave) kernels.leave();
    return best;
}

}  // namespace binaryrelax
