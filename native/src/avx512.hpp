// What both AVX-512 files use. The functions are local to each file.
#pragma once

#include "x86.hpp"

namespace binaryrelax {
namespace avx512 {
namespace {

// The order in which the words of a panel are read: at four places at once, a quarter of the words each, because
// memory answers more requests that way. Where a quarter ends, the same quarter of the next panel is fetched.
class QuarterWalk {
  public:
    explicit QuarterWalk(int64_t num_words) : num_words_(num_words), quarter_(num_words / 4) {}

    bool done() const { return word_ >= num_words_; }
    int64_t word() const { return word_; }

    inline void next() {
        if (word_ >= 4 * quarter_) {
            ++word_;  // the one to three words that are left over
            return;
        }
        word_ += quarter_;
        if (word_ < 4 * quarter_) return;
        ++step_;
        word_ = step_ < quarter_ ? step_ : 4 * quarter_;
    }

    template <int SETS>
    inline void prefetch(const uint32_t* panel) const {
        constexpr int64_t AHEAD = BYTES_AHEAD / (SETS * LANES * 4);
        const int64_t ahead = step_ + AHEAD < quarter_ ? AHEAD : AHEAD + num_words_ - quarter_;
        const uint32_t* line = panel + (word_ + ahead) * SETS * LANES;
        UNROLL for (int set = 0; set < SETS; ++set) _mm_prefetch(line + set * LANES, _MM_HINT_T0);
    }

  private:
    const int64_t num_words_;
    const int64_t quarter_;
    int64_t step_ = 0;
    int64_t word_ = 0;
};

inline __mmask16 first_lanes(int64_t count) {
    return count >= LANES ? static_cast<__mmask16>(0xffff) : static_cast<__mmask16>((1u << count) - 1);
}

// Kernels are compiled for every number of pixels and sets, so that the sums stay in registers.
template <template <int, int> class Kernel, typename Job>
void choose(const Job& job) {
    using Run = void (*)(const Job&);
    static constexpr Run RUNS[MAX_PIXELS][MAX_SETS] = {
        {Kernel<1, 1>::run, Kernel<1, 2>::run, Kernel<1, 3>::run, Kernel<1, 4>::run},
        {Kernel<2, 1>::run, Kernel<2, 2>::run, Kernel<2, 3>::run, Kernel<2, 4>::run},
        {Kernel<3, 1>::run, Kernel<3, 2>::run, Kernel<3, 3>::run, Kernel<3, 4>::run},
        {Kernel<4, 1>::run, Kernel<4, 2>::run, Kernel<4, 3>::run, Kernel<4, 4>::run},
        {Kernel<5, 1>::run, Kernel<5, 2>::run, Kernel<5, 3>::run, Kernel<5, 4>::run},
        {Kernel<6, 1>::run, Kernel<6, 2>::run, Kernel<6, 3>::run, Kernel<6, 4>::run}};
    RUNS[job.num_pixels - 1][job.sets - 1](job);
}

}  // namespace
}  // namespace avx512
}  // namespace binaryrelax
