// Reads files of networks under the sanitizers, runs those that are sound, and says what came of each in one line.
//
//     fuzz_network_files FILE...
//     fuzz_network_files          # files on standard input, each after its length (4 bytes, lowest first)
//
// A line is "refused: WHY", or "ok DIGEST: ..." with a digest over all that was read, so that a change is seen.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "dispatch.hpp"
#include "network.hpp"
#include "network_file.hpp"
#include "sha256.hpp"

namespace {

using namespace binaryrelax;

// Everything that a network's meaning depends on, in one order and without ambiguity.
class Fingerprint {
  public:
    std::string of(const NetworkFile& file) {
        put(file.fast, file.is_tuple, file.inputs, file.outputs);
        put(file.operations.size(), file.values.size(), file.packed.size(), file.floats.size(), file.about.size());
        for (const Operation& operation : file.operations) take(operation);
        for (const ValueInfo& value : file.values) take(value);
        for (const auto& [name, tensor] : file.packed) {
            put(name, tensor.shape, tensor.codebook, tensor.bits, tensor.codes, tensor.scales, tensor.scales_per_row);
        }
        for (const auto& [name, tensor] : file.floats) put(name, tensor.shape, tensor.values);
        for (const auto& [name, text] : file.about) put(name, text);
        return sha_.finish();
    }

  private:
    template <typename... Values>
    void put(const Values&... values) {
        (take(values), ...);
    }
    template <typename Number>
    std::enable_if_t<std::is_arithmetic_v<Number> || std::is_enum_v<Number>> take(Number number) {
        sha_.update(&number, sizeof number);
    }
    void take(const std::string& text) {
        take(text.size());
        sha_.update(text);
    }
    void take(const std::optional<std::string>& text) { put(text.has_value(), text.value_or("")); }
    template <typename Item>
    void take(const std::vector<Item>& items) {
        take(items.size());
        for (const Item& item : items) take(item);
    }
    void take(const ValueInfo& value) {
        const Range range = value.range.value_or(Range{0.0f, 0.0f});
        put(value.is_map, value.channels, value.range.has_value(), range.low, range.high);
    }
    void take(const Operation& o) {
        put(o.kind, o.name, o.in, o.activation.kind, o.activation.low, o.activation.high, o.weight, o.packed);
        put(o.factor, o.bias, o.scale, o.shift, o.groups, o.maximum, o.ceil, o.count_padding, o.has_size, o.bilinear);
        for (int i = 0; i < 2; ++i) put(o.kernel[i], o.stride[i], o.dilation[i], o.size[i], o.factors[i]);
        for (const int64_t padding : o.padding) take(padding);
        put(o.align_corners, o.value, o.axis, o.start, o.stop, o.step, o.log);
    }

    Sha256 sha_;
};

constexpr int THREADS = 2;
constexpr int64_t MOST_BYTES = 64 << 20;  // that a call may take
constexpr double MOST_WORK = 1e7;         // multiplications, about a second under the sanitizers for all calls

// Inputs of the example's shape, or `images` of them that are larger by `more`.
std::vector<Shape> input_shapes(const NetworkFile& file, int64_t images, int64_t more) {
    std::vector<Shape> shapes;
    for (const std::vector<int64_t>& shape : file.inputs) {
        const bool is_map = shape.size() == 3;
        shapes.push_back(is_map ? Shape{images, shape[1] + more, shape[2] + 2 * more, shape[0], true}
                                : Shape{images, 1, 1, shape[0], false});
    }
    return shapes;
}

// About how many values all operations look at. A small file may ask for any number.
double work_of(const NetworkFile& file, const std::vector<Shape>& inputs) {
    const std::vector<Shape> shapes = infer_shapes(file, inputs, MOST_BYTES / 4);
    double work = 0.0;
    for (size_t i = 0; i < file.operations.size(); ++i) {
        const Operation& operation = file.operations[i];
        const Shape &in = shapes[static_cast<size_t>(operation.in[0])], &out = shapes[inputs.size() + i];
        double each = 4.0;
        if (operation.kind == OperationKind::Conv || operation.kind == OperationKind::Linear) {
            const std::vector<int64_t>& weight =
                operation.packed ? file.packed.at(operation.weight).shape : file.floats.at(operation.weight).shape;
            for (size_t axis = 1; axis < weight.size(); ++axis) each *= static_cast<double>(weight[axis]);
        } else if (operation.kind == OperationKind::Pool) {
            each *= static_cast<double>(std::min(operation.kernel[0], in.height));
            each *= static_cast<double>(std::min(operation.kernel[1], in.width));
        }
        work += each * static_cast<double>(out.count()) + static_cast<double>(in.count());
    }
    return work;
}

std::vector<float> noise(int64_t count, bool with_special) {
    std::vector<float> values(static_cast<size_t>(count));
    uint32_t state = 1;
    for (float& value : values) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<float>(state >> 8) / (1 << 22) - 2.0f;
        if (with_special && state >> 28 == 0) value = state >> 27 & 1 ? INFINITY : NAN;
    }
    return values;
}

