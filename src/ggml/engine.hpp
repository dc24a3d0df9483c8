// What a backend keeps between the ops of a graph: threads, and memory that ops use for a while.
#pragma once

#include <rapt/rapt.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "ggml/pool.hpp"
#include "ggml/say.hpp"
#include "ggml/tensor.hpp"

namespace rapt_ggml {

inline void must(rapt_status status) {
  if (status != RAPT_OK) throw Failure(rapt_status_text(status));
}

// Memory that an op takes in pieces and never gives back: the next op takes it again.
class Scratch {
 public:
  std::byte *bytes(std::size_t count) {
    count = (count + 127) / 64 * 64;
    if (blocks_.empty() || used_ + count > blocks_.back().size) {
      const std::size_t size =
          std::max(count, blocks_.empty() ? std::size_t{1} << 16 : 2 * blocks_.back().size);
      blocks_.push_back({std::make_unique_for_overwrite<std::byte[]>(size + 64), size});
      used_ = 0;
    }
    std::byte *const base = blocks_.back().memory.get();
    const std::size_t skew = (64 - reinterpret_cast<std::uintptr_t>(base) % 64) % 64;
    used_ += count;
    return base + skew + used_ - count;
  }
  template <class Element>
  std::span<Element> take(std::size_t count) {
    return {reinterpret_cast<Element *>(bytes(count * sizeof(Element))), count};
  }

  // Everything is free again. Only the largest block stays.
  void reset() {
    if (blocks_.size() > 1) blocks_.erase(blocks_.begin(), blocks_.end() - 1);
    used_ = 0;
  }

 private:
  struct Block {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size;
  };
  std::vector<Block> blocks_;
  std::size_t used_ = 0;
};

class Engine {
 public:
  Scratch op_memory;  // until the op ends

  void set_threads(std::size_t threads) {
    threads_ = std::clamp<std::size_t>(threads, 1, std::max<std::size_t>(1, Pool::largest_parts()));
  }
  std::size_t threads() const { return threads_; }

  // f(first, last) over ranges of n items that cost `work` elementary operations together.
  template <class F>
  void split(std::size_t n, std::size_t work, const F &f) {
    const std::size_t parts = std::min({n, threads_, work / 16384 + 1});
    if (parts <= 1) {
      if (n > 0) f(std::size_t{0}, n);
      return;
    }
    pool_.run(parts, [&](std::size_t part) { f(n * part / parts, n * (part + 1) / parts); });
  }

  // run(first, last, workspace) over ranges of tasks, where each thread has its workspace. Returns the first bad status.
  template <class Run>
  rapt_status run_tasks(std::size_t tasks, std::size_t workspace_bytes, const Run &run) {
    const std::size_t parts = std::max<std::size_t>(1, std::min(threads_, tasks));
    const std::size_t stride = workspace_bytes / 64 * 64 + 128;
    std::byte *const workspaces = op_memory.bytes(parts * stride);
    if (parts == 1) return run(std::size_t{0}, tasks, workspaces);
    const std::size_t runs = std::min(tasks, parts * runs_per_thread);
    std::atomic<std::size_t> next{0};
    std::atomic<rapt_status> status{RAPT_OK};
    pool_.run(parts, [&](std::size_t part) {
      for (std::size_t i = next++; i < runs && status == RAPT_OK; i = next++) {
        const rapt_status answer = run(tasks * i / runs, tasks * (i + 1) / runs, workspaces + part * stride);
        if (answer != RAPT_OK) status = answer;
      }
    });
    return status;
  }

  // The tasks of several calls as one list: call i has tasks first_task[i] to first_task[i + 1] - 1 of the list.
  // run(i, first, last, workspace) counts the tasks of call i from 0.
  template <class Run>
  rapt_status run_list(std::span<const std::size_t> first_task, std::size_t workspace_bytes, const Run &run) {
    return run_tasks(
        first_task.back(), workspace_bytes, [&](std::size_t first, std::size_t last, std::byte *workspace) {
          const auto after = std::upper_bound(first_task.begin(), first_task.end(), first);
          std::size_t i = static_cast<std::size_t>(after - first_task.begin()) - 1;
          for (; i + 1 < first_task.size() && first_task[i] < last; ++i) {
            const std::size_t begin = std::max(first, first_task[i]), end = std::min(last, first_task[i + 1]);
            if (begin >= end) continue;
            const rapt_status status = run(i, begin - first_task[i], end - first_task[i], workspace);
            if (status != RAPT_OK) return status;
          }
          return RAPT_OK;
        });
  }

 private:
  static constexpr std::size_t runs_per_thread = 4;

  Pool pool_;
  std::size_t threads_ = 1;
};

}  // namespace rapt_ggml
