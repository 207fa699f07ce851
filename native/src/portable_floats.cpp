// The reference of the loops over floats: plain C++ for any CPU.
#include "float_kernels.hpp"
#include "kernels.hpp"
#include "multiply_add.hpp"

namespace binaryrelax {
namespace {

void add_run(const float* x, const float* weights, const FloatRun& run, int outputs, float* sums) {
    for (int64_t i = 0; i < run.length; ++i, weights += outputs) {
        const float input = x[run.offset + i];
        for (int output = 0; output < outputs; ++output) sums[output] = multiply_add(weights[output], input, sums[output]);
    }
}

void dot_channels(const ChannelJob& job) {
    for (int64_t pixel = 0; pixel < job.num_pixels; ++pixel) {
        const float* x = job.x + pixel * job.x_stride;
        float* y = job.y + pixel * job.y_stride;
        for (int64_t channel = 0; channel < job.channels; ++channel) y[channel] = 0.0f;
        for (int64_t tap = 0; tap < job.taps; ++tap) {
            const float *from = x + job.offsets[tap], *weights = job.weights[tap];
            for (int64_t channel = 0; channel < job.channels; ++channel) {
                y[channel] = multiply_add(weights[channel], from[channel], y[channel]);
            }
        }
    }
}

void expand_levels(const LevelJob& job) {
    const int outputs = job.sets * LANES, per_word = 32 / job.bits;
    const uint32_t mask = (1u << job.bits) - 1;
    for (int64_t input = 0; input < job.inputs; ++input) {
        const uint32_t* line = job.words + input / per_word * outputs;
        const int shift = static_cast<int>(input % per_word) * job.bits;
        const float* scales = job.scales + (job.scale_of_input ? job.scale_of_input[input] : 0) * int64_t{outputs};
        float* panel = job.panel + input * outputs;
        for (int output = 0; output < outputs; ++output) {
            panel[output] = job.levels[line[output] >> shift & mask] * scales[output];
        }
    }
}

void finish_floats(const FloatFinish& job) {
    for (int64_t pixel = 0; pixel < job.num_pixels; ++pixel) {
        const float* totals = job.totals + pixel * job.totals_stride;
        const float* added = job.added ? job.added + pixel * job.y_stride : nullptr;
        float* y = job.y + pixel * job.y_stride;
        for (int64_t i = 0; i < job.outputs; ++i) {
            float value = multiply_add(totals[i], job.factor ? job.factor[i] : 1.0f, job.bias ? job.bias[i] : 0.0f);
            if (added) value += added[i];
            const float raised = value < job.low ? job.low : value;
            y[i] = raised > job.high ? job.high : raised;
        }
    }
}

void dot_floats(const FloatJob& job) {
    const int outputs = job.sets * LANES;
    for (int pixel = 0; pixel < job.num_pixels; ++pixel) {
        float sums[PANEL] = {};
        const float* weights = job.panel;
        for (int64_t run = 0; run < job.num_runs; ++run) {
            add_run(job.pixels[pixel], weights, job.runs[run], outputs, sums);
            weights += job.runs[run].length * outputs;
        }
        float* totals = job.totals + pixel * job.totals_stride;
        for (int output = 0; output < outputs; ++output) {
            totals[output] = job.first ? sums[output] : sums[output] + totals[output];
        }
    }
    if (job.finish) finish_floats(*job.finish);
}

}  // namespace

const FloatKernels PORTABLE_FLOATS = {dot_floats, dot_channels, expand_levels, finish_floats, nullptr,
                                      &PORTABLE_FLOAT_TILES};

}  // namespace binaryrelax
