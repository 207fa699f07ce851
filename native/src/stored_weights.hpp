// The weights of a file: checked against their digests, with codes and scales that are sound.
#pragma once

#include <map>
#include <string>

#include "manifest.hpp"
#include "network_file.hpp"
#include "safetensors.hpp"

namespace binaryrelax {

// Tensors that names share are held once, under the first of the names.
struct StoredWeights {
    std::map<std::string, PackedTensor> packed;
    std::map<std::string, std::string> packed_names;  // of every layer -> key of `packed`
    std::map<std::string, FloatTensor> floats;
    std::map<std::string, std::string> float_names;   // of every float32 tensor -> key of `floats`
};

// Throws std::invalid_argument. Takes memory in proportion to the file, however often layers share tensors.
StoredWeights read_weights(const Safetensors& file, const Manifest& manifest, size_t file_size);

}  // namespace binaryrelax
