// Convolutions in which every output reads a single channel.
//
// Nothing is shared between outputs there, so that tables and panels would be mostly padding. These run over
// the outputs side by side instead, with a sign or a zero for each tap.
#pragma once

#include <cstdint>
#include <vector>

#include "layer.hpp"

namespace binaryrelax {

class DepthwiseCodes {
  public:
    DepthwiseCodes() = default;
    DepthwiseCodes(const CanonicalCodes& codes, const Geometry& geometry);

    void convolve_exact(const Layer& layer, const Call& call) const;
    void convolve_fast(const Layer& layer, const Call& call) const;
    int64_t bytes() const { return static_cast<int64_t>(weights_.size()); }

  private:
    template <typename Element>
    const Element* spread(const Geometry& geometry, const Element* x, std::vector<Element>& room) const;

    std::vector<int8_t> weights_;  // [tap][output], values -1, 0, 1
};

}  // namespace binaryrelax
