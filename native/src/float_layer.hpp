// Convolution and linear layers in float32, with weights that are floats, or codes that become floats chunk by chunk:
// any codebook, and any number of scales in a row. What has no kernel for codes runs here.
#pragma once

#include <cstdint>
#include <memory>

#include "float_operations.hpp"
#include "kernels.hpp"
#include "network_file.hpp"

namespace binaryrelax {

class FloatProduct;

class FloatLayer {
  public:
    // The operation is a conv or linear of the file; both must outlive the layer.
    FloatLayer(const Operation& operation, const NetworkFile& file, const Kernels& kernels);
    ~FloatLayer();
    FloatLayer(FloatLayer&&) noexcept;

    // Units of work for an output of this shape; they may run in any order on any thread.
    int64_t units(const Shape& out) const;
    // Computes unit `unit`: y = activation(factor * (weight . x) + bias + added); `added` is a map like y, or null.
    void run(const ConstMap& x, const Map& y, const float* added, int64_t unit) const;
    // Instead of the operation's; it must outlive the layer.
    void set_activation(const Activation& activation);
    int64_t room(const Shape& out) const;  // bytes of a thread's own memory that a unit needs
    int64_t bytes() const;  // of memory for the weights
    const FloatProduct& product() const { return *product_; }

  private:
    std::unique_ptr<FloatProduct> product_;
};

}  // namespace binaryrelax
