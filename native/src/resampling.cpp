// Upsampling as torch.nn.functional.interpolate does it, to the rounding of its source indices.
#include <algorithm>
#include <cmath>

#include "operation_kinds.hpp"

namespace binaryrelax {
namespace {

// Where an output comes from along one axis: (1 - part) of place `first` and part of place `second`.
struct Source {
    int64_t first, second;
    float part;
};

// Inputs per output. A given factor counts as it was given, even where the size that it leads to was rounded.
float ratio(const Operation& operation, int axis, int64_t inputs, int64_t outputs) {
    if (operation.bilinear && operation.align_corners) {
        return outputs > 1 ? static_cast<float>(inputs - 1) / static_cast<float>(outputs - 1) : 0.0f;
    }
    if (!operation.has_size) return static_cast<float>(1.0 / operation.factors[axis]);
    return static_cast<float>(inputs) / static_cast<float>(outputs);
}

Source find_source(const Operation& operation, int axis, int64_t inputs, int64_t outputs, int64_t output) {
    if (inputs == outputs) return {output, output, 0.0f};
    const float step = ratio(operation, axis, inputs, outputs);
    if (!operation.bilinear) {
        if (outputs == 2 * inputs) return {output / 2, output / 2, 0.0f};  // whatever the factor was
        const float place = static_cast<float>(output) * step;
        const int64_t index = std::min(static_cast<int64_t>(std::floor(place)), inputs - 1);
        return {index, index, 0.0f};
    }
    const float place = operation.align_corners
                            ? step * static_cast<float>(output)
                            : std::max(0.0f, step * (static_cast<float>(output) + 0.5f) - 0.5f);
    const int64_t first = std::min(static_cast<int64_t>(std::floor(place)), inputs - 1);
    const float part = std::min(std::max(place - static_cast<float>(first), 0.0f), 1.0f);
    return {first, std::min(first + 1, inputs - 1), part};
}

void mix_pixels(const float* const corners[4], const float weights[4], int64_t channels, float* y) {
    for (int64_t i = 0; i < channels; ++i) {
        y[i] = weights[0] * corners[0][i] + weights[1] * corners[1][i] + weights[2] * corners[2][i] +
               weights[3] * corners[3][i];
    }
}

}  // namespace

void run_upsample(const RowsOfOperation& rows) {
    const Shape &in = rows.in[0].shape, &out = rows.out.shape;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const Source vertical = find_source(rows.operation, 0, in.height, out.height, row % out.height);
        const int64_t before = row / out.height * in.height;
        const float *above = rows.in[0].row(before + vertical.first), *below = rows.in[0].row(before + vertical.second);
        float* y = rows.out.row(row);
        for (int64_t column = 0; column < out.width; ++column, y += out.channels) {
            const Source horizontal = find_source(rows.operation, 1, in.width, out.width, column);
            const int64_t left = horizontal.first * in.channels, right = horizontal.second * in.channels;
            if (!rows.operation.bilinear) {
                std::copy_n(above + left, in.channels, y);
                continue;
            }
            const float *const corners[4] = {above + left, above + right, below + left, below + right};
            const float up = 1.0f - vertical.part, first = 1.0f - horizontal.part;
            const float weights[4] = {up * first, up * horizontal.part, vertical.part * first,
                                      vertical.part * horizontal.part};
            mix_pixels(corners, weights, in.channels, y);
        }
    }
}

}  // namespace binaryrelax
