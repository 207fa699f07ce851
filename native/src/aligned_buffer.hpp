// Memory that starts on a cache line, or on a huge page where it is large.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace binaryrelax {

template <typename T>
class AlignedBuffer {
  public:
    AlignedBuffer() = default;
    explicit AlignedBuffer(int64_t count) { reserve(count); }
    AlignedBuffer(AlignedBuffer&& other) noexcept : data_(other.data_), capacity_(other.capacity_) {
        other.data_ = nullptr;
        other.capacity_ = 0;
    }
    AlignedBuffer(const AlignedBuffer&) = delete;
    AlignedBuffer& operator=(const AlignedBuffer&) = delete;
    AlignedBuffer& operator=(AlignedBuffer&&) = delete;
    ~AlignedBuffer() { std::free(data_); }

    // Room for `count` values; what was in the buffer is lost when it has to grow.
    T* reserve(int64_t count) {
        if (count <= capacity_) return data_;
        std::free(data_);
        data_ = nullptr;
        capacity_ = 0;
        const size_t bytes = static_cast<size_t>(count) * sizeof(T);
        const size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : CACHE_LINE;
        void* memory = nullptr;
        if (posix_memalign(&memory, alignment, bytes) != 0) throw std::bad_alloc();
        data_ = static_cast<T*>(memory);
#ifdef __linux__
        // A wish; nothing depends on it. What does not fill a huge page keeps small ones.
        if (alignment == HUGE_PAGE) madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
        capacity_ = count;
        return data_;
    }

    T* data() { return data_; }
    const T* data() const { return data_; }
    int64_t bytes() const { return capacity_ * static_cast<int64_t>(sizeof(T)); }

  private:
    static constexpr size_t CACHE_LINE = 64;
    static constexpr size_t HUGE_PAGE = size_t{1} << 21;

    T* data_ = nullptr;
    int64_t capacity_ = 0;
};

}  // namespace binaryrelax
