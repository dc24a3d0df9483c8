// Declares loops that measure hardware limits, such as the rate of multiply-adds or the memory bandwidth.
// The loops are compiled once per instruction-set level of rapt.
#pragma once

#include <cstddef>
#include <string>

namespace rapt::bench {

// Each loop over memory passes once over `bytes` bytes, a multiple of limit_block, aligned to 64 bytes. In an
// array of two loops, the second one prefetches. Prefetching may be faster on data outside a core's caches,
// and is slower on data inside them.
struct LimitLoops {
  std::size_t register_bytes;

  // fma_f32 and fma_f64 return the number of executed multiply-adds of whole registers. `clock` returns the
  // number of cycles that it took.
  std::size_t (*fma_f32)();
  std::size_t (*fma_f64)();
  // These loops execute an addition after each multiply-add, and return the number of both instructions.
  std::size_t (*fma_add_f32)();
  std::size_t (*fma_add_f64)();
  std::size_t (*clock)();
  // Returns the number of executed instructions that multiply registers of bytes and add the products. The
  // pointer is null if the level has no such instruction.
  std::size_t (*products_i8)();
  // Returns the number of executed products of bf16 AMX tiles. The pointer is null if the level has no tiles.
  std::size_t (*products_bf16)();

  void (*load[2])(const void *from, std::size_t bytes);
  void (*store)(void *to, std::size_t bytes);
  void (*copy[2])(const void *from, void *to, std::size_t bytes);
  void (*copy_nt[2])(const void *from, void *to, std::size_t bytes);
  void (*update[2])(void *at, std::size_t bytes);  // reads and writes each byte
};

constexpr std::size_t limit_block = 512;

// Returns null if level `isa` has no loops.
const LimitLoops *limit_loops(const std::string &isa);

}  // namespace rapt::bench
