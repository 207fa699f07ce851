#include "stored_weights.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <stdexcept>
#include <tuple>

#include "sha256.hpp"

namespace binaryrelax {
namespace {

constexpr uint64_t MOST_SHARING = 8;  // reading takes at most so many times the bytes of the file

using Problem = const char*;  // null if there is none

bool has_no_code_beyond(const uint8_t* row, int64_t length, int bits, uint32_t levels) {
    uint32_t held = 0;
    int held_bits = 0;
    const uint32_t mask = (1u << bits) - 1;
    for (int64_t i = 0; i < length; ++i) {
        if (held_bits < bits) {
            held |= uint32_t{*row++} << held_bits;
            held_bits += 8;
        }
        if ((held & mask) >= levels) return false;
        held >>= bits;
        held_bits -= bits;
    }
    return true;
}

bool has_no_code_of_3(const uint8_t* row, int64_t bytes) {
    uint8_t found = 0;
    for (int64_t i = 0; i < bytes; ++i) found |= row[i] & row[i] >> 1 & 0x55;
    return found == 0;
}

Problem problem_of_bits(const LayerEntry& entry, const uint8_t* codes) {
    const int64_t length = entry.row_length(), row_bytes = entry.stored_row_bytes();
    const int used = static_cast<int>((length * entry.bits - 1) % 8) + 1;  // bits of the last byte
    const auto levels = static_cast<uint32_t>(entry.codebook.size());
    for (int64_t output = 0; output < entry.outputs(); ++output, codes += row_bytes) {
        if (codes[row_bytes - 1] >> used != 0) return "the padding of a row is not zero";
        if (levels == 1u << entry.bits) continue;
        const bool fits = entry.bits == 2 ? has_no_code_of_3(codes, row_bytes)
                                          : has_no_code_beyond(codes, length, entry.bits, levels);
        if (!fits) return "a code is not below the size of the codebook";
    }
    return nullptr;
}

constexpr int TRITS = 5, BYTES_OF_TRITS = 243;

// Five trits as five codes of two bits; nothing for bytes that are not five trits.
struct TritTable {
    uint16_t codes[256];

    TritTable() : codes() {
        for (int byte = 0; byte < BYTES_OF_TRITS; ++byte) {
            for (int i = 0, rest = byte; i < TRITS; ++i, rest /= 3) {
                codes[byte] = static_cast<uint16_t>(codes[byte] | rest % 3 << 2 * i);
            }
        }
    }
};

// One row, four bytes of trits to five of codes. `end` is what the last byte must be below: padding is zero.
bool unpack_trits(const uint8_t* trits, int64_t bytes, int end, uint8_t* codes, int64_t code_bytes) {
    static const TritTable table;
    if (trits[bytes - 1] >= end) return false;
    uint8_t largest = 0;
    for (int64_t i = 0; i < bytes; i += 4, codes += TRITS, code_bytes -= TRITS) {
        uint64_t held = 0;
        const int64_t count = std::min<int64_t>(4, bytes - i);
        for (int64_t j = 0; j < count; ++j) {
            largest = std::max(largest, trits[i + j]);
            held |= uint64_t{table.codes[trits[i + j]]} << 2 * TRITS * j;
        }
        const int64_t written = std::min<int64_t>(TRITS, code_bytes);
        for (int64_t j = 0; j < written; ++j) codes[j] = static_cast<uint8_t>(held >> 8 * j);
    }
    return largest < BYTES_OF_TRITS;
}

Problem read_trits(const LayerEntry& entry, const uint8_t* trits, std::vector<uint8_t>& codes) {
    const int64_t length = entry.row_length(), bytes = entry.stored_row_bytes(), code_bytes = (length + 3) / 4;
    int end = 3;
    for (int64_t i = 1; i < length - TRITS * (bytes - 1); ++i) end *= 3;
    codes.resize(static_cast<size_t>(entry.outputs() * code_bytes));
    for (int64_t output = 0; output < entry.outputs(); ++output) {
        if (!unpack_trits(trits + output * bytes, bytes, end, codes.data() + output * code_bytes, code_bytes)) {
            return "a byte is not five trits, or padding not zero";
        }
    }
    return nullptr;
}

std::vector<float> floats_of(const StoredTensor& tensor) {
    std::vector<float> values(tensor.size / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), tensor.data, tensor.size);
    return values;
}

Problem read_scales(const LayerEntry& entry, const StoredTensor& tensor, PackedTensor& packed) {
    std::vector<float> scales = floats_of(tensor);
    const auto is_bad = [](float scale) { return !std::isfinite(scale) || scale < 0; };
    if (std::any_of(scales.begin(), scales.end(), is_bad)) return "a scale is negative, NaN or infinite";
    const float largest = std::max(std::abs(entry.codebook.front()), std::abs(entry.codebook.back()));
    const auto overflows = [largest](float scale) { return std::isinf(scale * largest); };
    if (std::any_of(scales.begin(), scales.end(), overflows)) return "a weight is infinite";
    if (entry.num_scales == 1) scales.assign(static_cast<size_t>(entry.outputs()), scales[0]);
    packed.scales_per_row = std::max<int64_t>(1, entry.num_scales / entry.outputs());
    packed.scales = std::move(scales);
    return nullptr;
}

std::string digest_of(std::initializer_list<const StoredTensor*> tensors) {
    Sha256 sha;
    for (const StoredTensor* tensor : tensors) {
        sha.update(tensor->described());
        sha.update(tensor->data, tensor->size);
    }
    return sha.finish();
}

class WeightReader {
  public:
    WeightReader(const Safetensors& file, const Manifest& manifest, size_t file_size)
        : file_(file), manifest_(manifest), budget_(MOST_SHARING * static_cast<uint64_t>(file_size)) {
        check_names();
    }

