// The step that multiplies a packed layer's weights with bytes, and writes what the next layers read.
#include <algorithm>
#include <memory>

#include "byte_epilogue.hpp"

namespace binaryrelax {
namespace {

constexpr int64_t UNITS_PER_THREAD = 2;  // a panel that several units share is expanded several times
constexpr double MOST_INSIDE = 0.9;      // of a layer's products: if more are, those with padding are made as well

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A thread's room. What was expanded last stays, so that the next unit of the same panel finds it.
struct Room {
    AlignedBuffer<int8_t> panel;
    AlignedBuffer<int32_t> totals;
    uint64_t layer = 0;     // the identity of its owner
    int64_t expanded = -1;  // group * panels + panel
};
thread_local Room room;

// Pixels of the output, in groups of up to 16 that kernels take together.
struct Pixels {
    int64_t width, per_row, groups;  // of a line of pixels, that groups do not cross

    Pixels(bool in_rows, Shape output)
        : width(in_rows ? output.width : output.pixels()), per_row(divide_up(width, GROUP)),
          groups(output.pixels() / std::max<int64_t>(1, width) * per_row) {}

    int64_t first(int64_t group) const { return group / per_row * width + group % per_row * GROUP; }
    int64_t count(int64_t group) const { return std::min<int64_t>(GROUP, width - group % per_row * GROUP); }
};

struct Place {
    int64_t image, y, x;
};

class MultiplyWork {
  public:
    MultiplyWork(const OperationLayer& owner, const ByteMap& from, int rows, Access access, Added added, Target to,
                 Shape output, int threads)
        : layer_(*owner.bytes), kernels_(layer_.kernels()), from_(from), rows_(rows), access_(access), output_(output),
          pixels_(access == Access::Rows, output), padded_(kernels_.quads_per_step > 1 && !layer_.is_depthwise()),
          epilogue_(owner, from, added, to, output) {
        if (layer_.in_words()) {
            runs_ = layer_.code_runs(from.layout);
        } else if (access == Access::Gathered) {
            offsets_ = layer_.offsets_in_rows();
            stride_ = layer_.gathered_bytes();
        } else {
            offsets_ = layer_.offsets_in_map(from.layout);
            stride_ = from.layout.record * (access == Access::Matrix ? 1 : layer_.geometry().horizontal.stride);
        }
        const int64_t panels = layer_.groups() * layer_.panels();
        const int64_t wanted = divide_up(UNITS_PER_THREAD * threads, std::max<int64_t>(1, panels));
        const int64_t shared = threads == 1 ? pixels_.groups : divide_up(pixels_.groups, wanted);
        groups_in_unit_ = std::clamp<int64_t>(shared, std::min<int64_t>(2, pixels_.groups), MOST_PIXELS / GROUP);
        blocks_ = divide_up(pixels_.groups, groups_in_unit_);
        if (!pays_to_skip_padding() || (layer_.in_words() && !layer_.tap_is_run())) return;
        find_inside();
        for (const ByteLayer::Chunk& chunk : layer_.chunks()) taps_.push_back(layer_.tap_steps(chunk));
    }

    int64_t units() const {
        return layer_.groups() * layer_.panels() * blocks_ + (epilogue_.has_border() ? output_.images : 0);
    }
    const ByteEpilogue& epilogue() const { return epilogue_; }

    void operator()(const Bound& bound, int64_t unit) const {
        const int64_t work = layer_.groups() * layer_.panels() * blocks_;
        if (unit >= work) return epilogue_.write_border(bound, unit - work);
        const int64_t index = unit / blocks_, group = index / layer_.panels(), panel = index % layer_.panels();
        const int64_t begin = unit % blocks_ * groups_in_unit_;
        const int64_t end = std::min(begin + groups_in_unit_, pixels_.groups);
        epilogue_.begin(bound, unit);
        multiply(bound, group, panel, begin, end);
        write(bound, unit, group * layer_.outputs_in_group() + panel * PANEL, layer_.panel_outputs(panel), begin, end);
    }

