// Describes the work of one call of a kernel, whichever code does it. Limits are computed from this work.
#pragma once

#include <cstddef>

namespace rapt::bench {

// Counts arithmetic instructions per register of elements. Loads, stores and shuffles do not count.
struct Uops {
  double fma = 0;  // multiply-adds, products and comparisons, which only FMA units execute
  double all = 0;  // `fma` plus additions, maxima and bit operations, for which some CPUs have more units

  constexpr Uops() = default;
  constexpr Uops(double multiply_adds) : fma(multiply_adds), all(multiply_adds) {}
  constexpr Uops(double of_fma, double of_all) : fma(of_fma), all(of_all) {}
  friend constexpr Uops operator+(Uops a, Uops b) { return {a.fma + b.fma, a.all + b.all}; }
};

// The multiply-adds of a product of AMX tiles. Products of bf16 and of bytes take as long.
inline constexpr double tile_of_bf16 = 16 * 16 * 32, tile_of_bytes = 16 * 16 * 64;

struct Work {
  std::size_t elements = 0;
  std::size_t element_bytes = 0;  // size in the computation, which gives the lanes of a register
  std::size_t read = 0;           // bytes; each input and each output counts once
  std::size_t written = 0;
  std::size_t row_bytes = 0;  // of an input and an output row, if a call passes over rows twice; else 0
  bool in_place = false;      // the output is the input
  std::size_t calls = 1;      // kernel calls per call of the benchmark, all on the same memory
  // Kernel::add() sets these µops. They exclude the work of softmax's options.
  Uops uops_per_vector = {};
  // Counts µops on levels whose instructions add products of bytes; its `fma` counts these instructions. Both
  // counts are 0 if the elements are not bytes.
  Uops byte_uops_per_vector = {};
  // AMX tiles, if the level has them, compute so many multiply-adds with a product; 0: none. Digits of 16-bit
  // integers take two products of bytes for those of one product of bf16.
  double multiply_adds_of_tile = 0;
  bool multiply_adds = false;   // `elements` counts multiply-adds, as in a matrix product
  bool special_values = false;  // scalar code may return early from many of the elements

  std::size_t bytes() const { return read + written; }
  // Returns how many bytes of memory a kernel call accesses.
  std::size_t footprint() const { return (in_place ? read : bytes()) / calls; }
};

// Counts the µops of exp. fma and sub round x / log 2 to an integer, 2 fnma compute the remainder, and each
// coefficient takes an fma. AVX-512 then scales with one instruction and tests for special values with
// another. AVX2 shifts and adds the exponent, and tests on a third port. Four vectors share a comparison.
template <class T>
constexpr Uops exp_uops = sizeof(T) == sizeof(float) ? Uops{9.25, 12} : Uops{14.25, 17};
// Exponentials are summed in blocks. For f32, a block of 4 vectors takes 3 additions, 2 conversions and 2
// additions of f64. For f64, a block of 8 vectors takes 7 additions, and 7 more that keep the rounding
// errors.
constexpr Uops sum_uops = {0, 1.75};
// exp_sum does exp, one operation to scale and shift, and the sum.
template <class T>
constexpr Uops exp_sum_uops = exp_uops<T> + 1 + sum_uops;

// Counts the µops of the maximum, of exp, of one more instruction against underflow, and of the sum.
// log_softmax needs two more µops for its outputs.
template <class T>
constexpr Uops logsumexp_uops = Uops{0, 2} + exp_uops<T> + sum_uops;
template <class T>
constexpr Uops log_softmax_uops = logsumexp_uops<T> + 2;
// Counts the µops of exp, of the sum, and two for the quotient. Moderate scores need no maximum.
template <class T>
constexpr Uops softmax_uops = exp_uops<T> + sum_uops + 2;

// Next to exp, silu negates the magnitude (2), adds 1, chooses the numerator (2), divides and multiplies. The v of
// gelu_tanh takes 3 more. gelu has a polynomial of 9 (f64: 22) fused operations, and 3 others.
template <class T>
constexpr Uops silu_uops = exp_uops<T> + Uops{0, 7};
template <class T>
constexpr Uops gelu_tanh_uops = silu_uops<T> + Uops{1, 3};
template <class T>
constexpr Uops gelu_uops = exp_uops<T> + (sizeof(T) == sizeof(float) ? Uops{12, 25} : Uops{25, 38});
// A gradient of a sigmoid divides and chooses twice, limits x (3), and has a fused operation and two products.
template <class T>
constexpr Uops silu_backward_uops = silu_uops<T> + Uops{1, 7};
template <class T>
constexpr Uops gelu_tanh_backward_uops = silu_backward_uops<T> + Uops{2, 6};
template <class T>
constexpr Uops gelu_backward_uops = gelu_uops<T> + Uops{1, 4};
// The blocks of gated_backward are read twice, for a product, for gated and for the gradient.
template <class T>
constexpr Uops gated_backward_uops = silu_uops<T> + silu_backward_uops<T> + 2;

}  // namespace rapt::bench
