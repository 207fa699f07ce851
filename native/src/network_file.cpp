#include "network_file.hpp"

#include <set>
#include <stdexcept>
#include <utility>

#include "json.hpp"
#include "manifest.hpp"
#include "program.hpp"
#include "safetensors.hpp"
#include "stored_weights.hpp"

namespace binaryrelax {
namespace {

constexpr const char* METADATA_KEY = "binaryrelax";

void keep_used(StoredWeights&& weights, NetworkFile& file) {
    for (const Operation& operation : file.operations) {
        if (operation.packed) file.packed[operation.weight];
        std::set<std::string> floats;
        if (!operation.packed) floats.insert(operation.weight);
        floats.insert({operation.scale, operation.shift, operation.factor.value_or(""), operation.bias.value_or("")});
        for (const std::string& name : floats) {
            if (weights.floats.count(name)) file.floats[name];
        }
    }
    for (auto& [name, tensor] : file.packed) tensor = std::move(weights.packed.at(name));
    for (auto& [name, tensor] : file.floats) tensor = std::move(weights.floats.at(name));
}

}  // namespace

NetworkFile read_network_file(const uint8_t* data, size_t size) {
    const Safetensors container = read_safetensors(data, size);
    const auto text = container.metadata.find(METADATA_KEY);
    if (text == container.metadata.end()) {
        throw std::invalid_argument("is no packed network: it has no manifest; make one with export_native");
    }
    const Manifest manifest = read_manifest(text->second);
    for (const auto& [name, tensor] : container.tensors) {
        if (tensor.type == StoredTensor::Type::Other) {
            throw std::invalid_argument("tensor " + quoted(name) + " is neither U8 nor F32");
        }
    }
    StoredWeights weights = read_weights(container, manifest, size);
    NetworkFile file;
    read_program(manifest.program, weights, file);
    keep_used(std::move(weights), file);
    file.about = manifest.about;
    return file;
}

}  // namespace binaryrelax
