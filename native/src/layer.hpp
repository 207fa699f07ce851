// What every product of a packed layer needs. A matrix is a convolution with one tap whose image has a pixel
// for each row of activations.
#pragma once

#include <cstdint>
#include <vector>

#include "geometry.hpp"
#include "tiles.hpp"

namespace binaryrelax {

struct Layer {
    Geometry geometry;
    int bits;
    std::vector<float> scale;   // [output]
    std::vector<Tiles> groups;  // weights of each group, places in the order (tap, padded channel)
    const Kernels* kernels;

    // For each step (a nibble or a quad) along a row of weights: elements from the pixel of the first tap to
    // what the step reads, in a field with rows of `field_width` records.
    std::vector<int64_t> step_offsets(int64_t field_width, int64_t record, int64_t steps_per_tap,
                                      int64_t step_size) const;
    int64_t bytes() const;
};

std::vector<Tiles> tile_groups(const CanonicalCodes& codes, const Geometry& geometry);

struct Call {
    const float* x;
    int64_t images;
    Image input, output;
    const float* bias;    // or null
    bool scale_per_row;   // fast mode: a scale for each row of the image instead of one for all
    int threads;
    float* y;

    const float* image(const Geometry& geometry, int64_t index) const {
        return x + index * input.height * input.width * geometry.channels();
    }
};

// A layer's work in units: a panel of outputs for a band of output rows of an image.
struct Units {
    int64_t images, bands, band_rows, panels, groups;

    // Bands of at most `most_rows` rows, and so many of them that all threads have work.
    Units(const Layer& layer, const Call& call, int64_t most_rows);
    int64_t count() const { return images * bands * panels * groups; }
};

// How the totals of pixels become outputs; `first_pixel` counts over all images.
FinishJob finish_job(const Layer& layer, const Call& call, int64_t group, int64_t panel, int64_t first_pixel,
                     int num_pixels);

void convolve_exact(const Layer& layer, const Call& call);
void convolve_fast(const Layer& layer, const Call& call);

}  // namespace binaryrelax
