// The container of a file: named tensors, and texts about them. https://github.com/huggingface/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace binaryrelax {

// A tensor inside of the file's memory.
struct StoredTensor {
    enum class Type { Byte, Float, Other };  // U8, F32, and what only files for torch hold

    Type type = Type::Byte;
    std::vector<int64_t> shape;
    const uint8_t* data = nullptr;  // not aligned
    size_t size = 0;                // in bytes: what the shape takes

    // What a digest says before the bytes: "torch.float32 (64,);".
    std::string described() const;
};

struct Safetensors {
    std::map<std::string, StoredTensor> tensors;
    std::map<std::string, std::string> metadata;
};

// Tensors stand one after the other and fill the file; each is as large as its shape says. Throws
// std::invalid_argument where it is otherwise.
Safetensors read_safetensors(const uint8_t* data, size_t size);

// "(64, 3, 3, 3)", "(64,)": as Python writes it.
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace binaryrelax
