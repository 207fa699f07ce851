#include "safetensors.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "json.hpp"
#include "json_fields.hpp"

namespace binaryrelax {
namespace {

constexpr uint64_t LARGEST_HEADER = 1 << 25;
constexpr int64_t MOST_DIMENSIONS = 8;
constexpr int64_t LARGEST_SIZE = int64_t{1} << 40;  // of a dimension; more is a forged shape

[[noreturn]] void refuse(const std::string& reason) {
    throw std::invalid_argument("is no intact safetensors file (" + reason + ")");
}

struct Place {
    int64_t begin, end;
    StoredTensor* tensor;
    const std::string* name;
};

// Bytes that the shape takes; -1 if that is more than `most`.
int64_t bytes_of(const std::vector<int64_t>& shape, int64_t value_bytes, int64_t most) {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
    int64_t bytes = value_bytes;
    for (const int64_t size : shape) {
        if (size > most / bytes) return -1;
        bytes *= size;
    }
    return bytes <= most ? bytes : -1;
}

Place read_entry(const Json& entry, const std::string& name, int64_t data_bytes, StoredTensor& tensor) {
    Fields fields(entry, "tensor " + quoted(name));
    const int dtype = fields.choice("dtype", {"U8", "F32", "BOOL", "I8", "I16", "F16", "BF16", "I32", "F64", "I64"});
    constexpr int64_t VALUE_BYTES[] = {1, 4, 1, 1, 2, 2, 2, 4, 8, 8};
    constexpr StoredTensor::Type TYPES[] = {StoredTensor::Type::Byte, StoredTensor::Type::Float};
    tensor.type = dtype < 2 ? TYPES[dtype] : StoredTensor::Type::Other;
    const Json::List& sizes = fields.list("shape");
    if (sizes.size() > MOST_DIMENSIONS) fields.fail("it has too many dimensions");
    for (const Json& size : sizes) {
        if (!size.integer() || *size.integer() < 0 || *size.integer() > LARGEST_SIZE) {
            fields.fail("its shape is none");
        }
        tensor.shape.push_back(*size.integer());
    }
    int64_t offsets[2] = {0, 0};
    fields.need("data_offsets");
    fields.integers("data_offsets", offsets, 0, data_bytes);
    fields.finish();
    const int64_t bytes = bytes_of(tensor.shape, VALUE_BYTES[dtype], data_bytes);
    if (bytes < 0 || offsets[1] - offsets[0] != bytes) fields.fail("its place is not as large as its shape");
    return {offsets[0], offsets[1], &tensor, &name};
}

std::map<std::string, std::string> read_metadata(const Json& object) {
    std::map<std::string, std::string> metadata;
    if (!object.object()) throw std::invalid_argument("the metadata are no object");
    for (const Json::Member& member : *object.object()) {
        if (!member.value.text()) throw std::invalid_argument("the metadata hold other than text");
        metadata[member.name] = *member.value.text();
    }
    return metadata;
}

void require_no_holes(std::vector<Place>& places, int64_t data_bytes) {
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    int64_t end = 0;
    for (const Place& place : places) {
        if (place.begin != end) {
            throw std::invalid_argument("tensor " + quoted(*place.name) + " does not begin where another ends");
        }
        end = place.end;
    }
    if (end != data_bytes) throw std::invalid_argument("the tensors do not end where the file does");
}

Safetensors read_checked(const uint8_t* data, size_t size) {
    if (size < 8) throw std::invalid_argument("it is shorter than 8 bytes");
    uint64_t header_bytes = 0;
    for (int i = 0; i < 8; ++i) header_bytes |= uint64_t{data[i]} << 8 * i;
    if (header_bytes > size - 8) throw std::invalid_argument("it is shorter than its header");
    if (header_bytes > LARGEST_HEADER) throw std::invalid_argument("its header is too large");
    const Json header = parse_json({reinterpret_cast<const char*>(data) + 8, static_cast<size_t>(header_bytes)});
    if (!header.object()) throw std::invalid_argument("its header is no object");

    const uint8_t* const bytes = data + 8 + header_bytes;
    const int64_t data_bytes = static_cast<int64_t>(size - 8 - header_bytes);
    Safetensors file;
    std::vector<Place> places;
    for (const Json::Member& member : *header.object()) {
        if (member.name == "__metadata__") {
            file.metadata = read_metadata(member.value);
        } else {
            places.push_back(read_entry(member.value, member.name, data_bytes, file.tensors[member.name]));
        }
    }
    require_no_holes(places, data_bytes);
    for (const Place& place : places) {
        place.tensor->data = bytes + place.begin;
        place.tensor->size = static_cast<size_t>(place.end - place.begin);
    }
    return file;
}

}  // namespace

Safetensors read_safetensors(const uint8_t* data, size_t size) {
    try {
        return read_checked(data, size);
    } catch (const std::invalid_argument& error) {
        refuse(error.what());
    }
}

std::string shape_text(const std::vector<int64_t>& shape) {
    std::string text = "(";
    for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
    return text + (shape.size() == 1 ? ",)" : ")");
}

std::string StoredTensor::described() const {
    return (type == Type::Byte ? "torch.uint8 " : "torch.float32 ") + shape_text(shape) + ";";
}

}  // namespace binaryrelax
