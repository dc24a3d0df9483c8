// Loops that do one thing as fast as an instruction set can, compiled once for each of rapt's levels.
#pragma once

#include <cstddef>
#include <string>

namespace rapt::bench {

// Each loop over memory passes once over `bytes` bytes, a multiple of limit_block, from a multiple of 64
// bytes on. Of two loops the second prefetches, which is faster past the caches of a core and slower within
// them.
struct LimitLoops {
  std::size_t register_bytes;

  // Returns the number of fused multiply-adds of whole registers (clock: of cycles).
  std::size_t (*fma_f32)();
  std::size_t (*fma_f64)();
  // The same with an addition after each multiply-add: the number of both together.
  std::size_t (*fma_add_f32)();
  std::size_t (*fma_add_f64)();
  std::size_t (*clock)();
  // Returns the number of sums of products of bytes, of whole registers. It is null if the level has no
  // instruction for them.
  std::size_t (*products_i8)();
  // Does the same for whole AMX tiles of bf16.
  std::size_t (*products_bf16)();

  void (*load[2])(const void *from, std::size_t bytes);
  void (*store)(void *to, std::size_t bytes);
  void (*copy[2])(const void *from, void *to, std::size_t bytes);
  void (*copy_nt[2])(const void *from, void *to, std::size_t bytes);
  void (*update[2])(void *at, std::size_t bytes);  // reads and writes each byte
};

constexpr std::size_t limit_block = 512;

// Returns null for a level that has no loops.
const LimitLoops *limit_loops(const std::string &isa);

}  // namespace rapt::bench
