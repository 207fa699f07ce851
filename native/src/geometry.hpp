// Which inputs a convolution reads, one axis at a time.
#pragma once

#include <cstdint>

namespace binaryrelax {

// A field is the stretch of an axis that some outputs read, padding included. A kernel of one tap skips what
// lies between two strides.
struct Axis {
    int64_t kernel, stride, padding, dilation;
    int64_t more_after = 0;  // padding at the end less that at the beginning

    int64_t span() const { return dilation * (kernel - 1) + 1; }
    // Zero or less where the kernel does not fit.
    int64_t outputs(int64_t inputs) const {
        const int64_t room = inputs + 2 * padding + more_after - span();
        return room < 0 ? 0 : room / stride + 1;
    }
    int64_t field(int64_t outputs) const { return kernel == 1 ? outputs : (outputs - 1) * stride + span(); }
    // Places in the field between two outputs.
    int64_t step() const { return kernel == 1 ? 1 : stride; }
    // The input at a place of the field of the outputs from `first_output` on; outside 0..inputs-1: padding.
    int64_t input(int64_t first_output, int64_t place) const {
        return first_output * stride - padding + (kernel == 1 ? place * stride : place);
    }
};

struct Geometry {
    int64_t outputs;          // of the whole layer
    int64_t inputs_in_group;  // input channels that one output reads
    int64_t groups;
    Axis vertical, horizontal;

    int64_t channels() const { return inputs_in_group * groups; }
    int64_t outputs_in_group() const { return outputs / groups; }
    int64_t taps() const { return vertical.kernel * horizontal.kernel; }
    int64_t inputs() const { return inputs_in_group * taps(); }
    // Every tap starts on a multiple of four channels, so that no nibble or quad crosses taps.
    int64_t padded_inputs_in_group() const { return (inputs_in_group + 3) / 4 * 4; }
};

struct Image {
    int64_t height, width;
};

}  // namespace binaryrelax
