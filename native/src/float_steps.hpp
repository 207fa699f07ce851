// The steps of a plan that read and write floats: the caller's images, and operations in float32.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "byte_steps.hpp"
#include "network_layers.hpp"
#include "plan.hpp"

namespace binaryrelax {

// From NCHW, as the caller gave it, to NHWC.
Step load_step(const std::string& name, const FloatMap& from, const FloatMap& to);
// From NHWC to NCHW. Images that are marked in `poison` (a buffer, or -1) become NaN.
Step store_step(const std::string& name, const FloatMap& from, int output, int poison);
Step clear_step(int buffer, int64_t bytes);

Step float_operation_step(const std::string& name, const Operation& operation, const NetworkFile& file,
                          const std::vector<FloatMap>& from, const FloatMap& to, int threads);
// Layers; what they add before the activation, if anything, is `added`.
Step float_layer_step(const std::string& name, const FloatLayer& layer, const FloatMap& from,
                      const std::optional<FloatMap>& added, const FloatMap& to);
// Whether one step can do both layers, the second of which reads nothing else than what the first gives; and that step.
bool can_expand(const FloatLayer& layer, const FloatLayer& filter, const Shape& between);
Step expanded_filter_step(const std::string& name, const FloatLayer& layer, const FloatLayer& filter,
                          const FloatMap& from, const Shape& between, const FloatMap& to);
Step exact_layer_step(const std::string& name, const OperationLayer& layer, const FloatMap& from,
                      const std::optional<FloatMap>& added, const FloatMap& to, int threads);

}  // namespace binaryrelax
