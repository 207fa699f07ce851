#include <algorithm>
#include <cmath>

#include "operation_kinds.hpp"

// An output may lie exactly on an input; no loop below minds.
#if defined(__clang__)
#define NO_OVERLAP _Pragma("clang loop vectorize(assume_safety)")
#else
#define NO_OVERLAP _Pragma("GCC ivdep")
#endif

namespace binaryrelax {
namespace {

void finish(const RowsOfOperation& rows) {
    apply_activation(rows.operation.activation, rows.out.row(rows.begin), rows.count());
}

template <typename Function>
void combine(const float* a, const float* b, int64_t count, float* y, Function function) {
    NO_OVERLAP for (int64_t i = 0; i < count; ++i) y[i] = function(a[i], b[i]);
}

// Every pixel of an image times the image's one pixel of factors.
void multiply_by_pixel(const RowsOfOperation& rows) {
    const Shape& shape = rows.out.shape;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const float *x = rows.in[0].row(row), *factors = rows.in[1].row(row / shape.height);
        float* y = rows.out.row(row);
        for (int64_t column = 0; column < shape.width; ++column, x += shape.channels, y += shape.channels) {
            combine(x, factors, shape.channels, y, [](float a, float b) { return a * b; });
        }
    }
}

// x and y may be the same.
void softmax(const float* x, int64_t count, bool log, float* y) {
    float largest = x[0];
    for (int64_t i = 1; i < count; ++i) largest = x[i] > largest || std::isnan(x[i]) ? x[i] : largest;
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) sum += std::exp(x[i] - largest);
    if (log) {
        const float shift = static_cast<float>(std::log(sum));
        for (int64_t i = 0; i < count; ++i) y[i] = x[i] - largest - shift;
    } else {
        const float inverse = static_cast<float>(1.0 / sum);
        for (int64_t i = 0; i < count; ++i) y[i] = std::exp(x[i] - largest) * inverse;
    }
}

}  // namespace

void run_activate(const RowsOfOperation& rows) {
    const float* x = rows.in[0].row(rows.begin);
    float* y = rows.out.row(rows.begin);
    if (x != y) std::copy_n(x, rows.count(), y);
    finish(rows);
}

void run_add(const RowsOfOperation& rows) {
    combine(rows.in[0].row(rows.begin), rows.in[1].row(rows.begin), rows.count(), rows.out.row(rows.begin),
            [](float a, float b) { return a + b; });
    finish(rows);
}

void run_multiply(const RowsOfOperation& rows) {
    const Shape &second = rows.in[1].shape, &out = rows.out.shape;
    if (second.height != out.height || second.width != out.width) {
        multiply_by_pixel(rows);
    } else {
        combine(rows.in[0].row(rows.begin), rows.in[1].row(rows.begin), rows.count(), rows.out.row(rows.begin),
                [](float a, float b) { return a * b; });
    }
    finish(rows);
}

void run_affine(const RowsOfOperation& rows) {
    const float* scale = rows.file.floats.at(rows.operation.scale).values.data();
    const float* shift = rows.file.floats.at(rows.operation.shift).values.data();
    const int64_t channels = rows.out.shape.channels;
    const float* x = rows.in[0].row(rows.begin);
    float *y = rows.out.row(rows.begin), *const end = y + rows.count();
    for (; y < end; x += channels, y += channels) {
        NO_OVERLAP for (int64_t i = 0; i < channels; ++i) y[i] = scale[i] * x[i] + shift[i];
    }
    finish(rows);
}

void run_softmax(const RowsOfOperation& rows) {
    const int64_t channels = rows.out.shape.channels;
    const float* x = rows.in[0].row(rows.begin);
    float *y = rows.out.row(rows.begin), *const end = y + rows.count();
    for (; y < end; x += channels, y += channels) softmax(x, channels, rows.operation.log, y);
}

}  // namespace binaryrelax
