// Calls each network from several threads at once, under the sanitizer that sees data races.
//
//     call_networks FILE...
//
// Sizes change from call to call, and there are more of them than a network remembers. Exits with 1 where a call gives
// other bits than the same call before.
#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <vector>

#include "dispatch.hpp"
#include "network.hpp"
#include "network_file.hpp"

namespace {

using namespace binaryrelax;

constexpr int CALLERS = 4, THREADS_OF_A_CALL = 3;
constexpr int SIZES = 24, ROUNDS = 4;
constexpr int64_t MOST_BYTES = 1 << 30;

using Arrays = std::vector<std::vector<float>>;

// Maps grow where the network has one input alone; with several, not all of them need to fit one another.
std::vector<Shape> input_shapes(const NetworkFile& file, int size) {
    std::vector<Shape> shapes;
    const int64_t images = 1 + size % 3, more = file.inputs.size() == 1 ? size / 3 : 0;
    for (const std::vector<int64_t>& shape : file.inputs) {
        const bool is_map = shape.size() == 3;
        shapes.push_back(is_map ? Shape{images, shape[1] + more, shape[2] + more, shape[0], true}
                                : Shape{images, 1, 1, shape[0], false});
    }
    return shapes;
}

std::vector<float> noise(int64_t count, uint32_t state) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) {
        state = state * 1664525u + 1013904223u;
        value = static_cast<float>(state >> 8) / (1 << 22) - 2.0f;
    }
    return values;
}

Arrays call(Network& network, int size) {
    const std::vector<Shape> shapes = input_shapes(network.file(), size);
    Arrays inputs, outputs;
    for (const Shape& shape : shapes) inputs.push_back(noise(shape.count(), static_cast<uint32_t>(size)));
    for (const Shape& shape : network.output_shapes(shapes)) outputs.emplace_back(shape.count());
    std::vector<const float*> from;
    std::vector<float*> to;
    for (const std::vector<float>& input : inputs) from.push_back(input.data());
    for (std::vector<float>& output : outputs) to.push_back(output.data());
    network.run(shapes, from.data(), to.data());
    return outputs;
}

// How many calls gave other bits than the first of this caller with the same size.
int count_changes(Network& network) {
    std::vector<Arrays> first(SIZES);
    int changes = 0;
    for (int round = 0; round < ROUNDS; ++round) {
        for (int size = 0; size < SIZES; ++size) {
            try {
                const Arrays outputs = call(network, size);
                if (round == 0) first[size] = outputs;
                changes += outputs != first[size];
            } catch (const std::invalid_argument&) {
                // The network takes no images of this size.
            }
        }
    }
    return changes;
}

bool is_safe(const char* path) {
    std::ifstream stream(path, std::ios::binary);
    const std::vector<char> data((std::istreambuf_iterator<char>(stream)), {});
    NetworkFile file = read_network_file(reinterpret_cast<const uint8_t*>(data.data()), data.size());
    Network network(std::move(file), *available_kernels().back(), THREADS_OF_A_CALL, MOST_BYTES);
    std::atomic<int> changes{0};
    std::vector<std::thread> callers;
    for (int i = 0; i < CALLERS; ++i) callers.emplace_back([&] { changes += count_changes(network); });
    for (std::thread& caller : callers) caller.join();
    std::printf("%s: %d calls with %s, %d changed\n", path, CALLERS * ROUNDS * SIZES, network.kernels().name,
                changes.load());
    return changes == 0;
}

}  // namespace

int main(int argc, char** argv) {
    bool all_safe = argc > 1;
    for (int i = 1; i < argc; ++i) all_safe = is_safe(argv[i]) && all_safe;
    return all_safe ? 0 : 1;
}
