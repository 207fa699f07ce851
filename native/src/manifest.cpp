#include "manifest.hpp"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "json_fields.hpp"
#include "sha256.hpp"

namespace binaryrelax {
namespace {

constexpr int64_t VERSION = 3;  // 1 and 2 hold no program
constexpr size_t MOST_LEVELS = 256;
constexpr size_t DIGEST_LENGTH = 64;

bool is_digest(std::string_view text) {
    const auto fits = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    return text.size() == DIGEST_LENGTH && std::all_of(text.begin(), text.end(), fits);
}

// The digest is the last member; it covers the text without it.
void require_intact(std::string_view text) {
    constexpr std::string_view BEFORE = ",\"digest\":\"", AFTER = "\"}";
    constexpr size_t LENGTH = BEFORE.size() + DIGEST_LENGTH + AFTER.size();
    bool intact = text.size() > LENGTH;
    if (intact) {
        const std::string_view end = text.substr(text.size() - LENGTH);
        Sha256 sha;
        sha.update(text.substr(0, text.size() - LENGTH));
        sha.update("}");
        intact = end.substr(0, BEFORE.size()) == BEFORE && end.substr(LENGTH - AFTER.size()) == AFTER &&
                 end.substr(BEFORE.size(), DIGEST_LENGTH) == sha.finish();
    }
    if (!intact) throw std::invalid_argument("its manifest was changed: the digest differs");
}

void require_version(Fields& fields) {
    const int64_t version = fields.integer("version", 1, (int64_t{1} << 31) - 1);
    if (version > VERSION) {
        throw std::invalid_argument("it has version " + std::to_string(version) + ", this binaryrelax-native reads " +
                                    std::to_string(VERSION) + ": update it");
    }
    if (version < VERSION) {
        throw std::invalid_argument("it has version " + std::to_string(version) +
                                    ", which holds no program: make a file with binaryrelax.export_native");
    }
}

std::map<std::string, std::string> read_texts(Fields& fields, const char* name) {
    std::map<std::string, std::string> texts;
    for (const Json::Member& member : fields.object(name)) {
        if (!member.value.text()) fields.fail(quoted(name) + " holds other than text");
        texts[member.name] = *member.value.text();
    }
    return texts;
}

int64_t product(const std::vector<int64_t>& sizes) {
    int64_t result = 1;
    for (const int64_t size : sizes) result *= size;
    return result;
}

void read_shape(Fields& fields, LayerEntry& entry) {
    const size_t dimensions = fields.choice("kind", {"linear", "conv2d"}) == 0 ? 2 : 4;
    for (const Json& size : fields.list("shape")) {
        if (!size.integer() || *size.integer() < 1 || *size.integer() > MOST_SIZE) fields.fail("its shape is none");
        entry.shape.push_back(*size.integer());
        // After each size, so that no product overflows.
        if (entry.shape.size() > dimensions || product(entry.shape) > MOST_WEIGHTS) fields.fail("its shape is none");
    }
    if (entry.shape.size() != dimensions) fields.fail("its shape is none");
    if (entry.row_length() > MOST_SIZE) fields.fail("a row of it is too long");
}

void read_codebook(Fields& fields, LayerEntry& entry) {
    for (const Json& level : fields.list("codebook")) {
        if (entry.codebook.size() == MOST_LEVELS) fields.fail("its codebook has more than 256 levels");
        entry.codebook.push_back(checked_float(level, fields.where() + ": a level"));
        const size_t count = entry.codebook.size();
        if (count > 1 && !(entry.codebook[count - 2] < entry.codebook[count - 1])) {
            fields.fail("it has no increasing codebook");
        }
    }
    if (entry.codebook.size() < 2) fields.fail("it has no increasing codebook");
    while (size_t{1} << entry.bits < entry.codebook.size()) ++entry.bits;
}

void read_granularity(Fields& fields, LayerEntry& entry) {
    const Json& granularity = fields.need("granularity");
    const int64_t* group = granularity.integer();
    if (granularity.text() && *granularity.text() == "layer") {
        entry.num_scales = 1;
    } else if (granularity.text() && *granularity.text() == "channel") {
        entry.num_scales = entry.outputs();
    } else if (group && *group >= 1 && entry.row_length() % *group == 0) {
        entry.num_scales = entry.outputs() * (entry.row_length() / *group);
    } else {
        fields.fail("its granularity is no way to cut its rows");
    }
}

bool is_ternary(const std::vector<float>& levels) { return levels == std::vector<float>{-1, 0, 1}; }

// Weights in half precision are rounded after the scale has multiplied a level. We do not round; with the levels
// of 1 bit and ternary weights there is nothing to round.
void check_dtype(Fields& fields, const LayerEntry& entry) {
    const bool is_half = fields.choice("dtype", {"float32", "float16", "bfloat16"}) != 0;
    const bool is_exact = is_ternary(entry.codebook) || entry.codebook == std::vector<float>{-1, 1};
    if (is_half && !is_exact) fields.fail("weights in half precision run if they are binary or ternary only");
}

LayerEntry read_layer(const std::string& name, const Json& json) {
    Fields fields(json, "layer " + quoted(name));
    LayerEntry entry;
    read_shape(fields, entry);
    read_codebook(fields, entry);
    read_granularity(fields, entry);
    check_dtype(fields, entry);
    entry.is_trits = fields.choice("layout", {"bits", "trits"}) == 1;
    if (entry.is_trits && !is_ternary(entry.codebook)) fields.fail("it is not ternary, but trits");
    entry.digest = fields.text("digest");
    if (!is_digest(entry.digest)) fields.fail("it has no digest");
    fields.finish();
    return entry;
}

void check_folded(Fields& fields) {
    for (const Json& name : fields.list("folded")) {
        if (!name.text()) fields.fail("'folded' holds other than text");
    }
}

}  // namespace

int64_t LayerEntry::row_length() const { return product(shape) / shape[0]; }

int64_t LayerEntry::stored_row_bytes() const {
    return is_trits ? (row_length() + 4) / 5 : (row_length() * bits + 7) / 8;
}

Manifest read_manifest(const std::string& text) {
    Json json;
    try {
        json = parse_json(text);
    } catch (const std::invalid_argument& error) {
        throw std::invalid_argument("its manifest is no JSON: " + std::string(error.what()));
    }
    Fields fields(json, "its manifest");
    require_version(fields);
    require_intact(text);
    Manifest manifest;
    for (const Json::Member& layer : fields.object("layers")) {
        manifest.layers[layer.name] = read_layer(layer.name, layer.value);
    }
    manifest.tensors = read_texts(fields, "tensors");
    for (const auto& [name, digest] : manifest.tensors) {
        if (!is_digest(digest)) fields.fail("the digest of " + quoted(name) + " is none");
    }
    manifest.tied = read_texts(fields, "tied");
    manifest.about = read_texts(fields, "about");
    check_folded(fields);
    fields.text("digest");
    manifest.program = fields.need("program");
    fields.finish();
    return manifest;
}

}  // namespace binaryrelax
