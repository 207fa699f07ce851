// A packed layer for fast mode: activations and outputs in bytes, weights expanded to bytes a chunk at a time.
//
// The bytes that an output reads are runs: stretches without a gap in the map of activations. A kernel row is one run
// where channels are not grouped and columns are not dilated, else every tap is. Weights are stored run by run, each
// beginning with a new word, and a panel is multiplied in chunks of its runs that fit the innermost cache. Or, where
// kernels take codes as they are, runs are multiplied as a whole.
#pragma once

#include <cstdint>
#include <vector>

#include "geometry.hpp"
#include "kernels.hpp"
#include "network_file.hpp"
#include "tiles.hpp"

namespace binaryrelax {

// Where bytes of activations lie: [image][row][column][channel], with a border around each image.
struct ByteLayout {
    int64_t record = 0;       // bytes of a pixel: its channels and some more, to a multiple of four
    int64_t row_bytes = 0;    // border included
    int64_t image_bytes = 0;  // border included
    int64_t top = 0, left = 0, bottom = 0, right = 0;  // border, in pixels

    static ByteLayout of(int64_t channels, Image image, int64_t top, int64_t left, int64_t bottom, int64_t right);
    int64_t pixel(int64_t image, int64_t row, int64_t column) const {
        return image * image_bytes + (row + top) * row_bytes + (column + left) * record;
    }
    // Kernels may read so many bytes behind the last pixel.
    static constexpr int64_t SLACK = 128;
    int64_t bytes(int64_t images) const { return images * image_bytes + 2 * GROUP * record + SLACK; }
};

class ByteLayer {
  public:
    struct Run {
        int64_t row, column;  // of its first tap
        int64_t bytes;        // a multiple of four
    };
    struct Piece {
        int64_t word;          // of the panel, where its codes begin
        int64_t quads;
        int64_t padded_quads;  // to whole steps of the kernels
        int64_t run, byte;     // where its bytes begin
    };
    struct Chunk {
        int64_t first_piece, end_piece;
        int64_t first_step, steps;
    };

    struct TapSteps {  // those of a chunk that multiply what one tap reads
        int64_t row, column;
        int64_t first_step, steps;
    };

    // Whether weights and groups are of a kind that this layer multiplies.
    static bool can(const PackedTensor& weight, const Geometry& geometry);

    ByteLayer(const PackedTensor& weight, const Geometry& geometry, const Kernels& kernels);

    const Geometry& geometry() const { return geometry_; }
    const Kernels& kernels() const { return *kernels_; }
    uint64_t identity() const { return identity_; }  // no other layer of this process has it
    bool is_depthwise() const { return depthwise_; }
    int64_t groups() const { return depthwise_ ? 1 : geometry_.groups; }
    int64_t outputs_in_group() const { return geometry_.outputs / groups(); }
    int64_t panels() const { return (outputs_in_group() + PANEL - 1) / PANEL; }  // of a group
    int64_t panel_outputs(int64_t panel) const {
        const int64_t left = outputs_in_group() - panel * PANEL;
        return left < PANEL ? left : PANEL;
    }
    // The sum of the weights of each output, [output].
    const std::vector<int32_t>& weight_sums() const { return weight_sums_; }
    const std::vector<Run>& runs() const { return runs_; }
    const std::vector<Chunk>& chunks() const { return chunks_; }
    // Whether kernels take codes as they are.
    bool in_words() const { return kernels_->multiply_words && !depthwise_; }
    std::vector<CodeRun> code_runs(const ByteLayout& layout) const;
    bool tap_is_run() const { return static_cast<int64_t>(runs_.size()) == geometry_.taps(); }
    // Where a step is one quad.
    std::vector<TapSteps> tap_steps(const Chunk& chunk) const;
    int64_t steps() const { return chunks_.empty() ? 0 : chunks_.back().first_step + chunks_.back().steps; }
    int64_t bytes() const;

    // Where steps find their activations, from the first tap's pixel: in a map with this layout, or in rows that
    // `gathered_bytes` long rows hold run after run.
    std::vector<int64_t> offsets_in_map(const ByteLayout& layout) const;
    std::vector<int64_t> offsets_in_rows() const;
    int64_t gathered_bytes() const;
    int64_t gathered_run(int64_t run) const;  // where a run begins in such a row

    // Weights of a chunk as bytes; `panel_bytes` of room.
    int64_t panel_bytes() const { return panel_bytes_; }
    void expand(int64_t group, int64_t panel, const Chunk& chunk, int8_t* out) const;
    const uint32_t* words(int64_t group, int64_t panel) const { return tiles_[group].panel(panel); }
    int bits() const { return bits_; }
    int panel_sets(int64_t group, int64_t panel) const { return tiles_[group].panel_sets(panel); }
    const int8_t* depthwise_weights() const { return depthwise_weights_.data(); }  // [tap][output]

  private:
    void find_runs();
    void find_chunks();
    std::vector<int64_t> sources() const;
    void spread(std::vector<int64_t>& sources) const;
    int64_t offset_of(const Run& run, const ByteLayout& layout) const;
    int64_t words_of(const Run& run) const { return (run.bytes * bits_ + 31) / 32; }
    void sum_weights(const PackedTensor& weight);
    void keep_depthwise(const PackedTensor& weight);
    template <typename Place>
    std::vector<int64_t> offsets(Place place) const;

    Geometry geometry_;
    int bits_;
    const Kernels* kernels_;
    bool depthwise_;
    std::vector<Run> runs_;
    std::vector<Piece> pieces_;
    std::vector<Chunk> chunks_;
    int64_t panel_bytes_ = 0;
    std::vector<Tiles> tiles_;  // of each group
    std::vector<int8_t> depthwise_weights_;
    std::vector<int32_t> weight_sums_;
    uint64_t identity_;
};

}  // namespace binaryrelax