    StoredWeights read() {
        for (const auto& [name, digest] : manifest_.tensors) {
            const StoredTensor& tensor = file_.tensors.at(name);
            if (digest_of({&tensor}) != digest) {
                throw std::invalid_argument("tensor " + quoted(name) + " was changed: the digest differs");
            }
            if (tensor.type != StoredTensor::Type::Float) continue;
            weights_.floats[name] = {tensor.shape, floats_of(tensor)};
            weights_.float_names[name] = name;
        }
        for (const auto& [name, kept] : manifest_.tied) {
            if (weights_.floats.count(kept)) weights_.float_names[name] = kept;
        }
        for (const auto& [name, entry] : manifest_.layers) read_layer(name, entry);
        return std::move(weights_);
    }

  private:
    // A layer's tensors and all that gives them their meaning.
    using Identity = std::tuple<std::string, std::string, std::vector<int64_t>, std::vector<float>, int64_t, bool,
                                std::string>;

    std::string stored_name(const std::string& name) const {
        const auto tied = manifest_.tied.find(name);
        return tied == manifest_.tied.end() ? name : tied->second;
    }

    // Every tensor is stored once or tied, and the manifest knows all.
    void check_names() const {
        std::set<std::string> packed, expected;
        for (const auto& layer : manifest_.layers) {
            for (const char* part : {".codes", ".scale"}) packed.insert(layer.first + part);
        }
        expected = packed;
        for (const auto& tensor : manifest_.tensors) expected.insert(tensor.first);
        for (const auto& tied : manifest_.tied) expected.erase(tied.first);
        for (const auto& tensor : file_.tensors) {
            if (!expected.count(tensor.first)) refuse_other(tensor.first);
        }
        for (const std::string& name : expected) {
            if (!file_.tensors.count(name)) refuse_other(name);
        }
        for (const auto& tied : manifest_.tied) {
            if (!expected.count(tied.second)) refuse_other(tied.second);
        }
        for (const auto& tensor : manifest_.tensors) {
            if (packed.count(tensor.first) || manifest_.tied.count(tensor.first)) {
                throw std::invalid_argument("has a tensor in two places of its manifest: " + quoted(tensor.first));
            }
        }
    }

    [[noreturn]] static void refuse_other(const std::string& name) {
        throw std::invalid_argument("holds other tensors than its manifest says: " + quoted(name));
    }

    void read_layer(const std::string& name, const LayerEntry& entry) {
        const std::string codes_name = stored_name(name + ".codes"), scale_name = stored_name(name + ".scale");
        const Identity identity{codes_name,       scale_name,     entry.shape, entry.codebook,
                                entry.num_scales, entry.is_trits, entry.digest};
        const auto [known, is_new] = known_.emplace(identity, name);
        weights_.packed_names[name] = known->second;
        if (!is_new) return;
        const StoredTensor &codes = file_.tensors.at(codes_name), &scale = file_.tensors.at(scale_name);
        spend(name, codes.size + scale.size);
        if (digest_of({&codes, &scale}) != entry.digest) {
            throw std::invalid_argument("layer " + quoted(name) + " was changed: the digest differs");
        }
        const std::vector<int64_t> codes_shape{entry.outputs(), entry.stored_row_bytes()};
        if (codes.shape != codes_shape || codes.type != StoredTensor::Type::Byte) {
            refuse(name, "codes are not " + shape_text(codes_shape) + " bytes");
        }
        const std::vector<int64_t> scale_shape{entry.num_scales};
        if (scale.shape != scale_shape || scale.type != StoredTensor::Type::Float) {
            refuse(name, "scales are not float32 of shape " + shape_text(scale_shape));
        }
        PackedTensor& packed = weights_.packed[name];
        packed.shape = entry.shape, packed.codebook = entry.codebook, packed.bits = entry.bits;
        Problem problem = read_scales(entry, scale, packed);
        if (!problem && entry.is_trits) {
            problem = read_trits(entry, codes.data, packed.codes);
        } else if (!problem && !(problem = problem_of_bits(entry, codes.data))) {
            packed.codes.assign(codes.data, codes.data + codes.size);
        }
        if (problem) refuse(name, problem);
    }

    [[noreturn]] static void refuse(const std::string& name, const std::string& problem) {
        throw std::invalid_argument("layer " + quoted(name) + ": " + problem);
    }

    void spend(const std::string& name, uint64_t bytes) {
        if (bytes > budget_) refuse(name, "layers share tensors too often");
        budget_ -= bytes;
    }

    const Safetensors& file_;
    const Manifest& manifest_;
    uint64_t budget_;
    StoredWeights weights_;
    std::map<Identity, std::string> known_;
};

}  // namespace

StoredWeights read_weights(const Safetensors& file, const Manifest& manifest, size_t file_size) {
    return WeightReader(file, manifest, file_size).read();
}

}  // namespace binaryrelax
