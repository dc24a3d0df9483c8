// The work of one call of a kernel, whatever code does it. The limit is computed from it.
#pragma once

#include <cstddef>

namespace rapt::bench {

struct Work {
  std::size_t elements = 0;
  std::size_t element_bytes = 0;  // as computed: lanes of a register
  std::size_t read = 0;           // bytes; each input and each output counts once
  std::size_t written = 0;
  std::size_t row_bytes = 0;  // of an input and an output row, if a call passes over rows twice; else 0
  bool in_place = false;      // the output is the input
  std::size_t calls = 1;      // of the kernel per call of the benchmark, all on the same memory
  // Arithmetic instructions per register of elements that only the multiply-add pipelines can execute. Loads,
  // stores and instructions for other pipelines do not count, nor do those of softmax options.
  double uops_per_vector = 0;  // a property of the kernel: Kernel::add() fills it in
  // The same in registers of bytes, for levels that multiply those; 0 if the kernel has no bytes.
  double byte_uops_per_vector = 0;
  bool by_tiles = false;  // multiply-adds that AMX tiles compute where a level has them: of bf16, or two of
                          // bytes, at the same rate
  bool multiply_adds = false;   // the elements are multiply-adds, as of a matrix product
  bool special_values = false;  // scalar code may return early from many of the elements

  std::size_t bytes() const { return read + written; }
  // The memory that the call goes through.
  std::size_t footprint() const { return (in_place ? read : bytes()) / calls; }
};

// fma and sub round to an integer, 2 fnma leave the remainder, and each coefficient needs an fma. Then
// AVX-512 scales with one instruction and tests for special values with another. AVX2 shifts and adds the
// exponent, and tests on a third port.
template <class T>
constexpr double exp_uops = sizeof(T) == sizeof(float) ? 12 : 17;
// A sum of exponentials. A block of f32 needs 3 additions of 4 vectors, 2 conversions and 2 additions of f64.
// A block of f64 needs 7 additions of 8 vectors, and 7 that keep the loss.
constexpr double sum_uops = 1.75;
// In addition to exp: the scale and shift, and the sum.
template <class T>
constexpr double exp_sum_uops = exp_uops<T> + 1 + sum_uops;

}  // namespace rapt::bench
