// The program of a file, from JSON to operations that fit each other and the weights.
#pragma once

#include <map>
#include <string>

#include "json.hpp"
#include "network_file.hpp"
#include "stored_weights.hpp"

namespace binaryrelax {

// Fills everything of the file but weights and `about`. Weights are called as `StoredWeights` holds them. Throws
// std::invalid_argument that names the operation.
void read_program(const Json& json, const StoredWeights& weights, NetworkFile& file);

// One operation, with members of the right types and within bounds; whether it fits its inputs is seen later.
// It has the number `index`, and may read values below `num_values`.
Operation read_operation(const Json& json, size_t index, int num_values);

// What is known of the operation's value, given what is known of the others. Throws std::invalid_argument if
// the operation cannot take its inputs, or has weights of wrong shapes.
struct KnownValue {
    bool is_map = false;
    int64_t channels = 0;  // -1: depends on the image
    int64_t pixels = -1;   // -1: depends on the image
};
KnownValue known_output(const Operation& operation, const std::vector<KnownValue>& in, const StoredWeights& weights);

// "operation 3 (conv 'layer1.conv2')", as far as it says so.
std::string title_of_operation(const Json& json, size_t index);

}  // namespace binaryrelax
