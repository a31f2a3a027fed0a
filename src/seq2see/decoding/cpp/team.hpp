// A few threads that do one thing together: all run the same function, and wait for each other inside it.
//
// A step of a small model takes a tenth of a millisecond and has some thirty places where one thread
// needs what another made. So waiting is done by looking again and again for a moment; a thread that
// has found nothing for a while goes to sleep, and a team that has nothing to do costs nothing.

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
inline void breathe() { _mm_pause(); }
#elif defined(__aarch64__)
inline void breathe() { asm volatile("yield"); }
#else
inline void breathe() {}
#endif

// Which part of some equal pieces of work a thread does: a run of neighbours, as long as the others' runs.
struct Share {
    int thread, threads;
    int64_t first(int64_t pieces) const { return pieces * thread / threads; }
    int64_t end(int64_t pieces) const { return pieces * (thread + 1) / threads; }
};

class Team {
public:
    explicit Team(int threads) : threads_(threads), process_(getpid()) {
        try {
            for (int i = 1; i < threads; i++) helpers_.emplace_back([this, i] { help(i); });
        } catch (...) {  // the system gives no more threads
            send_home();
            throw;
        }
    }

    ~Team() { send_home(); }

    // Run `work(share)` in every thread, this one among them, and return when all are done.
    template <class Work>
    void run(const Work& work) {
        if (threads_ == 1 || getpid() != process_) {  // threads do not survive a fork; one gives the same numbers
            size_ = 1;
            work(Share{0, 1});
            return;
        }
        size_ = threads_;
        work_ = [&work](Share share) { work(share); };
        {
            std::lock_guard<std::mutex> guard(sleep_);
            call_.fetch_add(1, std::memory_order_release);
        }
        if (sleeping_.load() > 0) wake_.notify_all();
        work(Share{0, threads_});
        meet();
    }

    // Wait until every thread of the team has come here.
    void meet() {
        const int size = size_, turn = turn_.load(std::memory_order_relaxed);
        if (size == 1) return;
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) == size - 1) {
            arrived_.store(0, std::memory_order_relaxed);
            turn_.store(turn + 1, std::memory_order_release);
            return;
        }
        for (int looks = 0; turn_.load(std::memory_order_acquire) == turn; looks++)
            looks < PATIENCE ? breathe() : std::this_thread::yield();  // the other may need this very core
    }

    int threads() const { return threads_; }

private:
    static constexpr int PATIENCE = 300;  // some microseconds; where cores are free, nobody waits longer
    static constexpr auto AWAKE = std::chrono::microseconds(200);

    void send_home() {
        if (getpid() != process_) {  // a forked process has no helpers, only their names
            for (auto& helper : helpers_) helper.detach();
            return;
        }
        {
            std::lock_guard<std::mutex> guard(sleep_);
            ending_ = true;
            call_++;
        }
        wake_.notify_all();
        for (auto& helper : helpers_) helper.join();
    }

    void help(int thread) {
        for (unsigned seen = 0;;) {
            await_call(seen);
            seen++;
            if (ending_) return;
            work_(Share{thread, threads_});
            meet();
        }
    }

    void await_call(unsigned seen) {
        auto since = std::chrono::steady_clock::now();
        while (call_.load(std::memory_order_acquire) == seen) {
            for (int looks = 0; looks < 64; looks++) breathe();
            if (std::chrono::steady_clock::now() - since < AWAKE) continue;
            std::unique_lock<std::mutex> guard(sleep_);
            sleeping_++;
            wake_.wait(guard, [&] { return call_.load(std::memory_order_acquire) != seen; });
            sleeping_--;
        }
    }

    const int threads_;
    const pid_t process_;
    int size_ = 1;
    bool ending_ = false;
    std::function<void(Share)> work_;
    std::vector<std::thread> helpers_;
    std::mutex sleep_;
    std::condition_variable wake_;
    alignas(64) std::atomic<unsigned> call_{0};
    std::atomic<int> sleeping_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<int> turn_{0};
};
