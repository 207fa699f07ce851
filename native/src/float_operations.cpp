#include "float_operations.hpp"

#include "operation_kinds.hpp"

namespace binaryrelax {

void run_float_operation(const Operation& operation, const std::vector<ConstMap>& in, const Map& out,
                         const NetworkFile& file, int64_t begin, int64_t end) {
    const RowsOfOperation rows{operation, in, out, file, begin, end};
    switch (operation.kind) {
        case OperationKind::Conv:
        case OperationKind::Linear: return;  // float_layer.cpp
        case OperationKind::Activate: return run_activate(rows);
        case OperationKind::Add: return run_add(rows);
        case OperationKind::Multiply: return run_multiply(rows);
        case OperationKind::Affine: return run_affine(rows);
        case OperationKind::Pool: return run_pool(rows);
        case OperationKind::AdaptivePool: return run_adaptive_pool(rows);
        case OperationKind::Pad: return run_pad(rows);
        case OperationKind::Slice: return run_slice(rows);
        case OperationKind::Flatten: return run_flatten(rows);
        case OperationKind::Concat: return run_concat(rows);
        case OperationKind::Upsample: return run_upsample(rows);
        case OperationKind::Softmax: return run_softmax(rows);
    }
}

}  // namespace binaryrelax
