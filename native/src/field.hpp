// Pixels of an image in the form that a kernel reads, with the padding around them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "geometry.hpp"

namespace binaryrelax {

// Elements are [field row][field column][group][group_size].
template <typename Element>
struct Field {
    const Geometry& geometry;
    Image input;
    int64_t width;       // field columns
    int64_t group_size;  // elements that stand for one group of a pixel
    Element padding;

    int64_t record() const { return group_size * geometry.groups; }
    int64_t row_size() const { return width * record(); }

    // What the first tap of an output reads; `row` counts from the first output row of the field.
    int64_t pixel(int64_t row, int64_t column, int64_t group) const {
        return row * geometry.vertical.step() * row_size() + column * geometry.horizontal.step() * record() +
               group * group_size;
    }

    // Writes one row of the field that starts at output row `first_output`; convert(x, channels, out) writes
    // the elements of so many channels and of the zeros that make them a multiple of four.
    template <typename Convert>
    void fill_row(const float* image, int64_t first_output, int64_t row, Element* out, Convert convert) const {
        const int64_t y = geometry.vertical.input(first_output, row);
        if (y < 0 || y >= input.height) {
            std::fill_n(out, row_size(), padding);
            return;
        }
        const float* source = image + y * input.width * geometry.channels();
        for (int64_t column = 0; column < width;) {
            const int64_t x = geometry.horizontal.input(0, column);
            const bool inside = x >= 0 && x < input.width;
            const int64_t run = inside && is_dense() ? std::min(input.width - x, width - column) : 1;
            if (inside) {
                convert_pixels(source + x * geometry.channels(), run, out + column * record(), convert);
            } else {
                std::fill_n(out + column * record(), record(), padding);
            }
            column += run;
        }
    }

  private:
    // Whether neighbours in the field are neighbours in the image.
    bool is_dense() const { return geometry.horizontal.kernel > 1 || geometry.horizontal.stride == 1; }

    template <typename Convert>
    void convert_pixels(const float* x, int64_t pixels, Element* out, Convert convert) const {
        if (geometry.inputs_in_group % 4 == 0) {
            convert(x, pixels * geometry.channels(), out);
            return;
        }
        for (int64_t group = 0; group < pixels * geometry.groups; ++group) {
            convert(x + group * geometry.inputs_in_group, geometry.inputs_in_group, out + group * group_size);
        }
    }
};

}  // namespace binaryrelax
