// What of a network does not depend on the size of its input: layers, which operations one layer does together, and
// which values are kept as bytes.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "byte_layer.hpp"
#include "float_layer.hpp"
#include "kernels.hpp"
#include "layer.hpp"
#include "network_file.hpp"

namespace binaryrelax {

// What a byte of a value stands for: scale * (byte - zero).
struct ByteCode {
    float scale;
    int zero;

    static ByteCode of(Range range);
    float low() const { return -scale * static_cast<float>(zero); }
};

// How an operation runs. A convolution or linear layer has one of the three layers.
struct OperationLayer {
    std::unique_ptr<ByteLayer> bytes;    // mode fast
    std::unique_ptr<Layer> exact;        // mode exact: tables of sums, or Winograd's products where the image is large
    std::unique_ptr<FloatLayer> floats;  // any weights
    std::vector<float> scale, bias;      // of `bytes` and `exact`: the file's factor and scale in one
    int added = -1;                      // the value that is added before the activation, or -1
    int writes = -1;                     // the value that it writes; that of an addition it does as well
    int done_by = -1;                    // of an addition: the operation whose layer does it, or -1
    Activation activation;               // of the last operation that it does
};

class NetworkLayers {
  public:
    NetworkLayers(NetworkFile file, const Kernels& kernels);

    const NetworkFile& file() const { return file_; }
    const Kernels& kernels() const { return *kernels_; }
    const OperationLayer& layer(size_t operation) const { return layers_[operation]; }
    // How a value is kept: as bytes of this code, or as floats.
    const std::optional<ByteCode>& code(int value) const { return codes_[value]; }
    // What a layer makes of its input where that is not kept as bytes; nothing: a code for each image.
    std::optional<ByteCode> code_of_range(int value) const;
    bool is_output(int value) const { return outputs_[value]; }
    const std::vector<int>& users(int value) const { return users_[value]; }  // operations
    // Whether no number of the value can be negative.
    bool is_positive(int value) const { return positive_[value]; }
    int first_value() const { return static_cast<int>(file_.inputs.size()); }
    int64_t bytes() const;

  private:
    void find_users();
    void find_positive();
    void require_little_room() const;
    void make_layer(size_t operation);
    void fuse_additions();
    bool can_add(int value) const;
    float width(int value) const;
    void choose_codes();
    bool can_write_bytes(size_t operation) const;
    bool can_read_bytes(size_t operation, int value) const;

    NetworkFile file_;
    const Kernels* kernels_;
    std::vector<OperationLayer> layers_;
    std::vector<std::optional<ByteCode>> codes_;
    std::vector<bool> outputs_, positive_;
    std::vector<std::vector<int>> users_;
};

Geometry geometry_of(const Operation& operation, const std::vector<int64_t>& weight_shape);

}  // namespace binaryrelax
