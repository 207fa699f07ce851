#include "plan.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace binaryrelax {
namespace {

constexpr int64_t ALIGNMENT = 64;

struct Life {
    int buffer;
    int64_t size, first, last;  // steps
    int64_t offset = -1;

    bool meets(const Life& other) const { return first <= other.last && other.first <= last; }
};

// The lowest place where a buffer overlaps none that lives at the same time.
int64_t lowest_place(const Life& life, const std::vector<Life>& placed) {
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (const Life& other : placed) {
        if (life.meets(other)) taken.emplace_back(other.offset, other.offset + other.size);
    }
    std::sort(taken.begin(), taken.end());
    int64_t place = 0;
    for (const auto& [begin, end] : taken) {
        if (place + life.size <= begin) break;
        place = std::max(place, end);
    }
    return place;
}

}  // namespace

void Plan::place_buffers(int64_t most_bytes) {
    std::vector<Life> lives;
    for (size_t buffer = 0; buffer < sizes_.size(); ++buffer) {
        const int64_t size = (sizes_[buffer] + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (size > most_bytes) throw std::invalid_argument("the network needs too much memory for images of this size");
        lives.push_back({static_cast<int>(buffer), size, static_cast<int64_t>(steps_.size()), -1});
    }
    for (size_t index = 0; index < steps_.size(); ++index) {
        const auto now = static_cast<int64_t>(index);
        auto use = [&](int buffer) {
            if (buffer < 0) return;  // what the caller has given
            lives[buffer].first = std::min(lives[buffer].first, now);
            lives[buffer].last = std::max(lives[buffer].last, now);
        };
        for (const int buffer : steps_[index].reads) use(buffer);
        use(steps_[index].writes);
    }
    std::stable_sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) { return a.size > b.size; });
    std::vector<Life> placed;
    offsets_.assign(sizes_.size(), 0);
    for (Life& life : lives) {
        life.offset = lowest_place(life, placed);
        offsets_[life.buffer] = life.offset;
        arena_bytes_ = std::max(arena_bytes_, life.offset + life.size);
        placed.push_back(life);
    }
    if (arena_bytes_ > most_bytes) {
        throw std::invalid_argument("the network needs too much memory for images of this size");
    }
}

double Plan::bytes_of_call(int threads) const {
    int64_t room = 0;
    for (const Step& step : steps_) room = std::max(room, step.room);
    double bytes = static_cast<double>(arena_bytes_) + static_cast<double>(room) * threads;
    for (const Shape& output : outputs) bytes += static_cast<double>(output.count()) * sizeof(float);
    return bytes;
}

}  // namespace binaryrelax
