// What one call of a kernel has to do, whatever code does it: what its limit is made of.
#pragma once

#include <cstddef>

namespace rapt::bench {

struct Work {
  std::size_t elements = 0;
  std::size_t element_bytes = 0;
  std::size_t read = 0;  // bytes: each input once, each output once
  std::size_t written = 0;
  std::size_t row_bytes = 0;  // of an input and an output row, where a row is gone through twice; else 0
  bool in_place = false;      // the output is the input
  std::size_t calls = 1;      // of the kernel in one of the benchmark, all on the same memory
  // Arithmetic instructions on each register of elements that only the units for fused multiply-add can
  // execute. Loads, stores and what other units take are not counted, nor what an option of softmax adds.
  double uops_a_vector = 0;     // the kernel's: Kernel::add() fills it in
  bool multiply_adds = false;   // the elements are these, as of a matrix product, and not of a tensor
  bool special_values = false;  // code that takes one element at a time may return early from many of them

  std::size_t bytes() const { return read + written; }
  // The memory that the call goes through.
  std::size_t footprint() const { return (in_place ? read : bytes()) / calls; }
};

// fma and sub round to an integer, 2 fnma leave the remainder, fma by coefficient; then AVX-512 scales in one
// operation and tests for special values in another, AVX2 shifts and adds the exponent and tests on a third
// port.
template <class T>
constexpr double exp_uops = sizeof(T) == sizeof(float) ? 12 : 17;
// The scale and shift, the sum.
template <class T>
constexpr double exp_sum_uops = exp_uops<T> + 2;

}  // namespace rapt::bench
