// The class of the Python module that runs whole networks.
#pragma once

#include <nanobind/nanobind.h>

namespace binaryrelax {

void bind_network(nanobind::module_& module);

}  // namespace binaryrelax
