#include "network.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>

#include "aligned_buffer.hpp"
#include "plan_builder.hpp"
#include "thread_pool.hpp"

namespace binaryrelax {
namespace {

constexpr size_t MOST_PLANS = 16;  // sizes of input that are remembered

// The units of a step, handed out to whoever asks. Every thread begins in a range of its own, so that it finds the
// weights of the last call in its cache; then it helps with the others'.
struct alignas(64) Range64 {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
};

class StepShares {
  public:
    void open(int64_t units, int ranges) {
        units_ = units;
        num_ranges_ = std::min(ranges, MOST_RANGES);
        for (int range = 0; range < num_ranges_; ++range) {
            ranges_[range].next.store(units * range / num_ranges_, std::memory_order_relaxed);
            ranges_[range].end = units * (range + 1) / num_ranges_;
        }
        done_.store(0, std::memory_order_release);
    }

    bool take(int own, int64_t& unit) {
        for (int i = 0; i < num_ranges_; ++i) {
            Range64& range = ranges_[(own + i) % num_ranges_];
            if (range.next.load(std::memory_order_relaxed) >= range.end) continue;
            unit = range.next.fetch_add(1, std::memory_order_relaxed);
            if (unit < range.end) return true;
        }
        return false;
    }

    void finished(int64_t units) { done_.fetch_add(units, std::memory_order_acq_rel); }
    bool all_done() const { return done_.load(std::memory_order_acquire) >= units_; }

  private:
    static constexpr int MOST_RANGES = 16;
    Range64 ranges_[MOST_RANGES];
    int num_ranges_ = 1;
    int64_t units_ = 0;
    std::atomic<int64_t> done_{0};
};

void wait_for(const StepShares& shares) {
    for (int64_t i = 0; !shares.all_done(); ++i) i < 2000 ? rest_cpu() : yield_cpu();
}

void run_steps(const Plan& plan, const Kernels& kernels, const Bound& bound, std::vector<StepShares>& shares,
               int own) {
    if (kernels.enter) kernels.enter();
    for (size_t index = 0; index < plan.steps().size(); ++index) {
        const Step& step = plan.steps()[index];
        int64_t count = 0;
        for (int64_t unit; shares[index].take(own, unit); ++count) step.run(bound, unit);
        if (count) shares[index].finished(count);
        wait_for(shares[index]);
    }
    if (kernels.leave) kernels.leave();
}

void run_timed(const Plan& plan, const Kernels& kernels, const Bound& bound, std::vector<StepTime>& times) {
    if (kernels.enter) kernels.enter();
    for (const Step& step : plan.steps()) {
        const auto begin = std::chrono::steady_clock::now();
        for (int64_t unit = 0; unit < step.units; ++unit) step.run(bound, unit);
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        times.push_back({step.name, taken.count()});
    }
    if (kernels.leave) kernels.leave();
}

}  // namespace

struct Network::Workspace {
    AlignedBuffer<uint8_t> arena;
    std::vector<StepShares> shares;  // of each step
};

Network::Network(NetworkFile file, const Kernels& kernels, int threads, int64_t most_bytes)
    : layers_(std::move(file), kernels), threads_(threads), most_bytes_(most_bytes) {
    std::vector<Shape> example;
    for (const std::vector<int64_t>& shape : layers_.file().inputs) {
        const bool is_map = shape.size() == 3;
        example.push_back(is_map ? Shape{1, shape[1], shape[2], shape[0], true} : Shape{1, 1, 1, shape[0], false});
    }
    plan_for(example);
}

Network::~Network() = default;

std::shared_ptr<const Plan> Network::plan_for(const std::vector<Shape>& shapes) {
    std::vector<int64_t> key;
    for (const Shape& shape : shapes) key.insert(key.end(), {shape.images, shape.height, shape.width, shape.channels});
    {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = plans_.find(key);
        if (found != plans_.end()) return found->second;
    }
    std::shared_ptr<const Plan> plan = build_plan(layers_, shapes, threads_, most_bytes_);
    if (plan->bytes_of_call(threads_) > static_cast<double>(most_bytes_)) {
        throw std::invalid_argument("the network needs too much memory for images of this size");
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (plans_.size() >= MOST_PLANS) plans_.clear();
    plans_.emplace(std::move(key), plan);
    return plan;
}

// What was used last is used again: its memory is still in the caches.
std::unique_ptr<Network::Workspace> Network::take_workspace(const Plan& plan) {
    std::unique_ptr<Workspace> workspace;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        if (!workspaces_.empty()) {
            workspace = std::move(workspaces_.back());
            workspaces_.pop_back();
        }
    }
    if (!workspace) workspace = std::make_unique<Workspace>();
    workspace->arena.reserve(plan.arena_bytes());
    if (workspace->shares.size() < plan.steps().size()) {
        workspace->shares = std::vector<StepShares>(plan.steps().size());
    }
    return workspace;
}

void Network::give_back(std::unique_ptr<Workspace> workspace) {
    std::lock_guard<std::mutex> lock(mutex_);
    workspaces_.push_back(std::move(workspace));
}

std::vector<Shape> Network::output_shapes(const std::vector<Shape>& inputs) { return plan_for(inputs)->outputs; }

int64_t Network::arena_bytes(const std::vector<Shape>& inputs) { return plan_for(inputs)->arena_bytes(); }

void Network::run(const std::vector<Shape>& shapes, const float* const* inputs, float* const* outputs,
                  std::vector<StepTime>* times) {
    const std::shared_ptr<const Plan> plan = plan_for(shapes);
    std::unique_ptr<Workspace> workspace = take_workspace(*plan);
    const Bound bound(workspace->arena.data(), plan->offsets(), inputs, outputs);
    if (times) {
        run_timed(*plan, kernels(), bound, *times);
    } else {
        std::vector<StepShares>& shares = workspace->shares;
        for (size_t index = 0; index < plan->steps().size(); ++index) {
            shares[index].open(plan->steps()[index].units, threads_);
        }
        std::atomic<int> arrived{0};
        auto work = [&] { run_steps(*plan, kernels(), bound, shares, arrived.fetch_add(1)); };
        run_in_threads(threads_, work);
    }
    give_back(std::move(workspace));
}

}  // namespace binaryrelax
