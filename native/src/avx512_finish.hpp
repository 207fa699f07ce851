// How sums in float32 become outputs, with AVX-512. The functions are local to each file.
#pragma once

#include "avx512.hpp"
#include "float_kernels.hpp"

namespace binaryrelax {
namespace avx512 {

void filter_channels(const FilterJob& job);

namespace {

// Totals as outputs. Of a number and a NaN, the limits return the second operand.
struct Finish {
    __m512 factor, bias, low, high;

    Finish(const FloatFinish& job, int64_t i, __mmask16 lanes)
        : factor(job.factor ? _mm512_maskz_loadu_ps(lanes, job.factor + i) : _mm512_set1_ps(1.0f)),
          bias(job.bias ? _mm512_maskz_loadu_ps(lanes, job.bias + i) : _mm512_setzero_ps()),
          low(_mm512_set1_ps(job.low)),
          high(_mm512_set1_ps(job.high)) {}

    __m512 of(__m512 total) const { return limited(_mm512_fmadd_ps(total, factor, bias)); }
    __m512 of(__m512 total, __m512 added) const {
        return limited(_mm512_add_ps(_mm512_fmadd_ps(total, factor, bias), added));
    }
    __m512 limited(__m512 value) const { return _mm512_min_ps(high, _mm512_max_ps(low, value)); }
};

}  // namespace
}  // namespace avx512
}  // namespace binaryrelax