// The outputs, one after the other, in memory of exactly their sizes.
std::vector<std::vector<float>> call(Network& network, const std::vector<Shape>& shapes, bool with_special) {
    std::vector<std::vector<float>> inputs, outputs;
    for (const Shape& shape : shapes) inputs.push_back(noise(shape.count(), with_special));
    for (const Shape& shape : network.output_shapes(shapes)) outputs.emplace_back(shape.count(), 7.0f);
    std::vector<const float*> from;
    std::vector<float*> to;
    for (const std::vector<float>& input : inputs) from.push_back(input.data());
    for (std::vector<float>& output : outputs) to.push_back(output.data());
    network.run(shapes, from.data(), to.data());
    return outputs;
}

bool are_same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
        return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
    });
}

// What NaN looks like differs from one instruction set to the next.
std::vector<std::vector<float>> with_one_nan(std::vector<std::vector<float>> values) {
    for (std::vector<float>& output : values) {
        for (float& value : output) {
            if (std::isnan(value)) value = std::numeric_limits<float>::quiet_NaN();
        }
    }
    return values;
}

// The outputs for the example's size, or what is wrong. Memory that nobody has written would make two calls differ.
std::vector<std::vector<float>> outputs_of(Network& network, bool with_others, std::string& problem, bool& ran_others) {
    const std::vector<Shape> one = input_shapes(network.file(), 1, 0), others = input_shapes(network.file(), 2, 3);
    const auto first = call(network, one, false);
    call(network, one, true);
    try {
        if (with_others && work_of(network.file(), others) <= MOST_WORK) call(network, others, false);
    } catch (const std::invalid_argument&) {
        ran_others = false;
    }
    if (!are_same_bits(first, call(network, one, false))) problem = "two calls differ";
    return with_one_nan(first);
}

// What running the network with every instruction set came to.
std::string run(const NetworkFile& file) {
    try {
        if (work_of(file, input_shapes(file, 1, 0)) > MOST_WORK) return "not run: too much work";
        std::string problem;
        bool ran_others = true;
        std::vector<std::vector<float>> reference;
        for (const Kernels* kernels : available_kernels()) {
            for (const int threads : {1, THREADS}) {
                Network network(file, *kernels, threads, MOST_BYTES);
                const auto found = outputs_of(network, threads == 1, problem, ran_others);
                const bool is_first = reference.empty() || (!file.fast && threads == 1);
                if (!is_first && !are_same_bits(reference, found)) problem = "other bits";
                if (is_first) reference = found;
                if (!problem.empty()) {
                    return "wrong: " + problem + " with " + kernels->name + " and threads: " + std::to_string(threads);
                }
            }
        }
        return ran_others ? "ran" : "ran one size";
    } catch (const std::invalid_argument& error) {
        return std::string("not run: ") + error.what();
    }
}

std::string verdict(const uint8_t* data, size_t size) {
    try {
        const NetworkFile file = read_network_file(data, size);
        return "ok " + Fingerprint().of(file) + ": " + run(file);
    } catch (const std::invalid_argument& error) {
        return std::string("refused: ") + error.what();
    }
}

// In memory of exactly its size, so that a read beyond it is seen.
bool judge(std::FILE* from, size_t size) {
    const std::unique_ptr<uint8_t[]> data(new uint8_t[size]);
    if (std::fread(data.get(), 1, size, from) != size) return false;
    std::printf("%s\n", verdict(data.get(), size).c_str());
    std::fflush(stdout);
    return true;
}

bool judge_file(const char* path) {
    std::FILE* file = std::fopen(path, "rb");
    if (!file) return false;
    std::fseek(file, 0, SEEK_END);
    const long size = std::ftell(file);
    std::rewind(file);
    const bool read = size >= 0 && judge(file, static_cast<size_t>(size));
    std::fclose(file);
    return read;
}

bool judge_stream() {
    uint8_t length[4];
    while (std::fread(length, 1, 4, stdin) == 4) {
        const uint32_t size = length[0] | length[1] << 8 | length[2] << 16 | uint32_t{length[3]} << 24;
        if (!judge(stdin, size)) return false;
    }
    return true;
}

}  // namespace

int main(int count, char** arguments) {
    if (count == 1) return judge_stream() ? 0 : 1;
    for (int i = 1; i < count; ++i) {
        if (judge_file(arguments[i])) continue;
        std::fprintf(stderr, "%s: cannot be read\n", arguments[i]);
        return 1;
    }
    return 0;
}
