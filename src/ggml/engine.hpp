// What a backend keeps between the ops of a graph: threads, and memory that ops use for a while.
#pragma once

#include <rapt/rapt.h>

#include <algorithm>
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
  // f(i) for each of n such items.
  template <class F>
  void each(std::size_t n, std::size_t work, const F &f) {
    split(n, work, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) f(i);
    });
  }

  // For the functions of rapt/parallel.hpp.
  auto parts() {
    return [this](std::size_t count, const auto &body) { pool_.run(count, body); };
  }
  auto memory() {
    return [this](std::size_t bytes) { return op_memory.bytes(bytes); };
  }

 private:
  Pool pool_;
  std::size_t threads_ = 1;
};

}  // namespace rapt_ggml
