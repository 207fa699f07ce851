// Threads that are started once and wait for work.
#pragma once

#include <atomic>
#include <cstdint>

namespace binaryrelax {

// Calls `work(context)` in the calling thread and in up to `threads - 1` others, and returns when all of
// them have. The work shares itself out (see `Shares`), so that it gets done however many threads come:
// a helper that wakes up late, or that another caller keeps busy, is not waited for.
void run_in_threads(int threads, void (*work)(void*), void* context);

template <typename Work>
void run_in_threads(int threads, Work& work) {
    run_in_threads(threads, [](void* context) { (*static_cast<Work*>(context))(); }, &work);
}

// What a thread does between two looks at something that is about to happen; and where it has looked for long.
void rest_cpu();
void yield_cpu();

// Hands out the numbers 0 to count - 1 in runs of `run`, each once, to whichever thread asks.
class Shares {
  public:
    Shares(int64_t count, int64_t run) : count_(count), run_(run < 1 ? 1 : run) {}

    bool take(int64_t& begin, int64_t& end) {
        begin = next_.fetch_add(run_, std::memory_order_relaxed);
        end = begin + run_ < count_ ? begin + run_ : count_;
        return begin < count_;
    }

  private:
    const int64_t count_;
    const int64_t run_;
    std::atomic<int64_t> next_{0};
};

}  // namespace binaryrelax
