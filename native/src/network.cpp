#include "network.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <stdexcept>

#include "aligned_buffer.hpp"
#include "plan_builder.hpp"
#include "thread_pool.hpp"

#if defined(__unix__) || defined(__APPLE__)
#define BINARYRELAX_FORKS
#include <pthread.h>
#endif

namespace binaryrelax {
namespace {

constexpr size_t MOST_PLANS = 32;         // sizes of input that are remembered
constexpr int64_t CACHE_BYTES = 1 << 20;  // what a thread's own activations should fit into

// Guards what networks remember between calls, for moments only. It is one for all of them, so that a process can
// hold it while it forks: its child could never open a lock that another thread had closed.
std::mutex remembered;

void let_processes_fork() {
#ifdef BINARYRELAX_FORKS
    static const int registered =
        pthread_atfork([] { remembered.lock(); }, [] { remembered.unlock(); }, [] { remembered.unlock(); });
    static_cast<void>(registered);
#endif
}

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

void run_units(const Plan& plan, const Kernels& kernels, const Bound& bound) {
    if (kernels.enter) kernels.enter();
    for (const Step& step : plan.steps()) {
        for (int64_t unit = 0; unit < step.units; ++unit) step.run(bound, unit);
    }
    if (kernels.leave) kernels.leave();
}

// A batch of no images: there is nothing to compute, and no plan.
bool is_empty(const std::vector<Shape>& inputs) {
    return std::all_of(inputs.begin(), inputs.end(), [](const Shape& shape) { return shape.images == 0; });
}

std::vector<Shape> with_images(std::vector<Shape> shapes, int64_t images) {
    for (Shape& shape : shapes) shape.images = images;
    return shapes;
}

}  // namespace

struct Network::Workspace {
    AlignedBuffer<uint8_t> arena;
    std::vector<StepShares> shares;  // of each step
};

Network::Network(NetworkFile file, const Kernels& kernels, int threads, int64_t most_bytes)
    : layers_(std::move(file), kernels), threads_(threads), most_bytes_(most_bytes) {
    let_processes_fork();
    std::vector<Shape> example;
    for (const std::vector<int64_t>& shape : layers_.file().inputs) {
        const bool is_map = shape.size() == 3;
        example.push_back(is_map ? Shape{1, shape[1], shape[2], shape[0], true} : Shape{1, 1, 1, shape[0], false});
    }
    plan_for(example, threads_);
}

Network::~Network() = default;

std::shared_ptr<const Plan> Network::plan_for(const std::vector<Shape>& shapes, int threads) {
    std::vector<int64_t> key{threads};
    for (const Shape& shape : shapes) key.insert(key.end(), {shape.images, shape.height, shape.width, shape.channels});
    {
        std::lock_guard<std::mutex> lock(remembered);
        const auto found = plans_.find(key);
        if (found != plans_.end()) return found->second;
    }
    std::shared_ptr<const Plan> plan = build_plan(layers_, shapes, threads, most_bytes_);
    if (plan->bytes_of_call(threads) > static_cast<double>(most_bytes_)) {
        throw std::invalid_argument("the network needs too much memory for images of this size");
    }
    std::lock_guard<std::mutex> lock(remembered);
    if (plans_.size() >= MOST_PLANS) plans_.clear();
    plans_.emplace(std::move(key), plan);
    return plan;
}

// Threads that have images of their own never wait for one another, and find their activations in their caches.
// Where some would have nothing to do, they share the work of each layer instead.
Network::Division Network::divide(const std::vector<Shape>& inputs) {
    const int64_t images = inputs[0].images;
    const bool all_have_work = images % threads_ == 0 || images >= 4 * threads_;
    if (images == 1 || !all_have_work) return {inputs, false};
    const auto image_bytes = static_cast<int64_t>(plan_for(with_images(inputs, 1), 1)->bytes_of_call(1)) + 1;
    if (image_bytes > most_bytes_ / threads_) return {inputs, false};
    const int64_t most = std::min(CACHE_BYTES, most_bytes_ / threads_);
    const int64_t fit = std::clamp<int64_t>(most / image_bytes, 1, images / threads_);
    const int64_t rounds = (images + fit * threads_ - 1) / (fit * threads_);
    return {with_images(inputs, (images + rounds * threads_ - 1) / (rounds * threads_)), true};
}

// What was used last is used again: its memory is still in the caches.
std::unique_ptr<Network::Workspace> Network::take_workspace(const Plan& plan) {
    std::unique_ptr<Workspace> workspace;
    {
        std::lock_guard<std::mutex> lock(remembered);
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
    std::lock_guard<std::mutex> lock(remembered);
    workspaces_.push_back(std::move(workspace));
}

std::vector<Shape> Network::output_shapes(const std::vector<Shape>& inputs) {
    if (is_empty(inputs)) return with_images(plan_for(with_images(inputs, 1), threads_)->outputs, 0);
    const Division division = divide(inputs);
    return with_images(plan_for(division.part, division.is_alone ? 1 : threads_)->outputs, inputs[0].images);
}

int64_t Network::bytes_of_call(const std::vector<Shape>& inputs) {
    if (is_empty(inputs)) return 0;
    const Division division = divide(inputs);
    const double bytes = division.is_alone ? threads_ * plan_for(division.part, 1)->bytes_of_call(1)
                                           : plan_for(inputs, threads_)->bytes_of_call(threads_);
    return static_cast<int64_t>(bytes);
}

void Network::run(const std::vector<Shape>& shapes, const float* const* inputs, float* const* outputs,
                  std::vector<StepTime>* times) {
    if (is_empty(shapes)) return;
    const Division division = divide(shapes);
    if (division.is_alone && !times) return run_alone(shapes, division.part[0].images, inputs, outputs);
    const std::shared_ptr<const Plan> plan = plan_for(shapes, threads_);
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

void Network::run_alone(const std::vector<Shape>& shapes, int64_t images, const float* const* inputs,
                        float* const* outputs) {
    const int64_t all = shapes[0].images, rest = all % images;
    const std::shared_ptr<const Plan> whole = plan_for(with_images(shapes, images), 1);
    const std::shared_ptr<const Plan> last = rest ? plan_for(with_images(shapes, rest), 1) : whole;
    Shares parts(all, images);
    auto work = [&] {
        std::vector<const float*> from(shapes.size());
        std::vector<float*> to(whole->outputs.size());
        for (int64_t first, end; parts.take(first, end);) {
            const Plan& plan = end - first == images ? *whole : *last;
            for (size_t i = 0; i < from.size(); ++i) from[i] = inputs[i] + first * (shapes[i].count() / all);
            for (size_t i = 0; i < to.size(); ++i) to[i] = outputs[i] + first * (plan.outputs[i].count() / (end - first));
            std::unique_ptr<Workspace> workspace = take_workspace(plan);
            run_units(plan, kernels(), Bound(workspace->arena.data(), plan.offsets(), from.data(), to.data()));
            give_back(std::move(workspace));
        }
    };
    run_in_threads(static_cast<int>(std::min<int64_t>(threads_, (all + images - 1) / images)), work);
}

}  // namespace binaryrelax
