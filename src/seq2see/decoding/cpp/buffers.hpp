// Where numbers are kept: on large pages, in rows that start at whole registers, and used again.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "lanes.hpp"

inline int64_t round_up(int64_t number, int64_t step) { return (number + step - 1) / step * step; }

// Memory on large pages where the system has them: 38 million weights would need 9,400 small ones, and
// looking their addresses up costs as much as reading them.
class AlignedBuffer {
public:
    AlignedBuffer() = default;
    explicit AlignedBuffer(int64_t bytes) {
        int64_t page = bytes < LARGE ? SMALL : LARGE, whole = round_up(bytes, page);
        if (whole == 0) return;
        data_ = static_cast<char*>(std::aligned_alloc(page, whole));
        if (!data_) throw std::bad_alloc();
#if defined(__linux__)
        if (page == LARGE) madvise(data_, whole, MADV_HUGEPAGE);
#endif
    }
    AlignedBuffer(AlignedBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
    AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
        std::swap(data_, other.data_);
        return *this;
    }
    ~AlignedBuffer() { std::free(data_); }

    static AlignedBuffer zeros(int64_t bytes) {
        AlignedBuffer memory(bytes);
        if (bytes > 0) std::memset(memory.data_, 0, bytes);
        return memory;
    }

    char* data() const { return data_; }
    float* floats() const { return reinterpret_cast<float*>(data_); }

private:
    static constexpr int64_t SMALL = 4096, LARGE = 1 << 21;
    char* data_ = nullptr;
};

// Rows of float vectors, zeros at first. What lies behind a vector up to a whole register stays zero. One more
// register follows each row, so that rows do not fall on the same lines of the processor's caches.
class FloatMatrix {
public:
    // Make sure that there are so many rows; what they held is lost if there were fewer.
    void resize(int64_t rows, int64_t columns) {
        int64_t stride = round_up(columns, LANES) + LANES;
        if (rows <= rows_ && stride == stride_) return;
        memory_ = AlignedBuffer::zeros(rows * stride * sizeof(float));
        rows_ = rows, stride_ = stride;
    }
    float* row(int64_t number) const { return memory_.floats() + number * stride_; }
    int64_t stride() const { return stride_; }

private:
    int64_t rows_ = 0, stride_ = 0;
    AlignedBuffer memory_;
};

// Things that are dear to make, kept for the next who needs one.
template <class T>
class ObjectPool {
public:
    explicit ObjectPool(size_t capacity) : capacity_(capacity) {}

    template <class Make>
    T acquire(Make make) {
        {
            std::lock_guard<std::mutex> guard(lock_);
            if (!objects_.empty()) {
                T thing = std::move(objects_.back());
                objects_.pop_back();
                return thing;
            }
        }
        return make();
    }

    void release(T thing) {
        std::lock_guard<std::mutex> guard(lock_);
        if (objects_.size() < capacity_) objects_.push_back(std::move(thing));
    }

private:
    const size_t capacity_;
    std::mutex lock_;
    std::vector<T> objects_;
};
