// Loops that do one thing as fast as an instruction set can, compiled once for each of rapt's levels.
#pragma once

#include <cstddef>
#include <string>

namespace rapt::bench {

// The loops over memory pass once over `bytes` bytes, a multiple of limit_block, at 64-byte boundaries. The
// second of two loops prefetches, which is faster past the caches of a core and slower within.
struct LimitLoops {
  std::size_t register_bytes;

  // The number of fused multiply-adds of whole registers; of cycles.
  std::size_t (*fma_f32)();
  std::size_t (*fma_f64)();
  // The same with an addition after each multiply-add: the number of both together.
  std::size_t (*fma_add_f32)();
  std::size_t (*fma_add_f64)();
  std::size_t (*clock)();
  // The number of sums of products of bytes, of whole registers; null for a level without an instruction for
  // them.
  std::size_t (*products_i8)();
  // The same of whole AMX tiles of bf16.
  std::size_t (*products_bf16)();

  void (*load[2])(const void *from, std::size_t bytes);
  void (*store)(void *to, std::size_t bytes);
  void (*copy[2])(const void *from, void *to, std::size_t bytes);
  void (*copy_nt[2])(const void *from, void *to, std::size_t bytes);
  void (*update[2])(void *at, std::size_t bytes);  // reads and writes each place
};

constexpr std::size_t limit_block = 512;

// Null for a level without loops of its own.
const LimitLoops *limit_loops(const std::string &isa);

}  // namespace rapt::bench
