#include "float_weights.hpp"

#include <algorithm>

namespace binaryrelax {
namespace {

// Codes of other sizes take more room, so that none crosses a word.
int bits_in_words(int bits) { return bits <= 2 ? bits : bits <= 4 ? 4 : 8; }

}  // namespace

WeightSource::WeightSource(const Operation& operation, const NetworkFile& file) {
    if (operation.packed) {
        packed_ = &file.packed.at(operation.weight);
    } else {
        floats_ = &file.floats.at(operation.weight);
    }
    for (size_t i = 1; i < shape().size(); ++i) inputs_ *= shape()[i];
    taps_ = inputs_ / shape()[1];
    row_bytes_ = packed_ ? (inputs_ * packed_->bits + 7) / 8 : 0;
}

uint32_t WeightSource::code(int64_t output, int64_t input) const {
    const uint8_t* row = packed_->codes.data() + output * row_bytes_;
    const int64_t bit = input * packed_->bits, byte = bit / 8;
    const uint32_t next = byte + 1 < row_bytes_ ? row[byte + 1] : 0;
    return (row[byte] | next << 8) >> bit % 8 & ((1u << packed_->bits) - 1);
}

float WeightSource::scale(int64_t output, int64_t input) const {
    const int64_t per_scale = inputs_ / packed_->scales_per_row;
    return packed_->scales[static_cast<size_t>(output * packed_->scales_per_row + input / per_scale)];
}

float WeightSource::weight(int64_t output, int64_t input) const {
    if (!packed_) return row(output)[input];
    return packed_->codebook[code(output, input)] * scale(output, input);
}

FloatPanels::FloatPanels(const WeightSource& source, int64_t groups) : inputs_(source.inputs()) {
    const PackedTensor* packed = source.packed();
    if (packed) bits_ = bits_in_words(packed->bits);
    divide_into_panels(source.outputs(), groups, packed ? packed->scales_per_row : 0);
    if (!packed) {
        floats_.reserve(size_);
        std::fill_n(floats_.data(), size_, 0.0f);
        for (const Panel& panel : panels_) copy_floats(source, panel);
        return;
    }
    words_.reserve(size_);
    std::fill_n(words_.data(), size_, 0u);
    scales_.reserve(num_scales_);
    std::fill_n(scales_.data(), num_scales_, 0.0f);
    for (size_t i = 0; i < 256; ++i) {
        const size_t code = i & ((size_t{1} << bits_) - 1);
        levels_[i] = code < packed->codebook.size() ? packed->codebook[code] : 0.0f;
    }
    for (const Panel& panel : panels_) {
        copy_codes(source, panel);
        copy_scales(source, panel);
    }
    if (packed->scales_per_row == 1) return;
    const int64_t per_scale = inputs_ / packed->scales_per_row;
    for (int64_t place = 0; place < inputs_; ++place) {
        scale_of_input_.push_back(static_cast<int32_t>(source.input_at(place) / per_scale));
    }
}

void FloatPanels::divide_into_panels(int64_t outputs, int64_t groups, int64_t scales_per_row) {
    const int64_t in_group = outputs / groups;
    const int64_t rows = bits_ ? (inputs_ * bits_ + 31) / 32 : inputs_;
    for (int64_t first = 0; first < outputs;) {
        const int64_t left = in_group - first % in_group, count = std::min<int64_t>(PANEL, left);
        const int sets = static_cast<int>((count + LANES - 1) / LANES);
        panels_.push_back({first / in_group, first, count, sets, size_, num_scales_});
        size_ += rows * sets * LANES;
        num_scales_ += scales_per_row * sets * LANES;
        first += count;
    }
}

// A set at a time: its 16 rows are read side by side.
void FloatPanels::copy_floats(const WeightSource& source, const Panel& panel) {
    for (int64_t first = 0; first < panel.outputs; first += LANES) {
        const int64_t count = std::min<int64_t>(LANES, panel.outputs - first);
        const float* rows = source.row(panel.first_output + first);
        float* line = floats_.data() + panel.start + first;
        for (int64_t place = 0; place < inputs_; ++place, line += panel.sets * LANES) {
            const float* column = rows + source.input_at(place);
            for (int64_t i = 0; i < count; ++i) line[i] = column[i * inputs_];
        }
    }
}

void FloatPanels::copy_codes(const WeightSource& source, const Panel& panel) {
    const int64_t per_word = 32 / bits_;
    for (int64_t place = 0; place < inputs_; ++place) {
        uint32_t* line = words_.data() + panel.start + place / per_word * panel.sets * LANES;
        const int64_t input = source.input_at(place), shift = place % per_word * bits_;
        for (int64_t i = 0; i < panel.outputs; ++i) line[i] |= source.code(panel.first_output + i, input) << shift;
    }
}

void FloatPanels::copy_scales(const WeightSource& source, const Panel& panel) {
    const int64_t count = source.packed()->scales_per_row, per_scale = inputs_ / count;
    for (int64_t scale = 0; scale < count; ++scale) {
        float* line = scales_.data() + panel.scales + scale * panel.sets * LANES;
        for (int64_t i = 0; i < panel.outputs; ++i) line[i] = source.scale(panel.first_output + i, scale * per_scale);
    }
}

const float* FloatPanels::chunk(const FloatKernels& kernels, const Panel& panel, int64_t first_input, int64_t inputs,
                                float* room) const {
    const int64_t outputs = panel.sets * LANES;
    if (!bits_) return floats_.data() + panel.start + first_input * outputs;
    const uint32_t* words = words_.data() + panel.start + first_input * bits_ / 32 * outputs;
    const int32_t* scale_of_input = scale_of_input_.empty() ? nullptr : scale_of_input_.data() + first_input;
    kernels.expand_levels({words, bits_, panel.sets, inputs, levels_, scales_.data() + panel.scales, scale_of_input,
                           room});
    return room;
}

}  // namespace binaryrelax
