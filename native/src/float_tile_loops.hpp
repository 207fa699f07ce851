// The loops of `float_tiles.hpp`, written once for registers of any width: the order of roundings is the same on every
// CPU. A Register has WIDTH floats, `load`, `store`, `zero`, + and -; and Codes, the words of as many outputs. The
// functions are local to each file.
#pragma once

#include "float_tiles.hpp"
#include "kernels.hpp"

// Arrays of registers stay in registers only if every loop over them is unrolled.
#define UNROLL_TILE _Pragma("GCC unroll 4")

namespace binaryrelax {
namespace {

constexpr int TAPS = 9;

template <typename Register>
inline void transform_line(const Register& d0, const Register& d1, const Register& d2, const Register& d3,
                           Register* out, int step) {
    out[0] = d0 - d2;
    out[step] = d1 + d2;
    out[2 * step] = d2 - d1;
    out[3 * step] = d1 - d3;
}

template <typename Register>
inline void write_field(const Register (&d)[FLOAT_POSITIONS], float* out, int64_t stride) {
    Register columns[FLOAT_POSITIONS];
    UNROLL_TILE for (int j = 0; j < 4; ++j) transform_line(d[j], d[4 + j], d[8 + j], d[12 + j], columns + j, 4);
    UNROLL_TILE for (int i = 0; i < 4; ++i) {
        Register row[4];
        transform_line(columns[4 * i], columns[4 * i + 1], columns[4 * i + 2], columns[4 * i + 3], row, 1);
        UNROLL_TILE for (int j = 0; j < 4; ++j) row[j].store(out + (4 * i + j) * stride);
    }
}

// A tile that lies inside the image.
template <typename Register>
void transform_whole_field(const float* x, int64_t row_size, int64_t channels, float* out, int64_t stride) {
    for (int64_t c = 0; c < channels; c += Register::WIDTH) {
        Register d[FLOAT_POSITIONS];
        UNROLL_TILE for (int i = 0; i < 4; ++i) {
            UNROLL_TILE for (int j = 0; j < 4; ++j) d[4 * i + j] = Register::load(x + i * row_size + j * channels + c);
        }
        write_field(d, out + c, stride);
    }
}

template <typename Register>
void transform_cut_field(const TileFieldJob& job, int64_t first_column, float* out) {
    for (int64_t c = 0; c < job.channels; c += Register::WIDTH) {
        Register d[FLOAT_POSITIONS];
        for (int i = 0; i < 4; ++i) {
            const int64_t row = job.first_row + i;
            for (int j = 0; j < 4; ++j) {
                const int64_t column = first_column + j;
                const bool inside = row >= 0 && row < job.height && column >= 0 && column < job.width;
                d[4 * i + j] = inside ? Register::load(job.image + (row * job.width + column) * job.channels + c)
                                      : Register::zero();
            }
        }
        write_field(d, out + c, job.position_stride);
    }
}

template <typename Register>
void transform_fields(const TileFieldJob& job) {
    const bool has_rows = job.first_row >= 0 && job.first_row + FLOAT_TILE_FIELD <= job.height;
    const int64_t row_size = job.width * job.channels;
    for (int64_t tile = 0; tile < job.num_tiles; ++tile) {
        const int64_t column = job.first_column + tile * FLOAT_TILE;
        float* out = job.out + tile * job.channels;
        if (has_rows && column >= 0 && column + FLOAT_TILE_FIELD <= job.width) {
            const float* x = job.image + job.first_row * row_size + column * job.channels;
            transform_whole_field<Register>(x, row_size, job.channels, out, job.position_stride);
        } else {
            transform_cut_field<Register>(job, column, out);
        }
    }
}

template <typename Register>
inline void expand_line(const Register& g0, const Register& g1, const Register& g2, Register* out, int step) {
    const Register ends = g0 + g2;
    out[0] = g0 + g0;
    out[step] = ends + g1;
    out[2 * step] = ends - g1;
    out[3 * step] = g2 + g2;
}

template <typename Register>
inline void write_levels(const Register (&g)[TAPS], float* out, int64_t stride) {
    Register columns[12];
    UNROLL_TILE for (int j = 0; j < 3; ++j) expand_line(g[j], g[3 + j], g[6 + j], columns + j, 3);
    UNROLL_TILE for (int i = 0; i < 4; ++i) {
        Register row[4];
        expand_line(columns[3 * i], columns[3 * i + 1], columns[3 * i + 2], row, 1);
        UNROLL_TILE for (int j = 0; j < 4; ++j) row[j].store(out + (4 * i + j) * stride);
    }
}

// The channels of a multiple of 16 have a half or the whole of a word of codes.
template <typename Register, int BITS>
void transform_codes(const TileLevelJob& job) {
    using Codes = typename Register::Codes;
    const int lanes = job.sets * LANES;
    for (int64_t group = 0; group < job.count; group += FLOAT_TILE_CHANNELS) {
        for (int lane = 0; lane < lanes; lane += Register::WIDTH) {
            Codes codes[TAPS];
            for (int tap = 0; tap < TAPS; ++tap) {
                const int64_t bit = (tap * job.channels + job.first_channel + group) * BITS;
                codes[tap] = Codes::load(job.words + bit / 32 * job.line + lane) >> static_cast<int>(bit % 32);
            }
            float* out = job.out + group * lanes + lane;
            for (int64_t i = 0; i < FLOAT_TILE_CHANNELS; ++i, out += lanes) {
                Register g[TAPS];
                _Pragma("GCC unroll 9") for (int tap = 0; tap < TAPS; ++tap) {
                    g[tap] = Register::template level<BITS>(codes[tap]);
                    codes[tap] = codes[tap] >> BITS;
                }
                write_levels(g, out, job.position_stride);
            }
        }
    }
}

template <typename Register>
void transform_levels(const TileLevelJob& job) {
    job.bits == 1 ? transform_codes<Register, 1>(job) : transform_codes<Register, 2>(job);
}

template <typename Register>
inline void sum_line(const Register& m0, const Register& m1, const Register& m2, const Register& m3, Register* out,
                     int step) {
    out[0] = m0 + m1 + m2;
    out[step] = m1 - m2 - m3;
}

template <typename Register>
void transform_sums(const TileSumJob& job) {
    const int lanes = job.sets * LANES;
    for (int64_t tile = 0; tile < job.num_tiles; ++tile) {
        for (int lane = 0; lane < lanes; lane += Register::WIDTH) {
            const float* sums = job.sums + tile * lanes + lane;
            Register columns[8], out[4];
            UNROLL_TILE for (int j = 0; j < 4; ++j) {
                Register m[4];
                UNROLL_TILE for (int i = 0; i < 4; ++i) m[i] = Register::load(sums + (4 * i + j) * job.position_stride);
                sum_line(m[0], m[1], m[2], m[3], columns + j, 4);
            }
            UNROLL_TILE for (int i = 0; i < 2; ++i) {
                const Register* row = columns + 4 * i;
                sum_line(row[0], row[1], row[2], row[3], out + 2 * i, 1);
            }
            float* pixels = job.out + tile * FLOAT_TILE * lanes + lane;
            UNROLL_TILE for (int i = 0; i < 4; ++i) out[i].store(pixels + i / 2 * job.row_stride + i % 2 * lanes);
        }
    }
}

template <typename Register>
constexpr FloatTileKernels float_tiles() {
    return {transform_fields<Register>, transform_levels<Register>, transform_sums<Register>};
}

}  // namespace
}  // namespace binaryrelax
