// Memory: aligned buffers on large pages, matrices with padded rows, and pools of objects for reuse.

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

// An aligned buffer on large pages where the system has them: 38 million int8 weights would need 9,400 small
// pages, and translating their addresses would cost as much as reading the weights.
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
        AlignedBuffer buffer(bytes);
        if (bytes > 0) std::memset(buffer.data_, 0, bytes);
        return buffer;
    }

    char* data() const { return data_; }
    float* floats() const { return reinterpret_cast<float*>(data_); }

private:
    static constexpr int64_t SMALL = 4096, LARGE = 1 << 21;
    char* data_ = nullptr;
};

// A matrix of float32 rows, initially zero. Each row is padded with zeros to a multiple of a register. One more
// register follows each row, so that rows do not map to the same lines of the processor's caches.
class FloatMatrix {
public:
    // Provides at least `rows` rows. A matrix that grows loses its contents.
    void resize(int64_t rows, int64_t columns) {
        int64_t stride = round_up(columns, LANES) + LANES;
        if (rows <= rows_ && stride == stride_) return;
        buffer_ = AlignedBuffer::zeros(rows * stride * sizeof(float));
        rows_ = rows, stride_ = stride;
    }
    float* row(int64_t number) const { return buffer_.floats() + number * stride_; }
    int64_t stride() const { return stride_; }

private:
    int64_t rows_ = 0, stride_ = 0;
    AlignedBuffer buffer_;
};

// Expensive objects that are stored for reuse.
template <class T>
class ObjectPool {
public:
    explicit ObjectPool(size_t capacity) : capacity_(capacity) {}

    template <class Make>
    T acquire(Make make) {
        {
            std::lock_guard<std::mutex> guard(lock_);
            if (!objects_.empty()) {
                T object = std::move(objects_.back());
                objects_.pop_back();
                return object;
            }
        }
        return make();
    }

    void release(T object) {
        std::lock_guard<std::mutex> guard(lock_);
        if (objects_.size() < capacity_) objects_.push_back(std::move(object));
    }

private:
    const size_t capacity_;
    std::mutex lock_;
    std::vector<T> objects_;
};