  private:
    Place place(int64_t pixel) const {
        const int64_t row = pixel / output_.width;
        return {row / output_.height, row % output_.height, pixel % output_.width};
    }

    // Where `count` pixels from `pixel` on begin.
    void find_starts(const Bound& bound, int64_t group, int64_t pixel, int64_t count, const uint8_t** starts) const {
        const uint8_t* first = bound.at<const uint8_t>(access_ == Access::Gathered ? rows_ : from_.buffer);
        if (access_ == Access::Gathered || access_ == Access::Matrix) {
            const int64_t all = access_ == Access::Matrix ? 0 : divide_up(output_.pixels(), GROUP) * GROUP;
            for (int64_t i = 0; i < count; ++i) starts[i] = first + (group * all + pixel + i) * stride_;
            return;
        }
        const Geometry& geometry = layer_.geometry();
        first += group * geometry.padded_inputs_in_group();
        const Axis &vertical = geometry.vertical, &horizontal = geometry.horizontal;
        for_each_row(pixel, count, [&](Place at, int64_t i, int64_t in_row) {
            const uint8_t* start = first + from_.layout.pixel(at.image, at.y * vertical.stride - vertical.padding,
                                                              at.x * horizontal.stride - horizontal.padding);
            for (int64_t x = 0; x < in_row; ++x, start += horizontal.stride * from_.layout.record) starts[i + x] = start;
        });
    }

    // Calls `act(place, index, count)` for each piece of a row among pixels that follow one another.
    template <typename Act>
    void for_each_row(int64_t pixel, int64_t count, Act act) const {
        Place at = place(pixel);
        for (int64_t done = 0; done < count; at.x = 0) {
            const int64_t in_row = std::min(count - done, output_.width - at.x);
            act(at, done, in_row);
            done += in_row;
            if (++at.y < output_.height) continue;
            at.y = 0;
            ++at.image;
        }
    }

    // Where the pixels of a unit stand in its totals: every group at a multiple of 16 where tiles want that.
    int slots(int64_t begin, int64_t end) const {
        if (padded_) return static_cast<int>((end - begin) * GROUP);
        int count = 0;
        for (int64_t group = begin; group < end; ++group) count += static_cast<int>(pixels_.count(group));
        return count;
    }

    void multiply(const Bound& bound, int64_t group, int64_t panel, int64_t begin, int64_t end) const {
        const uint8_t* starts[MOST_PIXELS];
        int slot = 0;
        for (int64_t index = begin; index < end; ++index) {
            const int64_t first = pixels_.first(index), count = padded_ ? 1 : pixels_.count(index);
            find_starts(bound, group, first, count, starts + slot);
            slot += static_cast<int>(padded_ ? GROUP : count);
        }
        int32_t* totals = room.totals.reserve(MOST_PIXELS * PANEL);
        if (layer_.is_depthwise()) {
            for (int i = 0; i < slot; ++i) starts[i] += panel * PANEL;
            kernels_.multiply_depthwise({starts, slot, layer_.panel_outputs(panel), layer_.geometry().taps(),
                                         offsets_.data(), layer_.depthwise_weights() + panel * PANEL,
                                         layer_.geometry().outputs, totals});
            return;
        }
        if (layer_.in_words()) return multiply_words(group, panel, begin / groups_in_unit_, starts, slot);
        if (!taps_.empty()) return multiply_inside(group, panel, begin / groups_in_unit_, starts, slot);
        int8_t* weights = room.panel.reserve(layer_.panel_bytes());
        for (const ByteLayer::Chunk& chunk : layer_.chunks()) {
            expand(group, panel, chunk, weights);
            kernels_.multiply({weights, layer_.panel_sets(group, panel), chunk.steps,
                               offsets_.data() + chunk.first_step, starts, stride_, slot, totals,
                               chunk.first_step == 0});
        }
    }

