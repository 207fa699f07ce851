// Arrays from Python, with the checks that keep a wrong one from reaching a kernel.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace binaryrelax {

[[noreturn]] inline void reject(const std::string& message) { throw std::invalid_argument(message); }

// A C-contiguous array in the memory of the CPU: numpy's, torch's, or any other that speaks DLPack or the
// buffer protocol.
class Array {
  public:
    enum class Type { Byte, Float };

    Array(const char* name, nanobind::handle object, bool writable = false) : name_(name) {
        if (writable) {
            if (!nanobind::try_cast(object, array_)) reject(name_ + ": must be a writable array in CPU memory");
        } else {
            nanobind::ndarray<nanobind::ro> read_only;
            if (!nanobind::try_cast(object, read_only)) reject(name_ + ": must be an array in CPU memory");
            array_ = nanobind::ndarray<>(read_only.handle());
        }
        if (array_.device_type() != nanobind::device::cpu::value) reject(name_ + ": must be in CPU memory");
        require_contiguous();
    }

    int64_t size(int dimension) const { return static_cast<int64_t>(array_.shape(dimension)); }
    const uint8_t* bytes() const { return static_cast<const uint8_t*>(array_.data()); }
    const float* floats() const { return static_cast<const float*>(array_.data()); }
    float* writable_floats() const { return static_cast<float*>(array_.data()); }

    std::vector<int64_t> sizes() const {
        std::vector<int64_t> found;
        for (size_t i = 0; i < array_.ndim(); ++i) found.push_back(static_cast<int64_t>(array_.shape(i)));
        return found;
    }

    std::string shape() const {
        std::string text = "of shape (";
        for (size_t i = 0; i < array_.ndim(); ++i) text += (i ? ", " : "") + std::to_string(array_.shape(i));
        return text + ")";
    }

    void require_type(Type type) const {
        const bool matches = type == Type::Byte ? array_.dtype() == nanobind::dtype<uint8_t>()
                                                : array_.dtype() == nanobind::dtype<float>();
        if (!matches) reject(name_ + ": must be of type " + (type == Type::Byte ? "uint8" : "float32"));
        if (type == Type::Float && reinterpret_cast<uintptr_t>(array_.data()) % alignof(float) != 0) {
            reject(name_ + ": must be aligned to whole float32 values; copy it first");
        }
    }

    void require_dimensions(int dimensions) const {
        if (static_cast<int>(array_.ndim()) != dimensions) {
            reject(name_ + " " + shape() + ": must have " + std::to_string(dimensions) + " dimensions");
        }
    }

    void require_shape(std::initializer_list<int64_t> sizes) const {
        std::string wanted;
        bool matches = array_.ndim() == sizes.size();
        int dimension = 0;
        for (const int64_t wanted_size : sizes) {
            matches = matches && size(dimension) == wanted_size;
            wanted += (dimension++ ? ", " : "") + std::to_string(wanted_size);
        }
        if (!matches) reject(name_ + " " + shape() + ": must be of shape (" + wanted + ")");
    }

    bool overlaps(const Array& other) const {
        return bytes() < other.bytes() + other.array_.nbytes() && other.bytes() < bytes() + array_.nbytes();
    }

  private:
    void require_contiguous() const {
        int64_t expected = 1;
        if (array_.size() == 0) return;
        for (size_t i = array_.ndim(); i-- > 0;) {
            if (array_.shape(i) != 1 && array_.stride(i) != expected) {
                reject(name_ + " " + shape() + ": must be C-contiguous; copy it first");
            }
            expected *= static_cast<int64_t>(array_.shape(i));
        }
    }

    std::string name_;
    nanobind::ndarray<> array_;
};

}  // namespace binaryrelax
