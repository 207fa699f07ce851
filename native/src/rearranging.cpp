// Operations that only move values.
#include <algorithm>

#include "operation_kinds.hpp"

namespace binaryrelax {

void run_pad(const RowsOfOperation& rows) {
    const Shape &in = rows.in[0].shape, &out = rows.out.shape;
    const int64_t* padding = rows.operation.padding;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        float* y = rows.out.row(row);
        std::fill_n(y, rows.row_size(), rows.operation.value);
        const int64_t source = row % out.height - padding[0];
        if (source < 0 || source >= in.height) continue;
        const float* x = rows.in[0].row(row / out.height * in.height + source);
        y += padding[2] * out.channels + padding[4];
        for (int64_t column = 0; column < in.width; ++column) {
            std::copy_n(x + column * in.channels, in.channels, y + column * out.channels);
        }
    }
}

void run_slice(const RowsOfOperation& rows) {
    const Shape &in = rows.in[0].shape, &out = rows.out.shape;
    int64_t starts[4] = {0, 0, 0, 0}, steps[4] = {1, 1, 1, 1};
    starts[rows.operation.axis] = rows.operation.start;
    steps[rows.operation.axis] = rows.operation.step;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const int64_t source = row / out.height * in.height + starts[2] + row % out.height * steps[2];
        const float* x = rows.in[0].row(source) + starts[1];
        float* y = rows.out.row(row);
        for (int64_t column = 0; column < out.width; ++column) {
            const float* pixel = x + (starts[3] + column * steps[3]) * in.channels;
            for (int64_t channel = 0; channel < out.channels; ++channel) *y++ = pixel[channel * steps[1]];
        }
    }
}

void run_flatten(const RowsOfOperation& rows) {
    const Shape& in = rows.in[0].shape;
    const int64_t pixels = in.height * in.width;
    for (int64_t image = rows.begin; image < rows.end; ++image) {
        const float* x = rows.in[0].row(image * in.height);
        float* y = rows.out.row(image);
        for (int64_t pixel = 0; pixel < pixels; ++pixel) {
            for (int64_t channel = 0; channel < in.channels; ++channel) y[channel * pixels + pixel] = *x++;
        }
    }
}

void run_concat(const RowsOfOperation& rows) {
    const Shape& out = rows.out.shape;
    const int64_t pixels = (rows.end - rows.begin) * out.width;
    float* first = rows.out.row(rows.begin);
    for (const ConstMap& in : rows.in) {
        const float* x = in.row(rows.begin);
        const int64_t channels = in.shape.channels;
        for (int64_t pixel = 0; pixel < pixels; ++pixel) {
            std::copy_n(x + pixel * channels, channels, first + pixel * out.channels);
        }
        first += channels;
    }
}

}  // namespace binaryrelax
