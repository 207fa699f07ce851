// Runs a network file on float32 numbers: all of its inputs for some number of images, one input after the other.
//
//     run_network FILE [INSTRUCTION_SET] <inputs >outputs
//     run_network            # prints the instruction sets of this CPU
#include <cstdio>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "dispatch.hpp"
#include "network.hpp"
#include "network_file.hpp"

namespace {

using namespace binaryrelax;

constexpr int THREADS = 2;
constexpr int64_t MOST_BYTES = int64_t{1} << 32;

template <typename Value>
std::vector<Value> read_all(std::FILE* file) {
    std::vector<Value> values;
    Value buffer[4096];
    for (size_t count; (count = std::fread(buffer, sizeof(Value), std::size(buffer), file)) > 0;) {
        values.insert(values.end(), buffer, buffer + count);
    }
    return values;
}

std::vector<uint8_t> content_of(const char* path) {
    std::FILE* file = std::fopen(path, "rb");
    if (!file) throw std::invalid_argument("cannot be read");
    std::vector<uint8_t> content = read_all<uint8_t>(file);
    std::fclose(file);
    return content;
}

std::vector<Shape> input_shapes(const NetworkFile& file, int64_t numbers) {
    std::vector<Shape> shapes;
    int64_t of_an_image = 0;
    for (const std::vector<int64_t>& sizes : file.inputs) {
        const bool is_map = sizes.size() == 3;
        shapes.push_back(is_map ? Shape{1, sizes[1], sizes[2], sizes[0], true} : Shape{1, 1, 1, sizes[0], false});
        of_an_image += shapes.back().count();
    }
    if (numbers == 0 || numbers % of_an_image != 0) throw std::invalid_argument("the inputs are no whole images");
    for (Shape& shape : shapes) shape.images = numbers / of_an_image;
    return shapes;
}

void run(const char* path, const std::string& instruction_set) {
    const std::vector<uint8_t> content = content_of(path);
    Network network(read_network_file(content.data(), content.size()), choose_kernels(instruction_set), THREADS,
                    MOST_BYTES);
    const std::vector<float> numbers = read_all<float>(stdin);
    const std::vector<Shape> shapes = input_shapes(network.file(), static_cast<int64_t>(numbers.size()));
    std::vector<const float*> inputs;
    const float* input = numbers.data();
    for (const Shape& shape : shapes) {
        inputs.push_back(input);
        input += shape.count();
    }
    std::vector<std::vector<float>> outputs;
    std::vector<float*> places;
    for (const Shape& shape : network.output_shapes(shapes)) outputs.emplace_back(shape.count());
    for (std::vector<float>& output : outputs) places.push_back(output.data());
    network.run(shapes, inputs.data(), places.data());
    for (const std::vector<float>& output : outputs) std::fwrite(output.data(), sizeof(float), output.size(), stdout);
}

}  // namespace

int main(int count, char** arguments) {
    try {
        if (count > 1) {
            run(arguments[1], count > 2 ? arguments[2] : "");
        } else {
            for (const Kernels* kernels : available_kernels()) std::printf("%s\n", kernels->name);
        }
    } catch (const std::invalid_argument& error) {
        std::fprintf(stderr, "%s: %s\n", count > 1 ? arguments[1] : "run_network", error.what());
        return 1;
    }
    return 0;
}
