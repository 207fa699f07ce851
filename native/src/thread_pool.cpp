#include "thread_pool.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#if defined(__unix__) || defined(__APPLE__)
#define BINARYRELAX_FORKS
#include <pthread.h>
#endif

namespace binaryrelax {
namespace {

// Waking a sleeping thread takes about as long as a small layer. Threads therefore look for more work this
// long before they go to sleep: long enough for the next layer of a network, short enough not to be noticed.
constexpr std::chrono::microseconds PATIENCE{100};

// Looks at `condition` until it holds or patience ends.
template <typename Condition>
void watch(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + PATIENCE;
    while (!condition()) {
        for (int i = 0; i < 32 && !condition(); ++i) rest_cpu();
        if (std::chrono::steady_clock::now() > deadline) return;
    }
}

class ThreadPool {
  public:
    // False if another caller has the helpers.
    bool try_run(int helpers, void (*work)(void*), void* context) {
        std::unique_lock<std::mutex> caller(callers_, std::try_to_lock);
        if (!caller.owns_lock()) return false;
        start_threads(helpers);
        open(helpers, work, context);
        attempt(work, context);
        close();
        if (failed_.exchange(false)) throw std::bad_alloc();
        return true;
    }

  private:
    void start_threads(int wanted) {
        while (num_threads_ < wanted) {
            try {
                std::thread([this] { help(); }).detach();
            } catch (const std::system_error&) {
                return;  // the system allows no more threads: go on with fewer
            }
            ++num_threads_;
        }
    }

    // Only memory can run out inside the work; the caller hears of it whichever thread it was.
    void attempt(void (*work)(void*), void* context) {
        try {
            work(context);
        } catch (const std::bad_alloc&) {
            failed_ = true;
        }
    }

    void open(int helpers, void (*work)(void*), void* context) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            work_ = work;
            context_ = context;
            places_ = helpers;
            round_.fetch_add(1, std::memory_order_release);
        }
        work_is_there_.notify_all();
    }

    void close() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            places_ = 0;
        }
        watch([this] { return active_.load(std::memory_order_acquire) == 0; });
        std::unique_lock<std::mutex> lock(mutex_);
        all_are_done_.wait(lock, [this] { return active_.load(std::memory_order_acquire) == 0; });
    }

    void help() {
        uint64_t seen = 0;
        for (;;) {
            watch([&] { return round_.load(std::memory_order_acquire) != seen; });
            std::unique_lock<std::mutex> lock(mutex_);
            work_is_there_.wait(lock, [&] { return round_.load(std::memory_order_relaxed) != seen; });
            seen = round_.load(std::memory_order_relaxed);
            if (places_ == 0) continue;
            --places_;
            active_.fetch_add(1, std::memory_order_relaxed);
            const auto work = work_;
            void* const context = context_;
            lock.unlock();
            attempt(work, context);
            lock.lock();
            if (active_.fetch_sub(1, std::memory_order_release) == 1) all_are_done_.notify_one();
        }
    }

    std::mutex callers_;
    int num_threads_ = 0;

    std::mutex mutex_;
    std::condition_variable work_is_there_;
    std::condition_variable all_are_done_;
    std::atomic<uint64_t> round_{0};
    std::atomic<int> active_{0};
    std::atomic<bool> failed_{false};
    int places_ = 0;
    void (*work_)(void*) = nullptr;
    void* context_ = nullptr;
};

// Never destroyed: its threads sleep in it until the process ends.
std::atomic<ThreadPool*> the_pool{nullptr};

// A forked child has none of the threads, and locks in whatever state they were in: it starts afresh.
void forget_pool_in_child() { the_pool.store(nullptr); }

ThreadPool& pool() {
    ThreadPool* current = the_pool.load(std::memory_order_acquire);
    if (current) return *current;
#ifdef BINARYRELAX_FORKS
    static const int registered = pthread_atfork(nullptr, nullptr, forget_pool_in_child);
    static_cast<void>(registered);
#endif
    ThreadPool* fresh = new ThreadPool;
    if (the_pool.compare_exchange_strong(current, fresh)) return *fresh;
    delete fresh;
    return *current;
}

}  // namespace

void rest_cpu() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::this_thread::yield();
#endif
}

void yield_cpu() { std::this_thread::yield(); }

void run_in_threads(int threads, void (*work)(void*), void* context) {
    if (threads > 1 && pool().try_run(threads - 1, work, context)) return;
    work(context);
}

}  // namespace binaryrelax
