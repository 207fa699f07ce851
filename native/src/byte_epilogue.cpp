#include "byte_epilogue.hpp"

#include <algorithm>
#include <limits>

namespace binaryrelax {
namespace {

// Where an output of the pixels of a run lies.
template <typename Byte>
void list_bytes(const Bound& bound, const ByteMap& map, const PixelRun& run, int64_t output, Byte** out) {
    Byte* place = bound.at<uint8_t>(map.buffer) + map.layout.pixel(run.image, run.y, run.x) + output;
    for (int i = 0; i < run.count; ++i, place += map.layout.record) out[i] = place;
}

template <typename Float>
void list_floats(const Bound& bound, const FloatMap& map, const PixelRun& run, int64_t output, Float** out) {
    const Shape& shape = map.shape;
    const int64_t pixel = (run.image * shape.height + run.y) * shape.width + run.x;
    Float* place = bound.at<float>(map.buffer) + pixel * shape.channels + output;
    for (int i = 0; i < run.count; ++i, place += shape.channels) out[i] = place;
}

thread_local AlignedBuffer<float> thread_floats;

}  // namespace

ByteEpilogue::ByteEpilogue(const OperationLayer& owner, const ByteMap& from, Added added, Target to, const Shape& output)
    : owner_(owner), kernels_(owner.bytes->kernels()), output_(output), scales_(from.scales) {
    if (added.bytes) added_bytes_ = *added.bytes;
    if (added.floats) added_floats_ = *added.floats;
    if (to.bytes) to_bytes_ = *to.bytes;
    if (to.floats) to_floats_ = *to.floats;
    find_factors(*owner.bytes, from);
    find_limits();
}

// What the kernels multiply sums with and add, for bytes or floats as the output is.
void ByteEpilogue::find_factors(const ByteLayer& layer, const ByteMap& from) {
    const float unit = to_bytes_ && is_fused() ? 1.0f / to_bytes_->scale : 1.0f;
    const float x_scale = from.scales < 0 ? from.scale : 1.0f;
    float shift = is_fused() && to_bytes_ ? static_cast<float>(to_bytes_->zero) : 0.0f;
    added_scale_ = unit;
    if (added_bytes_) {
        added_scale_ = added_bytes_->scale * unit;
        shift -= added_scale_ * static_cast<float>(added_bytes_->zero);
    }
    for (size_t output = 0; output < owner_.scale.size(); ++output) {
        factors_.push_back(owner_.scale[output] * x_scale * unit);
        biases_.push_back(owner_.bias[output] * unit + shift);
        corrections_.push_back(-from.zero * layer.weight_sums()[output]);
    }
}

void ByteEpilogue::find_limits() {
    low_ = -std::numeric_limits<float>::infinity();
    high_ = std::numeric_limits<float>::infinity();
    switch (owner_.activation.kind) {
        case ActivationKind::Relu: low_ = 0.0f; break;
        case ActivationKind::Relu6: low_ = 0.0f, high_ = 6.0f; break;
        case ActivationKind::Clamp: low_ = owner_.activation.low, high_ = owner_.activation.high; break;
        default: break;
    }
    if (to_bytes_ && is_fused()) {
        const float unit = 1.0f / to_bytes_->scale, zero = static_cast<float>(to_bytes_->zero);
        low_ = std::clamp(low_ * unit + zero, 0.0f, 255.0f);
        high_ = std::clamp(high_ * unit + zero, 0.0f, 255.0f);
    }
}

// Whether the kernel that writes outputs also does the activation: one that only limits.
bool ByteEpilogue::is_fused() const {
    switch (owner_.activation.kind) {
        case ActivationKind::None:
        case ActivationKind::Relu:
        case ActivationKind::Relu6:
        case ActivationKind::Clamp: return true;
        default: return false;
    }
}

uint32_t* ByteEpilogue::magnitudes(const Bound& bound, int64_t unit) const {
    return to_floats_->magnitudes(bound) + unit * output_.images;
}

void ByteEpilogue::begin(const Bound& bound, int64_t unit) const {
    if (to_floats_ && to_floats_->is_measured) std::fill_n(magnitudes(bound, unit), output_.images, 0u);
}

// Each image has a magnitude of its own.
void ByteEpilogue::write(const Bound& bound, int64_t unit, const PixelRun* runs, int num_runs, int64_t first_output,
                         int64_t outputs, const int32_t* totals) const {
    if (!to_floats_ || !to_floats_->is_measured) {
        return write_job(bound, unit, runs, num_runs, first_output, outputs, totals);
    }
    for (int begin = 0, end = 0; begin < num_runs; begin = end) {
        int pixels = 0;
        for (; end < num_runs && runs[end].image == runs[begin].image; ++end) pixels += runs[end].count;
        write_job(bound, unit, runs + begin, end - begin, first_output, outputs, totals);
        totals += pixels * PANEL;
    }
}

void ByteEpilogue::write_job(const Bound& bound, int64_t unit, const PixelRun* runs, int num_runs, int64_t first_output,
                             int64_t outputs, const int32_t* totals) const {
    uint8_t* bytes[MOST];
    float* floats[MOST];
    float x_scales[MOST];
    const uint8_t* added_bytes[MOST];
    const float* added_floats[MOST];
    int count = 0;
    for (const PixelRun* run = runs; run < runs + num_runs; count += run->count, ++run) {
        if (scales_ >= 0) std::fill_n(x_scales + count, run->count, bound.at<const float>(scales_)[run->image]);
        if (to_bytes_) list_bytes(bound, *to_bytes_, *run, first_output, bytes + count);
        if (added_bytes_) list_bytes(bound, *added_bytes_, *run, first_output, added_bytes + count);
        if (to_floats_) list_floats(bound, *to_floats_, *run, first_output, floats + count);
        if (added_floats_) list_floats(bound, *added_floats_, *run, first_output, added_floats + count);
    }
    const OutputJob job{totals, count, outputs, corrections_.data() + first_output, factors_.data() + first_output,
                        biases_.data() + first_output, scales_ >= 0 ? x_scales : nullptr,
                        added_bytes_ ? added_bytes : nullptr, added_floats_ ? added_floats : nullptr, added_scale_,
                        low_, high_, to_bytes_ ? bytes : nullptr, to_bytes_ ? nullptr : floats,
                        to_floats_ && to_floats_->is_measured ? magnitudes(bound, unit) + runs->image : nullptr};
    is_fused() ? kernels_.write_outputs(job) : write_activated(job);
}

// Other activations are computed on floats first.
void ByteEpilogue::write_activated(OutputJob job) const {
    float* values = thread_floats.reserve(MOST * PANEL);
    float* floats[MOST];
    for (int i = 0; i < job.num_pixels; ++i) floats[i] = job.bytes ? values + i * PANEL : job.floats[i];
    uint8_t* const* bytes = job.bytes;
    uint32_t* const magnitude = job.magnitude;
    job.bytes = nullptr;
    job.magnitude = nullptr;
    job.floats = floats;
    kernels_.write_outputs(job);
    for (int i = 0; i < job.num_pixels; ++i) {
        apply_activation(owner_.activation, floats[i], job.outputs);
        if (magnitude) *magnitude = std::max(*magnitude, kernels_.largest_magnitude(floats[i], job.outputs));
        if (!bytes) continue;
        kernels_.quantize(floats[i], job.outputs, 1.0f / to_bytes_->scale, static_cast<float>(to_bytes_->zero), bytes[i]);
    }
}

void ByteEpilogue::write_border(const Bound& bound, int64_t image) const {
    fill_border(bound, *to_bytes_, image);
    fill_unused(bound, *to_bytes_, image);
}

void ByteEpilogue::add_reads(std::vector<int>& reads) const {
    if (scales_ >= 0) reads.push_back(scales_);
    if (added_bytes_) reads.push_back(added_bytes_->buffer);
    if (added_floats_) reads.push_back(added_floats_->buffer);
}

}  // namespace binaryrelax
