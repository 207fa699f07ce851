// Cuts a network into steps for inputs of some shapes.
#pragma once

#include <memory>
#include <vector>

#include "network_layers.hpp"
#include "plan.hpp"

namespace binaryrelax {

// Throws std::invalid_argument where the shapes do not fit the network, or need more than `most_bytes`.
std::shared_ptr<const Plan> build_plan(const NetworkLayers& layers, const std::vector<Shape>& inputs, int threads,
                                       int64_t most_bytes);

}  // namespace binaryrelax
