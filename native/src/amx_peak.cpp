// AMX: a tile instruction adds 16 rows of 64 bytes times 64 x 16 weights. The tiles are configured by `enter`.
#include "peak.hpp"
#include "x86.hpp"

namespace binaryrelax {
namespace amx {

int64_t add_products(int64_t rounds, uint8_t* bytes) {
    constexpr int SUMS = 4, ROWS = 16, BYTES = 64;
    static_assert(ROWS * BYTES <= PEAK_BYTES, "a tile must fit");
    constexpr int64_t FEWER = 16;  // rounds: each does as much as many of a register
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, bytes, BYTES);
    _tile_loadd(5, bytes, BYTES);
    _tile_loadd(6, bytes, BYTES);
    _tile_loadd(7, bytes, BYTES);
    for (int64_t round = 0; round < rounds / FEWER; ++round) {
        _tile_dpbusd(0, 4, 6);
        _tile_dpbusd(1, 4, 7);
        _tile_dpbusd(2, 5, 6);
        _tile_dpbusd(3, 5, 7);
    }
    _tile_stored(0, bytes, BYTES);
    return rounds / FEWER * SUMS * ROWS * ROWS * BYTES;
}

}  // namespace amx
}  // namespace binaryrelax
