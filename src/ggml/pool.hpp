// Threads that live as long as a backend. Between two jobs a thread spins for some microseconds, then it sleeps.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace rapt_ggml {

class Pool {
 public:
  ~Pool();

  // Calls body(0) to body(parts - 1), body(0) on the calling thread. What a body throws is thrown here, once all have
  // ended.
  template <class Body>
  void run(std::size_t parts, const Body &body) {
    run(
        parts, [](const void *context, std::size_t part) { (*static_cast<const Body *>(context))(part); },
        &body);
  }

  // The processors that this process may use.
  static std::size_t largest_parts();

 private:
  using Call = void (*)(const void *context, std::size_t part);
  struct alignas(64) Worker {
    std::atomic<std::uint32_t> turn{0};  // grows with each job for this thread
    std::thread thread;
  };

  void run(std::size_t parts, Call call, const void *context);
  void work(Worker &self, std::size_t part);
  void call(std::size_t part) noexcept;

  std::vector<std::unique_ptr<Worker> > workers_;
  alignas(64) std::atomic<std::size_t> left_{0};  // parts of the job that have not ended
  Call call_ = nullptr;                           // null: the thread ends
  const void *context_ = nullptr;
  std::mutex mutex_;
  std::exception_ptr thrown_;  // the first one of a job
};

}  // namespace rapt_ggml
