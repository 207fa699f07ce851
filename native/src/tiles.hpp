// Weights in the order in which the kernels read them.
//
// Sixteen rows (outputs) make a set, up to four sets a panel. A panel is a sequence of lines, one line for
// each 32-bit word of a row:
//
//   word 0: set 0 [row 0 | row 1 | .. | row 15]  set 1 [row 16 | ..]  ..
//   word 1: set 0 [row 0 | row 1 | .. | row 15]  ..
//
// A row's word is a piece of the canonical layout: codes of `bits` bits, first input in the lowest bits. One
// layout serves both modes: a nibble of a word is an index into a table of 16 sums (four 1-bit codes or two
// 2-bit codes), and a shift and a mask leave four codes in the four bytes that a byte product wants.
//
// Codes are spread where kernels expand them in registers: the four of a quad lie at the same place of a word's four
// bytes, those of quad q from bit q * bits on. Then one shift serves them all.
#pragma once

#include <cstdint>
#include <vector>

#include "aligned_buffer.hpp"
#include "kernels.hpp"

namespace binaryrelax {

// Codes as they are stored in files: rows of `inputs` codes, padded with zero bits to whole bytes.
struct CanonicalCodes {
    const uint8_t* data;
    int64_t outputs;
    int64_t inputs;
    int bits;

    int64_t row_bytes() const { return (inputs * bits + 7) / 8; }
    const uint8_t* row(int64_t output) const { return data + output * row_bytes(); }
    uint32_t code(int64_t output, int64_t input) const;
    // A row's codes, one to a byte, and the zeros that fill its last byte.
    void unpack(int64_t output, uint8_t* out) const;
    int32_t sum(int64_t output) const;  // of a row's codes
    // Throws std::invalid_argument where a 2-bit code is 3 or a row does not end in zero bits.
    void check() const;
};

class Tiles {
  public:
    // Row r of the tiles is row `first_output + r` of the codes; its place p holds input sources[p], or
    // nothing (a code of zero bits) where that is negative. The number of places is a multiple of 4.
    Tiles(const CanonicalCodes& codes, int64_t first_output, int64_t outputs,
          const std::vector<int64_t>& sources);

    int bits() const { return bits_; }
    int64_t outputs() const { return outputs_; }
    int64_t num_words() const { return num_words_; }
    int64_t num_nibbles() const { return places_ * bits_ / 4; }
    int64_t num_quads() const { return places_ / 4; }
    int64_t num_panels() const { return (outputs_ + PANEL - 1) / PANEL; }
    int64_t panel_outputs(int64_t panel) const;
    int panel_sets(int64_t panel) const { return static_cast<int>((panel_outputs(panel) + LANES - 1) / LANES); }
    const uint32_t* panel(int64_t panel) const { return words_.data() + panel * num_words_ * PANEL; }
    // -128 times the sum of each output's weights: what unsigned activations add to a sum.
    const int32_t* corrections(int64_t panel) const { return corrections_.data() + panel * PANEL; }
    int64_t bytes() const { return words_.bytes() + corrections_.bytes(); }

  private:
    void allocate();
    void copy_bytes(const CanonicalCodes& codes, int64_t first_output);
    void copy_codes(const CanonicalCodes& codes, int64_t first_output, const std::vector<int64_t>& sources);
    uint32_t* word(int64_t output, int64_t index);
    void sum_weights();

    int bits_;
    int64_t outputs_;
    int64_t places_;
    int64_t num_words_;
    AlignedBuffer<uint32_t> words_;
    AlignedBuffer<int32_t> corrections_;
};

}  // namespace binaryrelax
