#include "float_layer.hpp"

#include "float_product.hpp"

namespace binaryrelax {

FloatLayer::FloatLayer(const Operation& operation, const NetworkFile& file, const Kernels& kernels) {
    const WeightSource source(operation, file);
    const bool is_depthwise = operation.groups > 1 && source.shape()[1] == 1;
    product_ = is_depthwise ? make_depthwise_floats(operation, file, *kernels.floats)
                            : make_dense_floats(operation, file, *kernels.floats);
}

FloatLayer::~FloatLayer() = default;
FloatLayer::FloatLayer(FloatLayer&&) noexcept = default;

int64_t FloatLayer::units(const Shape& out) const { return product_->units(out); }

int64_t FloatLayer::room(const Shape& out) const { return product_->room(out); }

void FloatLayer::run(const ConstMap& x, const Map& y, const float* added, int64_t unit) const {
    product_->run(x, y, added, unit);
}

void FloatLayer::set_activation(const Activation& activation) { product_->set_activation(activation); }

int64_t FloatLayer::bytes() const { return product_->bytes(); }

}  // namespace binaryrelax
