#include "ggml/pool.hpp"

#include <sched.h>

#include <utility>

namespace rapt_ggml {

namespace {

constexpr int spins = 4000;  // about 50 us: the ops of one token follow each other faster

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Returns when the value is no longer `old`.
template <class Value>
void wait_while(const std::atomic<Value> &value, Value old) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

std::size_t Pool::largest_parts() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<std::size_t>(CPU_COUNT(&set));
  const unsigned count = std::thread::hardware_concurrency();
  return count > 0 ? count : 1;
}

void Pool::work(Worker &self, std::size_t part) {
  for (std::uint32_t seen = 0;; ++seen) {
    wait_while(self.turn, seen);
    if (!call_) return;
    call(part);
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
  }
}

void Pool::call(std::size_t part) noexcept {
  try {
    call_(context_, part);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!thrown_) thrown_ = std::current_exception();
  }
}

void Pool::run(std::size_t parts, Call function, const void *context) {
  while (workers_.size() + 1 < parts) {
    workers_.push_back(std::make_unique<Worker>());
    Worker &worker = *workers_.back();
    worker.thread = std::thread([this, &worker, part = workers_.size()] { work(worker, part); });
  }
  call_ = function, context_ = context;
  left_.store(parts - 1, std::memory_order_relaxed);
  for (std::size_t i = 0; i + 1 < parts; ++i) {
    workers_[i]->turn.fetch_add(1, std::memory_order_release);
    workers_[i]->turn.notify_one();
  }
  call(0);
  for (std::size_t left; (left = left_.load(std::memory_order_acquire)) != 0;) wait_while(left_, left);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

Pool::~Pool() {
  call_ = nullptr;
  for (const std::unique_ptr<Worker> &worker : workers_) {
    worker->turn.fetch_add(1, std::memory_order_release);
    worker->turn.notify_one();
  }
  for (const std::unique_ptr<Worker> &worker : workers_) worker->thread.join();
}

}  // namespace rapt_ggml