    // Whether enough of the products are with padding, that is with zeros, in a layer with enough channels.
    bool pays_to_skip_padding() const {
        const Geometry& geometry = layer_.geometry();
        if (padded_ || layer_.is_depthwise() || from_.zero != 0 || geometry.padded_inputs_in_group() < 64) return false;
        const auto inside = [](const Axis& axis, int64_t outputs, int64_t inputs) {
            int64_t count = 0;
            for (int64_t output = 0; output < outputs; ++output) {
                for (int64_t tap = 0; tap < axis.kernel; ++tap) count += is_inside(axis, output, tap, inputs);
            }
            return static_cast<double>(count) / static_cast<double>(outputs * axis.kernel);
        };
        return inside(geometry.vertical, output_.height, from_.shape.height) *
                   inside(geometry.horizontal, output_.width, from_.shape.width) < MOST_INSIDE;
    }

    static bool is_inside(const Axis& axis, int64_t output, int64_t tap, int64_t inputs) {
        const int64_t input = output * axis.stride - axis.padding + tap * axis.dilation;
        return input >= 0 && input < inputs;
    }

    // For each block of pixels and each tap: the pixels for which the tap does not lie in the padding.
    void find_inside() {
        const Axis &vertical = layer_.geometry().vertical, &horizontal = layer_.geometry().horizontal;
        for (int64_t block = 0; block < blocks_; ++block) {
            const int64_t first = pixels_.first(block * groups_in_unit_);
            const int count = slots(block * groups_in_unit_, std::min((block + 1) * groups_in_unit_, pixels_.groups));
            for (int64_t tap = 0; tap < layer_.geometry().taps(); ++tap) {
                inside_.emplace_back();
                for (int slot = 0; slot < count; ++slot) {
                    const Place at = place(first + slot);
                    if (is_inside(vertical, at.y, tap / horizontal.kernel, from_.shape.height) &&
                        is_inside(horizontal, at.x, tap % horizontal.kernel, from_.shape.width)) {
                        inside_.back().push_back(slot);
                    }
                }
            }
        }
    }

    // Those of a tap; `kept` gets where they start.
    const std::vector<int>& inside(int64_t block, int64_t row, int64_t column, const uint8_t* const* starts,
                                   const uint8_t** kept) const {
        const int64_t tap = row * layer_.geometry().horizontal.kernel + column;
        const std::vector<int>& slots = inside_[block * layer_.geometry().taps() + tap];
        for (size_t i = 0; i < slots.size(); ++i) kept[i] = starts[slots[i]];
        return slots;
    }

    void multiply_words(int64_t group, int64_t panel, int64_t block, const uint8_t* const* starts, int count) const {
        WordsJob job{layer_.words(group, panel), layer_.panel_sets(group, panel), layer_.bits(), runs_.data(),
                     static_cast<int64_t>(runs_.size()), starts, count, room.totals.data(), true, nullptr};
        if (inside_.empty()) return kernels_.multiply_words(job);
        std::fill_n(job.totals, count * PANEL, 0);
        const uint8_t* kept[MOST_PIXELS];
        job.first = false;
        job.num_runs = 1;
        job.pixels = kept;
        for (const ByteLayer::Run& tap : layer_.runs()) {
            const std::vector<int>& slots = inside(block, tap.row, tap.column, starts, kept);
            job.slots = slots.data();
            job.num_pixels = static_cast<int>(slots.size());
            if (job.num_pixels > 0) kernels_.multiply_words(job);
            ++job.runs;
        }
    }

    // Tap by tap, without the pixels whose tap lies in the padding.
    void multiply_inside(int64_t group, int64_t panel, int64_t block, const uint8_t* const* starts, int count) const {
        int32_t* totals = room.totals.data();
        std::fill_n(totals, count * PANEL, 0);
        int8_t* weights = room.panel.reserve(layer_.panel_bytes());
        const int sets = layer_.panel_sets(group, panel);
        const uint8_t* kept[MOST_PIXELS];
        for (size_t index = 0; index < taps_.size(); ++index) {
            const ByteLayer::Chunk& chunk = layer_.chunks()[index];
            expand(group, panel, chunk, weights);
            for (const ByteLayer::TapSteps& tap : taps_[index]) {
                const std::vector<int>& slots = inside(block, tap.row, tap.column, starts, kept);
                if (slots.empty()) continue;
                kernels_.multiply({weights + (tap.first_step - chunk.first_step) * sets * LANES * 4, sets, tap.steps,
                                   offsets_.data() + tap.first_step, kept, stride_, static_cast<int>(slots.size()),
                                   totals, false, slots.data()});
            }
        }
    }

