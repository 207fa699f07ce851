#include <algorithm>
#include <limits>

#include "operation_kinds.hpp"

namespace binaryrelax {
namespace {

constexpr int64_t BLOCK = 64;  // channels that are pooled at a time

// The places begin, begin + step, .. below end that an output reads along one axis, all of them in the image.
// `weight` is the number of places that an average divides by.
struct Window {
    int64_t begin, end, step, weight;
};

Window pool_window(const Operation& operation, int axis, int64_t inputs, int64_t output) {
    const int64_t before = operation.padding[2 * axis], after = operation.padding[2 * axis + 1];
    const int64_t kernel = operation.kernel[axis];
    const int64_t dilation = operation.maximum ? operation.dilation[axis] : 1;
    const int64_t first = output * operation.stride[axis] - before;
    const int64_t with_padding = std::min(first + kernel, inputs + after) - first;
    const int64_t skipped = first < 0 ? (-first + dilation - 1) / dilation : 0;
    const Window window{first + skipped * dilation, std::min(first + (kernel - 1) * dilation + 1, inputs), dilation, 0};
    const int64_t inside = std::max<int64_t>(0, window.end - window.begin);
    return {window.begin, window.end, dilation, operation.count_padding ? with_padding : inside};
}

Window adaptive_window(int64_t inputs, int64_t outputs, int64_t output) {
    const int64_t begin = output * inputs / outputs, end = ((output + 1) * inputs + outputs - 1) / outputs;
    return {begin, end, 1, end - begin};
}

// Calls visit(x) with every pixel of the image in both windows.
template <typename Visit>
void for_each_pixel(const ConstMap& in, int64_t image, const Window& rows, const Window& columns, Visit visit) {
    for (int64_t row = rows.begin; row < rows.end; row += rows.step) {
        const float* x = in.row(image * in.shape.height + row);
        for (int64_t column = columns.begin; column < columns.end; column += columns.step) {
            visit(x + column * in.shape.channels);
        }
    }
}

// A NaN is larger than everything, as in torch.
void find_largest(const ConstMap& in, int64_t image, const Window& rows, const Window& columns, float* y) {
    const int64_t channels = in.shape.channels;
    std::fill_n(y, channels, -std::numeric_limits<float>::infinity());
    for_each_pixel(in, image, rows, columns, [&](const float* x) {
        for (int64_t i = 0; i < channels; ++i) y[i] = ((x[i] > y[i]) | (x[i] != x[i])) ? x[i] : y[i];
    });
}

void find_average(const ConstMap& in, int64_t image, const Window& rows, const Window& columns, float* y) {
    const int64_t weight = rows.weight * columns.weight;
    for (int64_t first = 0; first < in.shape.channels; first += BLOCK) {
        const int64_t count = std::min(BLOCK, in.shape.channels - first);
        double sums[BLOCK] = {};
        for_each_pixel(in, image, rows, columns, [&](const float* x) {
            for (int64_t i = 0; i < count; ++i) sums[i] += x[first + i];
        });
        const double divisor = static_cast<double>(std::max<int64_t>(1, weight));
        for (int64_t i = 0; i < count; ++i) y[first + i] = static_cast<float>(sums[i] / divisor);
    }
}

// window(axis, inputs, output) says what an output reads.
template <typename WindowOf>
void pool(const RowsOfOperation& rows, WindowOf window) {
    const Shape &in = rows.in[0].shape, &out = rows.out.shape;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
        const Window vertical = window(0, in.height, row % out.height);
        float* y = rows.out.row(row);
        for (int64_t column = 0; column < out.width; ++column, y += out.channels) {
            const Window horizontal = window(1, in.width, column);
            const auto find = rows.operation.maximum ? find_largest : find_average;
            find(rows.in[0], row / out.height, vertical, horizontal, y);
        }
    }
}

}  // namespace

void run_pool(const RowsOfOperation& rows) {
    pool(rows, [&](int axis, int64_t inputs, int64_t output) {
        return pool_window(rows.operation, axis, inputs, output);
    });
}

void run_adaptive_pool(const RowsOfOperation& rows) {
    pool(rows, [&](int axis, int64_t inputs, int64_t output) {
        return adaptive_window(inputs, rows.operation.size[axis], output);
    });
}

}  // namespace binaryrelax
