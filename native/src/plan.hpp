// A network cut into steps for one size of input: what to compute in which memory, and in units that threads share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "float_operations.hpp"

namespace binaryrelax {

// One call of a network: its memory and what the caller gave.
class Bound {
  public:
    Bound(uint8_t* arena, const std::vector<int64_t>& offsets, const float* const* inputs, float* const* outputs)
        : arena_(arena), offsets_(offsets.data()), inputs_(inputs), outputs_(outputs) {}

    template <typename T>
    T* at(int buffer) const {
        return reinterpret_cast<T*>(arena_ + offsets_[buffer]);
    }
    const float* input(int index) const { return inputs_[index]; }
    float* output(int index) const { return outputs_[index]; }

  private:
    uint8_t* arena_;
    const int64_t* offsets_;
    const float* const* inputs_;
    float* const* outputs_;
};

struct Step {
    std::string name;        // for people: of the operation, and what of it
    int64_t units;           // in any order, on any thread
    std::vector<int> reads;  // buffers; -1 for what the caller has given
    int writes;              // buffer; -1 for what the caller wants
    std::function<void(const Bound&, int64_t unit)> run;
    int64_t room = 0;        // bytes of a thread's own memory that a unit needs, where images decide how many
};

// Steps run one after the other; each may read what earlier ones wrote.
class Plan {
  public:
    // A buffer lives from the step that writes it to the last that reads it.
    int new_buffer(int64_t bytes) {
        sizes_.push_back(bytes);
        return static_cast<int>(sizes_.size()) - 1;
    }
    void enlarge(int buffer, int64_t bytes) { sizes_[buffer] += bytes; }
    void add(Step step) { steps_.push_back(std::move(step)); }
    // Gives every buffer its place, so that those that live at the same time do not overlap. Throws
    // std::invalid_argument where all together take more than `most_bytes`.
    void place_buffers(int64_t most_bytes);

    const std::vector<Step>& steps() const { return steps_; }
    const std::vector<int64_t>& offsets() const { return offsets_; }
    int64_t arena_bytes() const { return arena_bytes_; }
    // What a call takes in all: activations, outputs, and each thread's own memory.
    double bytes_of_call(int threads) const;

    std::vector<Shape> outputs;

  private:
    std::vector<Step> steps_;
    std::vector<int64_t> sizes_, offsets_;
    int64_t arena_bytes_ = 0;
};

}  // namespace binaryrelax
