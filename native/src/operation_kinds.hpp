// A function for each kind of operation on floats; `run_float_operation` chooses among them. Each file has a family.
#pragma once

#include "float_operations.hpp"

namespace binaryrelax {

// Rows `begin` to `end` of an operation's output.
struct RowsOfOperation {
    const Operation& operation;
    const std::vector<ConstMap>& in;
    const Map& out;
    const NetworkFile& file;
    int64_t begin, end;

    int64_t row_size() const { return out.shape.width * out.shape.channels; }
    int64_t count() const { return (end - begin) * row_size(); }
};

// elementwise.cpp: these may write their output over an input.
void run_activate(const RowsOfOperation& rows);
void run_add(const RowsOfOperation& rows);
void run_multiply(const RowsOfOperation& rows);
void run_affine(const RowsOfOperation& rows);
void run_softmax(const RowsOfOperation& rows);

// pooling.cpp
void run_pool(const RowsOfOperation& rows);
void run_adaptive_pool(const RowsOfOperation& rows);

// resampling.cpp
void run_upsample(const RowsOfOperation& rows);

// rearranging.cpp
void run_pad(const RowsOfOperation& rows);
void run_slice(const RowsOfOperation& rows);
void run_flatten(const RowsOfOperation& rows);
void run_concat(const RowsOfOperation& rows);

}  // namespace binaryrelax
