// How a layer's sums become what the next layers read: scaled, with bias and what is added, limited, as bytes or floats.
#pragma once

#include <optional>

#include "aligned_buffer.hpp"
#include "byte_steps.hpp"

namespace binaryrelax {

// Pixels that follow one another in a row.
struct PixelRun {
    int64_t image, y, x;
    int count;
};

class ByteEpilogue {
  public:
    ByteEpilogue(const OperationLayer& owner, const ByteMap& from, Added added, Target to, const Shape& output);

    // Pixels at each call, all runs together; and runs.
    static constexpr int MOST = GROUP;

    // What a unit does before it writes.
    void begin(const Bound& bound, int64_t unit) const;
    // Outputs `first_output` on, of one panel, of those pixels; totals are [pixel][PANEL].
    void write(const Bound& bound, int64_t unit, const PixelRun* runs, int num_runs, int64_t first_output,
               int64_t outputs, const int32_t* totals) const;
    // What is to be done for an image beside its pixels.
    bool has_border() const { return to_bytes_.has_value(); }
    void write_border(const Bound& bound, int64_t image) const;
    // The buffers that `write` reads, and the one that it writes.
    void add_reads(std::vector<int>& reads) const;
    int writes() const { return to_bytes_ ? to_bytes_->buffer : to_floats_->buffer; }

  private:
    void find_factors(const ByteLayer& layer, const ByteMap& from);
    void find_limits();
    bool is_fused() const;
    void write_activated(OutputJob job) const;
    uint32_t* magnitudes(const Bound& bound, int64_t unit) const;
    void write_job(const Bound& bound, int64_t unit, const PixelRun* runs, int num_runs, int64_t first_output,
                   int64_t outputs, const int32_t* totals) const;

    const OperationLayer& owner_;
    const Kernels& kernels_;
    Shape output_;
    int scales_;  // the buffer of the scales of images, or -1
    std::optional<ByteMap> added_bytes_, to_bytes_;
    std::optional<FloatMap> added_floats_, to_floats_;
    std::vector<float> factors_, biases_;
    std::vector<int32_t> corrections_;
    float added_scale_ = 0.0f, low_ = 0.0f, high_ = 0.0f;
};

}  // namespace binaryrelax
