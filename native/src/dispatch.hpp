// Which instruction sets this CPU can run.
#pragma once

#include <string>
#include <vector>

#include "kernels.hpp"

namespace binaryrelax {

// Best last.
const std::vector<const Kernels*>& available_kernels();

// The kernels of that name, the best ones for an empty name; std::invalid_argument for any other.
const Kernels& choose_kernels(const std::string& name);

}  // namespace binaryrelax
