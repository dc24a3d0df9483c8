// Divides the memory that the next products need among the present ones, which fetch it to L2.
//
// Each call fetches the lines that follow those of the call before, so that the CPU fetches further ones by
// itself. A fetch keeps one of L1's 16 buffers busy, which loads of tiles from L2 need too. So each line from
// memory makes products in L2 2 to 3 ns slower, and each line from L3 about 1 ns.
#pragma once

#include <cstddef>

#include "isa/avx512/simd.hpp"
#include "kernels/linear/tiles.hpp"
#include "kernels/vector/inner.hpp"

namespace {

inline constexpr std::size_t bytes_of_line = 64;

// Describes some lines of memory, so many for each step.
struct LinesToFetch {
  const char *at = nullptr;
  std::size_t per_step = 0;

  RAPT_INNER void step() {
    for (std::size_t i = 0; i < per_step; ++i, at += bytes_of_line) __builtin_prefetch(at, 0, 2);
  }
};

// Divides the lines that a tile's pass prefetches among its steps.
inline LinesToFetch lines_of_pass(Prefetch &fetch, std::size_t steps) {
  const LinesToFetch lines{fetch.at, (fetch.bytes / bytes_of_line + steps - 1) / steps};
  fetch.at += fetch.bytes;
  return lines;
}

// Divides `pieces` pieces of memory of equal size among `calls` calls of `steps` steps. Each call gets a part of
// one piece. The pieces are as far apart as the first two.
class PiecesToFetch {
 public:
  PiecesToFetch() = default;
  PiecesToFetch(const void *first, const void *second, std::size_t pieces, std::size_t bytes,
                std::size_t calls, std::size_t steps)
      : at_(static_cast<const char *>(first)),
        to_next_(static_cast<const char *>(second) - at_),
        pieces_(pieces),
        per_step_(quotient(quotient(bytes, bytes_of_line) * pieces, calls * steps)),
        bytes_of_call_(per_step_ * steps * bytes_of_line),
        calls_of_piece_(quotient(bytes, bytes_of_call_)) {}

  // Returns the lines of the next call.
  RAPT_INNER LinesToFetch next() {
    if (pieces_ == 0) return {};
    const LinesToFetch lines{at_ + call_ * bytes_of_call_, per_step_};
    if (++call_ == calls_of_piece_) {
      call_ = 0;
      at_ += to_next_;
      --pieces_;
    }
    return lines;
  }

 private:
  static std::size_t quotient(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit; }

  const char *at_ = nullptr;
  std::ptrdiff_t to_next_ = 0;
  std::size_t pieces_ = 0, per_step_ = 0, bytes_of_call_ = 0, calls_of_piece_ = 0, call_ = 0;
};

}  // namespace
