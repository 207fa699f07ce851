#include "byte_layer.hpp"

#include <algorithm>
#include <atomic>

namespace binaryrelax {
namespace {

constexpr int64_t WHOLE_PANEL = 40 << 10;  // bytes: a smaller panel stays expanded for all pixels
constexpr int64_t CHUNK = 16 << 10;        // bytes of a larger one at a time, to stay in the first cache
constexpr int64_t QUADS_OF_WORDS = 16;     // quads that fill whole words and whole steps

int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

CanonicalCodes canonical(const PackedTensor& weight) {
    return {weight.codes.data(), weight.outputs(), weight.row_length(), weight.bits};
}

int32_t level(const PackedTensor& weight, uint32_t code) {
    return weight.bits == 1 ? 2 * static_cast<int32_t>(code) - 1 : static_cast<int32_t>(code) - 1;
}

}  // namespace

ByteLayout ByteLayout::of(int64_t channels, Image image, int64_t top, int64_t left, int64_t bottom, int64_t right) {
    ByteLayout layout;
    layout.record = round_up(channels, 4);
    layout.row_bytes = (image.width + left + right) * layout.record;
    layout.image_bytes = (image.height + top + bottom) * layout.row_bytes;
    layout.top = top;
    layout.left = left;
    layout.bottom = bottom;
    layout.right = right;
    return layout;
}

bool ByteLayer::can(const PackedTensor& weight, const Geometry& geometry) {
    const bool known = weight.is_binary() || weight.is_ternary();
    const bool depthwise = geometry.inputs_in_group == 1 && geometry.groups == geometry.outputs;
    const bool aligned = geometry.groups == 1 || geometry.inputs_in_group % 4 == 0;
    return known && weight.scales_per_row == 1 && (depthwise || aligned);
}

ByteLayer::ByteLayer(const PackedTensor& weight, const Geometry& geometry, const Kernels& kernels)
    : geometry_(geometry),
      bits_(weight.bits),
      kernels_(&kernels),
      depthwise_(geometry.inputs_in_group == 1 && geometry.groups == geometry.outputs && geometry.groups > 1) {
    static std::atomic<uint64_t> made{0};
    identity_ = ++made;
    sum_weights(weight);
    if (depthwise_) {
        keep_depthwise(weight);
        return;
    }
    find_runs();
    find_chunks();
    std::vector<int64_t> places = sources();
    if (in_words()) spread(places);
    for (int64_t group = 0; group < geometry.groups; ++group) {
        tiles_.emplace_back(canonical(weight), group * outputs_in_group(), outputs_in_group(), places);
    }
}

void ByteLayer::find_runs() {
    const int64_t channels = geometry_.padded_inputs_in_group();
    const bool wastes_words = channels * bits_ % 32 != 0;
    const bool rows = geometry_.groups == 1 && geometry_.horizontal.dilation == 1 && (wastes_words || !in_words());
    for (int64_t i = 0; i < geometry_.vertical.kernel; ++i) {
        if (rows) {
            runs_.push_back({i, 0, geometry_.horizontal.kernel * channels});
            continue;
        }
        for (int64_t j = 0; j < geometry_.horizontal.kernel; ++j) runs_.push_back({i, j, channels});
    }
}

// Pieces and chunks are those of a full panel; smaller panels have the same.
void ByteLayer::find_chunks() {
    const int64_t step = kernels_->quads_per_step;
    const int64_t quad_bytes = std::min<int64_t>(MAX_SETS, (outputs_in_group() + LANES - 1) / LANES) * LANES * 4;
    int64_t all = 0;
    for (const Run& run : runs_) all += round_up(run.bytes / 4, step);
    const int64_t room = all * quad_bytes <= WHOLE_PANEL ? all : round_up(CHUNK / quad_bytes, QUADS_OF_WORDS);
    int64_t word = 0, filled = 0, most = 0;
    Chunk chunk{0, 0, 0, 0};
    auto close = [&] {
        chunk.end_piece = static_cast<int64_t>(pieces_.size());
        chunk.steps = filled / step;
        chunks_.push_back(chunk);
        most = std::max(most, filled);
        chunk = {chunk.end_piece, 0, chunk.first_step + chunk.steps, 0};
        filled = 0;
    };
    for (size_t run = 0; run < runs_.size(); ++run) {
        const int64_t quads = runs_[run].bytes / 4;
        for (int64_t quad = 0; quad < quads;) {
            int64_t fits = room - filled;
            if (fits < quads - quad) fits = fits / QUADS_OF_WORDS * QUADS_OF_WORDS;
            if (fits <= 0) {
                close();
                continue;
            }
            const int64_t taken = std::min(fits, quads - quad);
            const int64_t padded = round_up(taken, step);
            pieces_.push_back({word + quad * 4 * bits_ / 32, taken, padded, static_cast<int64_t>(run), quad * 4});
            filled += padded;
            quad += taken;
        }
        word += words_of(runs_[run]);
    }
    close();
    panel_bytes_ = most * quad_bytes;
}

std::vector<int64_t> ByteLayer::sources() const {
    std::vector<int64_t> places;
    const int64_t channels = geometry_.padded_inputs_in_group(), taps = geometry_.taps();
    for (const Run& run : runs_) {
        const int64_t all = words_of(run) * 32 / bits_;
        for (int64_t place = 0; place < all; ++place) {
            const int64_t channel = place % channels, column = run.column + place / channels;
            const bool there = place < run.bytes && channel < geometry_.inputs_in_group;
            const int64_t tap = run.row * geometry_.horizontal.kernel + column;
            places.push_back(there ? channel * taps + tap : -1);
        }
    }
    return places;
}

// So that a shift of a word brings the codes of a quad to the same place of its four bytes.
void ByteLayer::spread(std::vector<int64_t>& sources) const {
    const size_t quads = 8 / static_cast<size_t>(bits_), places = 4 * quads;
    std::vector<int64_t> word(places);
    for (size_t first = 0; first < sources.size(); first += places) {
        for (size_t i = 0; i < places; ++i) word[i % 4 * quads + i / 4] = sources[first + i];
        std::copy(word.begin(), word.end(), sources.begin() + static_cast<std::ptrdiff_t>(first));
    }
}

// Places of missing channels count as the code 0, which is what they expand to.
void ByteLayer::sum_weights(const PackedTensor& weight) {
    const CanonicalCodes codes = canonical(weight);
    const int64_t missing =
        depthwise_ ? 0 : (geometry_.padded_inputs_in_group() - geometry_.inputs_in_group) * geometry_.taps();
    const auto places = static_cast<int32_t>(codes.inputs + missing);
    for (int64_t output = 0; output < codes.outputs; ++output) {
        weight_sums_.push_back((weight.bits == 1 ? 2 : 1) * codes.sum(output) - places);
    }
}

void ByteLayer::keep_depthwise(const PackedTensor& weight) {
    const CanonicalCodes codes = canonical(weight);
    for (int64_t tap = 0; tap < geometry_.taps(); ++tap) {
        for (int64_t output = 0; output < geometry_.outputs; ++output) {
            depthwise_weights_.push_back(static_cast<int8_t>(level(weight, codes.code(output, tap))));
        }
    }
}

int64_t ByteLayer::bytes() const {
    int64_t total = static_cast<int64_t>(depthwise_weights_.size() + weight_sums_.size() * sizeof(int32_t));
    for (const Tiles& tiles : tiles_) total += tiles.bytes();
    return total;
}

template <typename Place>
std::vector<int64_t> ByteLayer::offsets(Place place) const {
    const int64_t step = kernels_->quads_per_step;
    std::vector<int64_t> found;
    for (const Piece& piece : pieces_) {
        for (int64_t quad = 0; quad < piece.padded_quads; quad += step) {
            found.push_back(place(piece.run) + piece.byte + quad * 4);
        }
    }
    return found;
}

std::vector<int64_t> ByteLayer::offsets_in_map(const ByteLayout& layout) const {
    if (depthwise_) {
        std::vector<int64_t> taps;
        for (int64_t i = 0; i < geometry_.vertical.kernel; ++i) {
            for (int64_t j = 0; j < geometry_.horizontal.kernel; ++j) {
                taps.push_back(i * geometry_.vertical.dilation * layout.row_bytes +
                               j * geometry_.horizontal.dilation * layout.record);
            }
        }
        return taps;
    }
    return offsets([&](int64_t run) { return offset_of(runs_[run], layout); });
}

int64_t ByteLayer::offset_of(const Run& run, const ByteLayout& layout) const {
    return run.row * geometry_.vertical.dilation * layout.row_bytes +
           run.column * geometry_.horizontal.dilation * layout.record;
}

std::vector<CodeRun> ByteLayer::code_runs(const ByteLayout& layout) const {
    std::vector<CodeRun> found;
    int64_t word = 0;
    for (const Run& run : runs_) {
        found.push_back({word, run.bytes / 4, offset_of(run, layout)});
        word += words_of(run);
    }
    return found;
}

std::vector<ByteLayer::TapSteps> ByteLayer::tap_steps(const Chunk& chunk) const {
    const int64_t tap_quads = geometry_.padded_inputs_in_group() / 4;
    std::vector<TapSteps> found;
    int64_t step = chunk.first_step;
    for (int64_t index = chunk.first_piece; index < chunk.end_piece; ++index) {
        const Piece& piece = pieces_[index];
        const Run& run = runs_[piece.run];
        for (int64_t quad = 0; quad < piece.quads;) {
            const int64_t in_run = piece.byte / 4 + quad;
            const int64_t taken = std::min(tap_quads - in_run % tap_quads, piece.quads - quad);
            found.push_back({run.row, run.column + in_run / tap_quads, step, taken});
            quad += taken;
            step += taken;
        }
    }
    return found;
}

int64_t ByteLayer::gathered_run(int64_t run) const {
    int64_t start = 0;
    for (int64_t i = 0; i < run; ++i) start += round_up(runs_[i].bytes, 4 * kernels_->quads_per_step);
    return start;
}

int64_t ByteLayer::gathered_bytes() const { return gathered_run(static_cast<int64_t>(runs_.size())); }

std::vector<int64_t> ByteLayer::offsets_in_rows() const {
    return offsets([&](int64_t run) { return gathered_run(run); });
}

void ByteLayer::expand(int64_t group, int64_t panel, const Chunk& chunk, int8_t* out) const {
    const Tiles& tiles = tiles_[group];
    const int sets = tiles.panel_sets(panel);
    const uint32_t* words = tiles.panel(panel);
    for (int64_t index = chunk.first_piece; index < chunk.end_piece; ++index) {
        const Piece& piece = pieces_[index];
        kernels_->expand(words + piece.word * sets * LANES, sets, piece.quads, bits_, out);
        out += piece.quads * sets * LANES * 4;
        const int64_t missing = (piece.padded_quads - piece.quads) * sets * LANES * 4;
        std::fill_n(out, missing, int8_t{0});
        out += missing;
    }
}

}  // namespace binaryrelax
