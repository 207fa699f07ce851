#include "tiles.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace binaryrelax {
namespace {

bool keeps_order(const std::vector<int64_t>& sources, int64_t inputs) {
    for (size_t place = 0; place < sources.size(); ++place) {
        const int64_t expected = static_cast<int64_t>(place) < inputs ? static_cast<int64_t>(place) : -1;
        if (sources[place] != expected) return false;
    }
    return true;
}

}  // namespace

uint32_t CanonicalCodes::code(int64_t output, int64_t input) const {
    const int64_t bit = input * bits;
    return row(output)[bit / 8] >> bit % 8 & ((1u << bits) - 1);
}

void CanonicalCodes::unpack(int64_t output, uint8_t* out) const {
    const uint8_t* bytes = row(output);
    const uint8_t mask = static_cast<uint8_t>((1 << bits) - 1);
    for (int64_t i = 0; i < row_bytes(); ++i) {
        for (int bit = 0; bit < 8; bit += bits) *out++ = static_cast<uint8_t>(bytes[i] >> bit & mask);
    }
}

int32_t CanonicalCodes::sum(int64_t output) const {
    const uint8_t* bytes = row(output);
    const uint64_t low_bits = bits == 1 ? ~uint64_t{0} : 0x5555555555555555u;
    int64_t total = 0;
    for (int64_t i = 0; i < row_bytes(); i += 8) {
        uint64_t eight = 0;
        std::memcpy(&eight, bytes + i, static_cast<size_t>(std::min<int64_t>(8, row_bytes() - i)));
        total += __builtin_popcountll(eight & low_bits) + 2 * __builtin_popcountll(eight & ~low_bits);
    }
    return static_cast<int32_t>(total);
}

void CanonicalCodes::check() const {
    const int used_bits = static_cast<int>(inputs * bits % 8);
    const unsigned padding = used_bits == 0 ? 0u : 0xffu & (0xffu << used_bits);
    for (int64_t output = 0; output < outputs; ++output) {
        const uint8_t* bytes = row(output);
        unsigned threes = 0;
        if (bits == 2) {
            for (int64_t i = 0; i < row_bytes(); ++i) threes |= bytes[i] & bytes[i] >> 1 & 0x55u;
        }
        if (threes) {
            throw std::invalid_argument("codes: row " + std::to_string(output) +
                                        " has the 2-bit code 3; ternary codes are 0, 1 and 2");
        }
        if (inputs > 0 && bytes[row_bytes() - 1] & padding) {
            throw std::invalid_argument("codes: row " + std::to_string(output) +
                                        " must end in zero bits after its " + std::to_string(inputs) + " codes");
        }
    }
}

Tiles::Tiles(const CanonicalCodes& codes, int64_t first_output, int64_t outputs,
             const std::vector<int64_t>& sources)
    : bits_(codes.bits), outputs_(outputs), places_(static_cast<int64_t>(sources.size())) {
    allocate();
    if (keeps_order(sources, codes.inputs)) {
        copy_bytes(codes, first_output);
    } else {
        copy_codes(codes, first_output, sources);
    }
    sum_weights();
}

void Tiles::copy_bytes(const CanonicalCodes& codes, int64_t first_output) {
    const int64_t row_bytes = codes.row_bytes();
    for (int64_t output = 0; output < outputs_; ++output) {
        const uint8_t* bytes = codes.row(first_output + output);
        for (int64_t i = 0; i < row_bytes; ++i) {
            *word(output, i / 4) |= static_cast<uint32_t>(bytes[i]) << i % 4 * 8;
        }
    }
}

// A row's codes are laid out one to a byte first: most are then fetched from far apart.
void Tiles::copy_codes(const CanonicalCodes& codes, int64_t first_output, const std::vector<int64_t>& sources) {
    const int64_t per_word = 32 / bits_;
    std::vector<uint32_t> places;  // in the row, with nothing where there is no source
    for (const int64_t source : sources) places.push_back(static_cast<uint32_t>(source < 0 ? codes.inputs : source));
    places.resize(static_cast<size_t>(num_words_ * per_word), static_cast<uint32_t>(codes.inputs));
    std::vector<uint8_t> row(static_cast<size_t>(codes.row_bytes() * 8 / bits_ + 1));
    for (int64_t output = 0; output < outputs_; ++output) {
        codes.unpack(first_output + output, row.data());
        row[codes.inputs] = 0;
        const int64_t line = panel_sets(output / PANEL) * LANES;
        uint32_t* out = word(output, 0);
        const uint32_t* place = places.data();
        for (int64_t index = 0; index < num_words_; ++index, out += line, place += per_word) {
            uint32_t held = 0;
            for (int64_t i = 0; i < per_word; ++i) held |= uint32_t{row[place[i]]} << i * bits_;
            *out = held;
        }
    }
}

int64_t Tiles::panel_outputs(int64_t panel) const {
    return std::min<int64_t>(PANEL, outputs_ - panel * PANEL);
}

void Tiles::allocate() {
    num_words_ = (places_ * bits_ + 31) / 32;
    const int64_t rows = (outputs_ + LANES - 1) / LANES * LANES;
    const int64_t words = rows * num_words_ + 1;  // kernels may load some bytes from where a line ends
    words_.reserve(words);
    std::fill_n(words_.data(), words, 0u);
    corrections_.reserve(num_panels() * PANEL);
}

uint32_t* Tiles::word(int64_t output, int64_t index) {
    const int64_t in_panel = output % PANEL;
    const int64_t line = index * panel_sets(output / PANEL) * LANES;
    return words_.data() + output / PANEL * num_words_ * PANEL + line + in_panel;
}

void Tiles::sum_weights() {
    std::fill_n(corrections_.data(), num_panels() * PANEL, 0);
    const uint32_t low_bits = bits_ == 1 ? 0xffffffffu : 0x55555555u;
    for (int64_t output = 0; output < outputs_; ++output) {
        int32_t codes = 0;
        for (int64_t index = 0; index < num_words_; ++index) {
            const uint32_t value = *word(output, index);
            codes += __builtin_popcount(value & low_bits) + 2 * __builtin_popcount(value & ~low_bits);
        }
        const int32_t places = static_cast<int32_t>(places_);
        corrections_.data()[output] = -128 * ((bits_ == 1 ? 2 * codes : codes) - places);
    }
}

}  // namespace binaryrelax
