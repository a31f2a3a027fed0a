// A pool of threads that run the same function together and synchronize inside it at barriers.
//
// A decoding step of a small model takes a tenth of a millisecond and has about thirty barriers. So a
// barrier waits by spinning; a worker that has spun for a while without new work sleeps, so that an idle
// pool uses no processor time.

#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <unistd.h>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
inline void cpu_relax() { _mm_pause(); }
#elif defined(__aarch64__)
inline void cpu_relax() { asm volatile("yield"); }
#else
inline void cpu_relax() {}
#endif

// The share of one thread in a list of equal items of work: a contiguous range, nearly equally long for all threads.
struct WorkShare {
    int thread, threads;
    int64_t first(int64_t items) const { return items * thread / threads; }
    int64_t end(int64_t items) const { return items * (thread + 1) / threads; }
};

class ThreadPool {
public:
    explicit ThreadPool(int threads) : threads_(threads), process_(getpid()) {
        try {
            for (int i = 1; i < threads; i++) workers_.emplace_back([this, i] { worker_loop(i); });
        } catch (...) {  // the system refuses more threads
            stop_workers();
            throw;
        }
    }

    ~ThreadPool() { stop_workers(); }

    // Runs `work(share)` in every thread, the calling one included, and returns when all have finished.
    template <class Work>
    void run(const Work& work) {
        if (threads_ == 1 || getpid() != process_) {  // a forked process has no workers; one thread gives equal results
            size_ = 1;
            work(WorkShare{0, 1});
            return;
        }
        size_ = threads_;
        work_ = [&work](WorkShare share) { work(share); };
        {
            std::lock_guard<std::mutex> guard(mutex_);
            generation_.fetch_add(1, std::memory_order_release);
        }
        if (sleeping_workers_.load() > 0) condition_.notify_all();
        work(WorkShare{0, threads_});
        barrier();
    }

    // Blocks until every thread of the pool has reached this point.
    void barrier() {
        const int size = size_, phase = phase_.load(std::memory_order_relaxed);
        if (size == 1) return;
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) == size - 1) {
            arrived_.store(0, std::memory_order_relaxed);
            phase_.store(phase + 1, std::memory_order_release);
            return;
        }
        for (int spins = 0; phase_.load(std::memory_order_acquire) == phase; spins++)
            spins < SPIN_LIMIT ? cpu_relax() : std::this_thread::yield();  // the other thread may need this core
    }

    int threads() const { return threads_; }

private:
    static constexpr int SPIN_LIMIT = 300;  // a few microseconds: long enough where every thread has a core
    static constexpr auto SPIN_TIME = std::chrono::microseconds(200);

    void stop_workers() {
        if (getpid() != process_) {  // a forked process has the thread objects but not the threads
            for (auto& worker : workers_) worker.detach();
            return;
        }
        {
            std::lock_guard<std::mutex> guard(mutex_);
            stopping_ = true;
            generation_++;
        }
        condition_.notify_all();
        for (auto& worker : workers_) worker.join();
    }

    void worker_loop(int thread) {
        for (unsigned generation = 0;;) {
            wait_for_work(generation);
            generation++;
            if (stopping_) return;
            work_(WorkShare{thread, threads_});
            barrier();
        }
    }

    void wait_for_work(unsigned generation) {
        auto since = std::chrono::steady_clock::now();
        while (generation_.load(std::memory_order_acquire) == generation) {
            for (int spins = 0; spins < 64; spins++) cpu_relax();
            if (std::chrono::steady_clock::now() - since < SPIN_TIME) continue;
            std::unique_lock<std::mutex> guard(mutex_);
            sleeping_workers_++;
            condition_.wait(guard, [&] { return generation_.load(std::memory_order_acquire) != generation; });
            sleeping_workers_--;
        }
    }

    const int threads_;
    const pid_t process_;
    int size_ = 1;
    bool stopping_ = false;
    std::function<void(WorkShare)> work_;
    std::vector<std::thread> workers_;
    std::mutex mutex_;
    std::condition_variable condition_;
    alignas(64) std::atomic<unsigned> generation_{0};
    std::atomic<int> sleeping_workers_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<int> phase_{0};
};
