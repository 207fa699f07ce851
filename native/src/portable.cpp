// The reference: plain C++ for any CPU. Every other instruction set is tested against it.
#include "kernels.hpp"

#include <cmath>
#include <cstring>

#include "network_loops.hpp"
#include "signed_sums.hpp"

namespace binaryrelax {
namespace {

// Additions only; also the zero of a ternary code is x - x, so that it is NaN where 0 * x would be.
float signed_or_zero(float x, int code) { return code == 0 ? -x : code == 1 ? x - x : x; }

void build_tables(const float* x, int64_t inputs, int bits, float* tables) {
    const int per_table = 4 / bits;
    for (int64_t start = 0; start < (inputs + 3) / 4 * 4; start += per_table, tables += TABLE) {
        float group[4] = {0, 0, 0, 0};
        for (int i = 0; i < per_table && start + i < inputs; ++i) group[i] = x[start + i];
        for (int index = 0; index < TABLE; ++index) {
            float sum = 0;
            for (int i = 0; i < per_table; ++i) {
                const int code = bits == 1 ? 2 * (index >> i & 1) : index >> 2 * i & 3;
                sum += signed_or_zero(group[i], code);
            }
            tables[index] = sum;
        }
    }
}

void look_up(const LookUpJob& job) {
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        double* totals = job.totals + pixel * PANEL;
        for (int output = 0; output < PANEL; ++output) totals[output] = 0;
        for (int64_t nibble = 0; nibble < job.nibbles; ++nibble) {
            const float* table = job.pixels[pixel] + job.offsets[nibble];
            const uint32_t* words = job.words + nibble / NIBBLES_PER_WORD * job.sets * LANES;
            const int shift = 4 * static_cast<int>(nibble % NIBBLES_PER_WORD);
            for (int output = 0; output < job.sets * LANES; ++output) {
                totals[output] += table[words[output] >> shift & 15];
            }
        }
    }
}

uint32_t largest_magnitude(const float* x, int64_t count) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; ++i) {
        uint32_t magnitude;
        std::memcpy(&magnitude, x + i, sizeof magnitude);
        magnitude &= 0x7fffffff;
        if (magnitude > largest) largest = magnitude;
    }
    return largest;
}

void to_bytes(const float* x, int64_t count, float inverse, uint8_t flip, uint8_t* out) {
    for (int64_t i = 0; i < count; ++i) {
        out[i] = static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(x[i] * inverse))) ^ flip;
    }
}

void shuffle(const int8_t* x, int64_t num_words, int bits, int8_t* out) {
    const int columns = 8 / bits;
    for (int64_t word = 0; word < num_words; ++word, x += 4 * columns, out += 4 * columns) {
        for (int i = 0; i < 4; ++i) {
            for (int j = 0; j < columns; ++j) out[4 * j + i] = x[columns * i + j];
        }
    }
}

void dot_codes(const CodeJob& job) {
    const int columns = 8 / job.bits;
    const uint32_t mask = job.bits == 1 ? 1 : 3;
    for (int output = 0; output < job.sets * LANES; ++output) {
        int32_t sum = 0;
        for (int64_t word = 0; word < job.num_words; ++word) {
            const uint32_t codes = job.words[word * job.sets * LANES + output];
            const int8_t* x = job.x + word * 4 * columns;
            for (int j = 0; j < columns; ++j) {
                for (int i = 0; i < 4; ++i) {
                    const uint32_t code = codes >> (8 * i + job.bits * j) & mask;
                    sum += static_cast<int32_t>(code) * x[4 * j + i];
                }
            }
        }
        job.totals[output] = (job.bits == 1 ? 2 * sum : sum) - job.x_sum;
    }
}

void expand(const uint32_t* words, int sets, int64_t quads, int bits, int8_t* panel) {
    const int quads_per_word = 8 / bits;
    const uint32_t mask = bits == 1 ? 1 : 3;
    for (int64_t quad = 0; quad < quads; ++quad) {
        const uint32_t* line = words + quad / quads_per_word * sets * LANES;
        const int shift = 4 * bits * static_cast<int>(quad % quads_per_word);
        for (int output = 0; output < sets * LANES; ++output) {
            for (int i = 0; i < 4; ++i) {
                const int code = static_cast<int>(line[output] >> (shift + bits * i) & mask);
                *panel++ = static_cast<int8_t>(bits == 1 ? 2 * code - 1 : code - 1);
            }
        }
    }
}

void dot_bytes(const ByteJob& job) {
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        int32_t* totals = job.totals + pixel * PANEL;
        for (int output = 0; output < job.sets * LANES; ++output) totals[output] = job.start[pixel * job.start_stride + output];
        const int8_t* weights = job.panel;
        for (int64_t quad = 0; quad < job.quads; ++quad) {
            const uint8_t* x = job.pixels[pixel] + job.offsets[quad];
            for (int output = 0; output < job.sets * LANES; ++output, weights += 4) {
                for (int i = 0; i < 4; ++i) totals[output] += x[i] * weights[i];
            }
        }
    }
}

void finish_exact(const double* totals, const FinishJob& job) {
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        for (int64_t i = 0; i < job.outputs; ++i) {
            const double bias = job.bias ? job.bias[i] : 0.0f;
            job.y[pixel * job.y_stride + i] = static_cast<float>(job.scale[i] * totals[pixel * PANEL + i] + bias);
        }
    }
}

void finish_fast(const int32_t* totals, const FinishJob& job) {
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        for (int64_t i = 0; i < job.outputs; ++i) {
            const float sum = static_cast<float>(totals[pixel * PANEL + i]) * job.x_scales[pixel];
            job.y[pixel * job.y_stride + i] = sum * job.scale[i] + (job.bias ? job.bias[i] : 0.0f);
        }
    }
}

void multiply(const ChunkJob& job) { multiply_by_pixels(job, dot_bytes); }

void multiply_depthwise(const DepthwiseJob& job) { depthwise_loops(job, 0); }

void write_outputs(const OutputJob& job) { write_outputs_loops(job, 0); }

}  // namespace

const Kernels PORTABLE_KERNELS = {"portable", build_tables, look_up, largest_magnitude, to_bytes, shuffle,
                                  dot_codes, expand, dot_bytes, nullptr,
                                  add_signed_floats, add_signed_bytes, finish_exact, finish_fast,
                                  1, nullptr, nullptr, multiply, nullptr, multiply_depthwise, write_outputs,
                                  quantize_loops, &PORTABLE_FLOATS, nullptr};

}  // namespace binaryrelax
