#include "packed_filters.hpp"

#include <stdexcept>
#include <utility>

namespace binaryrelax {
namespace {

// Wide padding and dilation can ask for far more memory than the arrays themselves; sizes beyond this would also
// overflow. Counted in floats, for tables of 16.
void require_reasonable_field(const Geometry& geometry, Image output) {
    const double rows = static_cast<double>(geometry.vertical.field(output.height));
    const double columns = static_cast<double>(geometry.horizontal.field(output.width));
    const double channels = static_cast<double>(geometry.padded_inputs_in_group() * geometry.groups);
    if (rows * columns * channels * TABLE > 1e14) {
        throw std::invalid_argument("x: with its padding and dilation the image has too many values");
    }
}

}  // namespace

PackedFilters::PackedFilters(const CanonicalCodes& codes, std::vector<float> scale, const Geometry& geometry,
                             const Kernels& kernels)
    : layer_{geometry, codes.bits, std::move(scale), {}, &kernels},
      is_depthwise_(geometry.inputs_in_group == 1 && geometry.groups > 1) {
    if (is_depthwise_) {
        depthwise_ = DepthwiseCodes(codes, geometry);
    } else {
        layer_.groups = tile_groups(codes, geometry);
    }
}

Image PackedFilters::output_size(Image input) const {
    const Geometry& geometry = layer_.geometry;
    return {geometry.vertical.outputs(input.height), geometry.horizontal.outputs(input.width)};
}

void PackedFilters::convolve(const float* x, int64_t images, Image size, const float* bias, bool fast,
                             int threads, float* y) const {
    const Call call{x, images, size, output_size(size), bias, false, threads, y};
    if (images == 0 || call.output.height <= 0 || call.output.width <= 0) return;
    require_reasonable_field(layer_.geometry, call.output);
    if (is_depthwise_) {
        fast ? depthwise_.convolve_fast(layer_, call) : depthwise_.convolve_exact(layer_, call);
    } else {
        fast ? convolve_fast(layer_, call) : convolve_exact(layer_, call);
    }
}

}  // namespace binaryrelax
