// What a file says about itself: JSON, with a digest over all of it. Python's reader is packed/manifest.py.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "json.hpp"

namespace binaryrelax {

constexpr int64_t MOST_SIZE = (int64_t{1} << 23) - 1;      // of an axis: 255 times this is what sums of 32 bits hold
constexpr int64_t MOST_WEIGHTS = int64_t{1} << 31;         // of a layer
constexpr int64_t MOST_CHANNELS = (int64_t{1} << 31) - 1;  // of a value

// A packed layer; its tensors are NAME.codes and NAME.scale.
struct LayerEntry {
    std::vector<int64_t> shape;   // of four sizes: conv2d; of two: linear
    std::vector<float> codebook;  // 2 to 256 levels, increasing
    int bits = 1;
    bool is_trits = false;        // five codes to a byte
    int64_t num_scales = 1;       // 1, or a divisor of the number of weights that rows are a multiple of
    std::string digest;           // of codes and scales

    int64_t outputs() const { return shape[0]; }
    int64_t row_length() const;
    int64_t stored_row_bytes() const;
};

struct Manifest {
    std::map<std::string, LayerEntry> layers;
    std::map<std::string, std::string> tensors;  // digests of the others
    std::map<std::string, std::string> tied;     // name of a tensor that is not stored -> of the one that it equals
    std::map<std::string, std::string> about;
    Json program;                                // not looked at yet
};

// Throws std::invalid_argument.
Manifest read_manifest(const std::string& text);

}  // namespace binaryrelax