    void expand(int64_t group, int64_t panel, const ByteLayer::Chunk& chunk, int8_t* weights) const {
        const int64_t index = group * layer_.panels() + panel;
        const bool whole = layer_.chunks().size() == 1;
        if (whole && room.layer == layer_.identity() && room.expanded == index) return;
        layer_.expand(group, panel, chunk, weights);
        room.layer = whole ? layer_.identity() : 0;
        room.expanded = index;
    }

    void write(const Bound& bound, int64_t unit, int64_t first_output, int64_t outputs, int64_t begin,
               int64_t end) const {
        const int32_t* totals = room.totals.data();
        PixelRun runs[ByteEpilogue::MOST];
        for (int64_t index = begin; index < end; ++index) {
            const int64_t count = pixels_.count(index);
            int num_runs = 0;
            for_each_row(pixels_.first(index), count, [&](Place at, int64_t, int64_t in_row) {
                runs[num_runs++] = {at.image, at.y, at.x, static_cast<int>(in_row)};
            });
            epilogue_.write(bound, unit, runs, num_runs, first_output, outputs, totals);
            totals += (padded_ ? GROUP : count) * PANEL;
        }
    }

    const ByteLayer& layer_;
    const Kernels& kernels_;
    ByteMap from_;
    int rows_;
    Access access_;
    Shape output_;
    Pixels pixels_;
    bool padded_;
    ByteEpilogue epilogue_;
    std::vector<int64_t> offsets_;
    int64_t stride_ = 0, groups_in_unit_ = 1, blocks_ = 1;
    std::vector<CodeRun> runs_;  // where kernels take codes
    // Where padding is skipped: the taps of each chunk, and [block][tap] the pixels that have them inside.
    std::vector<std::vector<ByteLayer::TapSteps>> taps_;
    std::vector<std::vector<int>> inside_;
};

}  // namespace

bool will_gather(const ByteLayer& layer, Shape output) {
    if (layer.is_depthwise() || layer.kernels().quads_per_step == 1) return false;
    const int64_t padded = divide_up(output.width, GROUP) * GROUP;
    return layer.geometry().horizontal.stride > 2 || 5 * padded > 6 * output.width;
}

Access access_of(const ByteLayer& layer, const ByteLayout& layout, Shape output) {
    if (layer.is_depthwise() || layer.kernels().quads_per_step == 1) return Access::Anywhere;
    const Geometry& geometry = layer.geometry();
    const bool no_border = layout.top + layout.left + layout.bottom + layout.right == 0;
    const bool one_tap = geometry.taps() == 1 && geometry.vertical.stride == 1 && geometry.horizontal.stride == 1 &&
                         geometry.vertical.padding == 0 && geometry.horizontal.padding == 0 &&
                         geometry.vertical.more_after == 0 && geometry.horizontal.more_after == 0;
    if (no_border && one_tap && geometry.groups == 1) return Access::Matrix;
    return will_gather(layer, output) ? Access::Gathered : Access::Rows;
}

Step multiply_step(const std::string& name, const OperationLayer& layer, const ByteMap& from, int rows, Access access,
                   Added added, Target to, Shape output, int threads) {
    const auto work = std::make_shared<const MultiplyWork>(layer, from, rows, access, added, to, output, threads);
    Step step{name, work->units(), {access == Access::Gathered ? rows : from.buffer}, work->epilogue().writes(),
              [work](const Bound& bound, int64_t unit) { (*work)(bound, unit); }};
    work->epilogue().add_reads(step.reads);
    return step;
}

}  // namespace binaryrelax
