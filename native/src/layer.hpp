// What every product of a packed layer needs. A matrix is a convolution with one tap whose image has a pixel
// for each row of activations.
#pragma once

#include <cstdint>
#include <vector>

#include "field.hpp"
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

// Exact mode in units that threads share: some rows of the output, for some of its panels.
class ExactConvolution {
  public:
    ExactConvolution(const Layer& layer, Image input, Image output, int64_t images, int threads);

    int64_t units() const { return images_ * bands_ * parts_; }
    int64_t room() const;  // bytes of a thread's own memory
    void run(const Call& call, int64_t unit) const;
    // Calls visit(y, outputs) for the outputs of every pixel that the unit has written.
    template <typename Visit>
    void for_each_written(const Call& call, int64_t unit, Visit visit) const {
        const int64_t band = unit / parts_, part = unit % parts_, in_group = layer_.groups[0].num_panels();
        const int64_t first = (band / bands_ * call.output.height + first_row(band)) * call.output.width;
        const int64_t pixels = num_rows(call, band) * call.output.width;
        for (int64_t panel = part * panels_ / parts_; panel < (part + 1) * panels_ / parts_; ++panel) {
            const Tiles& tiles = layer_.groups[panel / in_group];
            const int64_t output = panel / in_group * tiles.outputs() + panel % in_group * PANEL;
            for (int64_t pixel = first; pixel < first + pixels; ++pixel) {
                visit(call.y + pixel * layer_.geometry.outputs + output, tiles.panel_outputs(panel % in_group));
            }
        }
    }

  private:
    void build(const Call& call, int64_t band, float* tables) const;
    void look_up(const Call& call, int64_t band, int64_t panel, const float* tables) const;
    int64_t first_row(int64_t band) const { return band % bands_ * band_rows_; }
    int64_t num_rows(const Call& call, int64_t band) const;

    const Layer& layer_;
    Field<float> field_;
    std::vector<int64_t> offsets_;
    int64_t images_, bands_, band_rows_, panels_, parts_;
};

void convolve_exact(const Layer& layer, const Call& call);
void convolve_fast(const Layer& layer, const Call& call);

}  // namespace binaryrelax
