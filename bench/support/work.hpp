// The work of one call of a kernel, whatever code does it. The limit is computed from it.
#pragma once

#include <cstddef>

namespace rapt::bench {

// Arithmetic instructions per register of elements. Loads, stores and shuffles do not count.
struct Uops {
  double fma = 0;  // that only the units for fused multiply-adds execute: these, products, comparisons
  double all = 0;  // with additions, maxima and bits, for which some processors have more units

  constexpr Uops() = default;
  constexpr Uops(double multiply_adds) : fma(multiply_adds), all(multiply_adds) {}
  constexpr Uops(double of_fma, double of_all) : fma(of_fma), all(of_all) {}
  friend constexpr Uops operator+(Uops a, Uops b) { return {a.fma + b.fma, a.all + b.all}; }
};

struct Work {
  std::size_t elements = 0;
  std::size_t element_bytes = 0;  // as computed: lanes of a register
  std::size_t read = 0;           // bytes; each input and each output counts once
  std::size_t written = 0;
  std::size_t row_bytes = 0;  // of an input and an output row, if a call passes over rows twice; else 0
  bool in_place = false;      // the output is the input
  std::size_t calls = 1;      // of the kernel per call of the benchmark, all on the same memory
  // A property of the kernel, without softmax's options: Kernel::add() fills it in.
  Uops uops_per_vector = {};
  // The same for levels that multiply registers of bytes: `fma` counts such products. 0 if the kernel has no
  // bytes.
  Uops byte_uops_per_vector = {};
  bool by_tiles = false;  // multiply-adds that AMX tiles compute where a level has them: of bf16, or two of
                          // bytes, at the same rate
  bool multiply_adds = false;   // the elements are multiply-adds, as of a matrix product
  bool special_values = false;  // scalar code may return early from many of the elements

  std::size_t bytes() const { return read + written; }
  // The memory that the call goes through.
  std::size_t footprint() const { return (in_place ? read : bytes()) / calls; }
};

// fma and sub round to an integer, 2 fnma leave the remainder, and each coefficient takes an fma. Then
// AVX-512 scales with one instruction and tests for special values with another; AVX2 shifts and adds the
// exponent, and tests on a third port. Four vectors share a comparison.
template <class T>
constexpr Uops exp_uops = sizeof(T) == sizeof(float) ? Uops{9.25, 12} : Uops{14.25, 17};
// A sum of exponentials. Per block, f32: 3 additions of 4 vectors, 2 conversions, 2 additions of f64; f64: 7
// additions of 8 vectors, 7 that keep the loss.
constexpr Uops sum_uops = {0, 1.75};
// Beside exp: the scale and shift, the sum.
template <class T>
constexpr Uops exp_sum_uops = exp_uops<T> + 1 + sum_uops;

}  // namespace rapt::bench
