// The weights of a layer in the order in which the loops over floats read them: panels of up to 64 outputs of one
// group, [input][set][lane], inputs tap by tap with channels innermost. Codes stay packed, in words of 32 bits
// as in `Tiles`, and become floats a chunk of inputs at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "aligned_buffer.hpp"
#include "float_kernels.hpp"
#include "kernels.hpp"
#include "network_file.hpp"

namespace binaryrelax {

// Weights by output and input as the file has them.
class WeightSource {
  public:
    WeightSource(const Operation& operation, const NetworkFile& file);

    const std::vector<int64_t>& shape() const { return packed_ ? packed_->shape : floats_->shape; }
    int64_t outputs() const { return shape()[0]; }
    int64_t inputs() const { return inputs_; }  // of an output
    int64_t taps() const { return taps_; }
    // The input at a place of the order of panels.
    int64_t input_at(int64_t place) const {
        const int64_t channels = shape()[1];
        return taps_ == 1 ? place : place % channels * taps_ + place / channels;
    }
    const PackedTensor* packed() const { return packed_; }
    uint32_t code(int64_t output, int64_t input) const;
    const float* row(int64_t output) const { return floats_->values.data() + output * inputs_; }  // of floats
    float scale(int64_t output, int64_t input) const;
    float weight(int64_t output, int64_t input) const;

  private:
    const PackedTensor* packed_ = nullptr;
    const FloatTensor* floats_ = nullptr;
    int64_t inputs_ = 1, taps_ = 1, row_bytes_ = 0;
};

class FloatPanels {
  public:
    struct Panel {
        int64_t group, first_output, outputs;
        int sets;
        int64_t start, scales;  // where its weights and scales lie
    };

    FloatPanels(const WeightSource& source, int64_t groups);

    int64_t inputs() const { return inputs_; }
    const std::vector<Panel>& panels() const { return panels_; }
    // The weights of `inputs` inputs from `first_input` on, a multiple of 32; of codes they are written to `room`.
    const float* chunk(const FloatKernels& kernels, const Panel& panel, int64_t first_input, int64_t inputs,
                       float* room) const;
    int64_t bytes() const { return floats_.bytes() + words_.bytes() + scales_.bytes() + scale_bytes(); }

  private:
    int64_t scale_bytes() const { return static_cast<int64_t>(scale_of_input_.size() * sizeof(int32_t)); }
    void divide_into_panels(int64_t outputs, int64_t groups, int64_t scales_per_row);
    void copy_floats(const WeightSource& source, const Panel& panel);
    void copy_codes(const WeightSource& source, const Panel& panel);
    void copy_scales(const WeightSource& source, const Panel& panel);

    int64_t inputs_;
    int bits_ = 0;  // 0: floats
    std::vector<Panel> panels_;
    int64_t size_ = 0, num_scales_ = 0;
    AlignedBuffer<float> floats_;
    AlignedBuffer<uint32_t> words_;
    AlignedBuffer<float> scales_;          // [panel][scale][set][lane]
    std::vector<int32_t> scale_of_input_;  // empty where rows have one scale
    float levels_[256] = {};
};

}  // namespace binaryrelax
