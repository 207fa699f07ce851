// Runs every kernel over random shapes under the sanitizers and compares each instruction set with the portable
// one. Buffers have exactly the size they need, so that a read or write beyond them is seen.
//
//     fuzz_kernels [seconds] [seed]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "dispatch.hpp"
#include "packed_filters.hpp"
#include "packed_matrix.hpp"

namespace {

using namespace binaryrelax;

class Chance {
  public:
    explicit Chance(uint64_t seed) : engine_(seed) {}

    int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
    bool one_in(int64_t n) { return between(1, n) == 1; }
    // Mostly small, sometimes around the sizes at which the kernels change their ways.
    int64_t size(int64_t least, int64_t most) {
        static const int64_t edges[] = {15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 513};
        const int64_t value = one_in(3) ? edges[between(0, 16)] : between(least, most);
        return std::min(std::max(value, least), most);
    }

    std::vector<float> floats(int64_t count) {
        std::vector<float> values(static_cast<size_t>(count));
        std::normal_distribution<float> normal;
        for (float& value : values) value = normal(engine_);
        if (count > 0 && one_in(20)) values[between(0, count - 1)] = std::numeric_limits<float>::quiet_NaN();
        if (count > 0 && one_in(20)) values[between(0, count - 1)] = std::numeric_limits<float>::infinity();
        if (one_in(20)) std::fill(values.begin(), values.end(), 1e-42f);
        return values;
    }

    std::vector<uint8_t> codes(int64_t outputs, int64_t inputs, int bits) {
        const int64_t row_bytes = (inputs * bits + 7) / 8;
        std::vector<uint8_t> bytes(static_cast<size_t>(outputs * row_bytes));
        for (int64_t output = 0; output < outputs; ++output) {
            for (int64_t input = 0; input < inputs; ++input) {
                const int64_t code = between(0, bits == 1 ? 1 : 2), bit = input * bits;
                bytes[output * row_bytes + bit / 8] |= static_cast<uint8_t>(code << bit % 8);
            }
        }
        return bytes;
    }

  private:
    std::mt19937_64 engine_;
};

void require_equal(const std::vector<float>& found, const std::vector<float>& expected, double tolerance,
                   const std::string& what) {
    for (size_t i = 0; i < found.size(); ++i) {
        const bool same = found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]));
        if (same || std::abs(double{found[i]} - double{expected[i]}) <= tolerance) continue;
        std::fprintf(stderr, "%s: output %zu is %g instead of %g\n", what.c_str(), i, found[i], expected[i]);
        std::exit(1);
    }
}

// run(kernels, fast, y) fills y; the first instruction set is the portable one.
template <typename Run>
void compare(const char* what, int64_t outputs, int64_t inputs, Run run) {
    for (const bool fast : {false, true}) {
        std::vector<float> expected(static_cast<size_t>(outputs), 7.0f);
        for (const Kernels* kernels : available_kernels()) {
            std::vector<float> y(static_cast<size_t>(outputs), 7.0f);
            run(*kernels, fast, y.data());
            if (kernels == available_kernels()[0]) expected = y;
            const double tolerance = 1e-5 * (1.0 + static_cast<double>(inputs));
            require_equal(y, expected, tolerance, std::string(what) + (fast ? " fast " : " exact ") + kernels->name);
        }
    }
}

void try_matrix(Chance& chance) {
    const int bits = static_cast<int>(chance.between(1, 2)), threads = static_cast<int>(chance.between(1, 3));
    const int64_t outputs = chance.size(0, 150), inputs = chance.size(0, 600), rows = chance.size(0, 15);
    const std::vector<uint8_t> bytes = chance.codes(outputs, inputs, bits);
    const CanonicalCodes codes{bytes.data(), outputs, inputs, bits};
    codes.check();
    const std::vector<float> scale = chance.floats(outputs), x = chance.floats(rows * inputs);
    const std::vector<float> bias = chance.floats(outputs);
    const float* optional_bias = chance.one_in(2) ? bias.data() : nullptr;
    compare("matrix", rows * outputs, inputs, [&](const Kernels& kernels, bool fast, float* y) {
        PackedMatrix(codes, scale, kernels).multiply(x.data(), rows, optional_bias, fast, threads, y);
    });
}

Axis random_axis(Chance& chance) {
    return {chance.between(1, 4), chance.between(1, 3), chance.between(0, 3), chance.between(1, 3)};
}

void try_filters(Chance& chance) {
    const int bits = static_cast<int>(chance.between(1, 2)), threads = static_cast<int>(chance.between(1, 3));
    const int64_t groups = chance.one_in(3) ? chance.between(2, 20) : 1;
    const int64_t inputs = chance.size(1, groups > 1 ? 5 : 70), outputs = groups * chance.size(1, groups > 1 ? 5 : 80);
    const Geometry geometry{outputs, inputs, groups, random_axis(chance), random_axis(chance)};
    const Image size{chance.between(1, 9), chance.between(1, 9)};
    const Image output{geometry.vertical.outputs(size.height), geometry.horizontal.outputs(size.width)};
    const int64_t images = chance.between(0, 2), pixels = images * output.height * output.width;
    const std::vector<uint8_t> bytes = chance.codes(outputs, geometry.inputs(), bits);
    const CanonicalCodes codes{bytes.data(), outputs, geometry.inputs(), bits};
    const std::vector<float> scale = chance.floats(outputs), bias = chance.floats(outputs);
    const std::vector<float> x = chance.floats(images * size.height * size.width * geometry.channels());
    compare("filters", pixels * outputs, geometry.inputs(), [&](const Kernels& kernels, bool fast, float* y) {
        PackedFilters(codes, scale, geometry, kernels)
            .convolve(x.data(), images, size, bias.data(), fast, threads, y);
    });
}

}  // namespace

int main(int count, char** arguments) {
    const double seconds = count > 1 ? std::atof(arguments[1]) : 60.0;
    const uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 0;
    const auto start = std::chrono::steady_clock::now();
    int64_t shapes = 0;
    for (; std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds; ++shapes) {
        Chance chance(seed + static_cast<uint64_t>(shapes));
        chance.one_in(2) ? try_matrix(chance) : try_filters(chance);
    }
    std::printf("%lld random shapes, every instruction set of this CPU, no error\n", static_cast<long long>(shapes));
    return 0;
}
