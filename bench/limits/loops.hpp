// Declares loops that each do one thing as fast as the instruction set can. The loops are compiled once for
// each level of rapt.
#pragma once

#include <cstddef>
#include <string>

namespace rapt::bench {

// Each loop over memory passes once over `bytes` bytes, a multiple of limit_block, aligned to 64 bytes. If
// there are two loops, the second prefetches, which may be faster beyond the caches of a core and is slower
// within them.
struct LimitLoops {
  std::size_t register_bytes;

  // Each returns the number of fused multiply-adds of whole registers; `clock` returns the number of cycles.
  std::size_t (*fma_f32)();
  std::size_t (*fma_f64)();
  // Both loops have an addition after each multiply-add, and return the number of both together.
  std::size_t (*fma_add_f32)();
  std::size_t (*fma_add_f64)();
  std::size_t (*clock)();
  // Returns the number of instructions that add products of bytes over a whole register. The pointer is null
  // if the level has no such instruction.
  std::size_t (*products_i8)();
  // Returns the number of products of whole AMX tiles of bf16. The pointer is null if the level has no tiles.
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
