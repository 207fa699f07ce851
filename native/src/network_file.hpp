// A network as a file describes it: operations over values, and the weights they use. Nothing here is trusted
// until `read_network_file` has checked it; after that every index, name, shape and size fits.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace binaryrelax {

enum class ActivationKind {
    None, Relu, Relu6, Silu, Gelu, GeluTanh, HardSwish, HardSigmoid, Sigmoid, Tanh, Clamp, LeakyRelu
};

struct Activation {
    ActivationKind kind = ActivationKind::None;
    float low = 0.0f, high = 0.0f;  // clamp: infinite where there is no limit; leaky relu: low is the slope
};

// Weights as codes in the canonical layout: an index into the codebook takes `bits` bits, lowest bits first, rows
// padded with zero bits to whole bytes. Rows of five trits to a byte have been changed into 2-bit codes.
struct PackedTensor {
    std::vector<int64_t> shape;    // (O, I), or (O, I / groups, height, width)
    std::vector<float> codebook;   // 2 to 256 levels, increasing
    int bits = 1;                  // ceil(log2(levels)): 1 to 8
    std::vector<uint8_t> codes;    // [O][row_bytes], checked: every code has a level, padding is zero
    std::vector<float> scales;     // [O][scales_per_row], finite; a scale per layer is repeated for each row
    int64_t scales_per_row = 1;    // divides row_length()

    int64_t outputs() const { return shape[0]; }
    int64_t row_length() const {
        int64_t length = 1;
        for (size_t i = 1; i < shape.size(); ++i) length *= shape[i];
        return length;
    }
    bool is_binary() const { return codebook == std::vector<float>{-1, 1}; }
    bool is_ternary() const { return codebook == std::vector<float>{-1, 0, 1}; }
};

struct FloatTensor {
    std::vector<int64_t> shape;
    std::vector<float> values;
};

enum class OperationKind {
    Conv, Linear, Activate, Add, Multiply, Affine, Pool, AdaptivePool, Pad, Slice, Flatten, Concat, Upsample, Softmax
};

// One operation. Which members matter depends on the kind; the names are those of the file.
struct Operation {
    OperationKind kind = OperationKind::Activate;
    std::string name;             // for people
    std::vector<int> in;          // values; the operation writes value (number of inputs + its own index)
    Activation activation;        // conv, linear, add, multiply, affine, activate: applied last

    std::string weight;           // conv, linear: key of NetworkFile::packed, or of ::floats
    bool packed = false;          // which of the two
    std::optional<std::string> factor;  // conv, linear: key of ::floats, (O,): y = factor * (weight . x) + bias
    std::optional<std::string> bias;    // conv, linear: key of ::floats, (O,)
    std::string scale, shift;     // affine: keys of ::floats, (C,): y = scale * x + shift

    int64_t kernel[2] = {1, 1};   // conv (from the weight), pool: vertical, horizontal
    int64_t stride[2] = {1, 1};
    int64_t dilation[2] = {1, 1};
    int64_t padding[6] = {0, 0, 0, 0, 0, 0};  // conv, pool, pad: top bottom left right; pad also: channels before, after
    int64_t groups = 1;

    bool maximum = false;         // pool, adaptive pool: "max" rather than "average"
    bool ceil = false;            // pool: as torch's ceil_mode
    bool count_padding = false;   // average pool: whether padding counts as values
    int64_t size[2] = {0, 0};     // adaptive pool; upsample where has_size
    bool has_size = false;
    double factors[2] = {1.0, 1.0};  // upsample where not has_size
    bool bilinear = false, align_corners = false;
    float value = 0.0f;           // pad
    int axis = 1;                 // slice: 1 channels (or features of a vector), 2 rows, 3 columns
    int64_t start = 0, stop = -1, step = 1;  // stop -1: to the end
    bool log = false;             // softmax: log_softmax; over channels or features
};

struct Range {
    float low, high;
};

// What is known of a value before it runs.
struct ValueInfo {
    bool is_map = false;
    int64_t channels = 0;         // C of a map, F of a vector; -1: a vector whose length depends on the image (flatten)
    std::optional<Range> range;   // measured on calibration images, after the operation's activation
};

struct NetworkFile {
    bool fast = false;
    std::vector<std::vector<int64_t>> inputs;        // shapes of the example without N: (C, H, W) or (F,)
    std::vector<int> outputs;                        // values
    bool is_tuple = false;                           // whether calling gives several outputs, or a tuple of one
    std::vector<Operation> operations;
    std::vector<ValueInfo> values;                   // inputs, then one per operation
    std::map<std::string, PackedTensor> packed;
    std::map<std::string, FloatTensor> floats;       // every float32 tensor that an operation names
    std::map<std::string, std::string> about;
};

// Reads a whole file held in memory. Throws std::invalid_argument that says in one line what is wrong with it.
NetworkFile read_network_file(const uint8_t* data, size_t size);

}  // namespace binaryrelax
