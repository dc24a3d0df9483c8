// Divides the memory that the next products need among the present ones, which fetch it to L2.
//
// Each call fetches the lines that follow those of the call before, so that the CPU fetches further ones by
// itself. A fetch keeps one of L1's 16 buffers busy, which loads of tiles from L2 need too. So each line from
// memory makes products in L2 2 to 3 ns slower, and each line from L3 about 1 ns.
#pragma once

#include <cstddef>

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

// Divides `pieces` pieces of memory of equal size among `calls` calls of `steps` steps. Each call gets a part of
// one piece.
class PiecesToFetch {
 public:
  PiecesToFetch(std::size_t pieces, std::size_t bytes, std::size_t calls, std::size_t steps)
      : per_step_(quotient(quotient(bytes, bytes_of_line) * pieces, calls * steps)),
        bytes_of_call_(per_step_ * steps * bytes_of_line),
        calls_of_piece_(per_step_ == 0 ? 1 : quotient(bytes, bytes_of_call_)) {}

  // Returns the lines of a call. address(i) returns the address of piece i, or null if it does not exist.
  template <class Address>
  LinesToFetch of(std::size_t call, Address address) const {
    const void *const piece = address(call / calls_of_piece_);
    if (!piece) return {};
    return {static_cast<const char *>(piece) + call % calls_of_piece_ * bytes_of_call_, per_step_};
  }

 private:
  static std::size_t quotient(std::size_t n, std::size_t unit) { return (n + unit - 1) / unit; }

  std::size_t per_step_, bytes_of_call_, calls_of_piece_;
};

}  // namespace
