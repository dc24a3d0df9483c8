// Makes sure that products flush tiny results as the contract says, even on CPUs that flush before they
// round.
//
// The contract flushes a result that is tiny after rounding, as x86 does (contract/bf16_arithmetic.hpp). Arm,
// and x86 as qemu 7 emulates it, also flush a result that would round up to the least normal number. Each
// flush sets a flag. While the flag is clear, the bits are the contract's. Otherwise the exact operations
// below compute the tile again.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "contract/bf16_arithmetic.hpp"

namespace {

inline constexpr float least_normal = std::numeric_limits<float>::min();

// Returns whether the CPU flushes a tiny result before rounding it, as Arm and QEMU's x86 do. Real x86
// flushes after rounding. The product below is tiny, but rounds up to the least normal number. `Flushing` is
// the level's class that sets FTZ and DAZ.
template <class Flushing>
[[gnu::noinline]] bool flushes_before_rounding() {
  const Flushing flushing;
  volatile float a = 0x1.fffp-1f, b = 0x1.0008p-126f, c = 0;
  const float product = std::fma(float{a}, float{b}, float{c});
  asm volatile("" : : "m"(product) : "memory");
  return product == 0;
}

// Records whether the results of a tile's products may lack the contract's bits.
template <class Flushing>
class FlushGuard {
 public:
  bool is_doubtful() const { return is_doubtful_; }
  bool is_exact() const { return is_exact_; }
  void use_exact_products() {
    is_exact_ = true;
    is_doubtful_ = false;
  }
  // Call this after products under `flushing`.
  void note(const Flushing &flushing) {
    is_doubtful_ = is_doubtful_ || (is_needed_ && flushing.has_flushed());
  }

 private:
  bool is_needed_ = flushes_before_rounding<Flushing>(), is_doubtful_ = false, is_exact_ = false;
};

inline float with_flush(float x) { return std::fabs(x) < least_normal ? 0.0f : x; }

// Returns the fma of normal numbers and zeros, with the contract's flush. A result that is the least normal
// number may have been rounded up from a tiny one. The same operation at 2^64 times the size shows the
// difference.
inline float fma_with_flush(float a, float b, float c) {
  const float sum = with_flush(std::fma(a, b, c));
  if (std::fabs(sum) != least_normal) return sum;
  constexpr float up = 0x1p64f;
  const float larger = std::fabs(a) < std::fabs(b) ? b : a, smaller = std::fabs(a) < std::fabs(b) ? a : b;
  return std::fabs(std::fma(smaller * up, larger, c * up)) < least_normal * up ? 0.0f : sum;
}

// Adds the products left(i) * right(i) of up to 32 terms to `sum`.
template <class Left, class Right>
float add_k32_with_flushes(float sum, std::size_t count, Left left, Right right) {
  float even = 0, odd = 0;
  for (std::size_t i = 0; i < count; ++i) {
    float &chain = i % 2 == 0 ? even : odd;
    chain = fma_with_flush(with_flush(left(i)), with_flush(right(i)), chain);
  }
  return with_flush(with_flush(sum) + with_flush(even + odd));
}

// Adds any number of products, in groups of 32 terms.
template <class Left, class Right>
float add_with_flushes(float sum, std::size_t count, Left left, Right right) {
  constexpr std::size_t k32 = rapt::Bf16Contract::k32;
  for (std::size_t first = 0; first < count; first += k32) {
    sum = add_k32_with_flushes(
        sum, count - first < k32 ? count - first : k32, [&](std::size_t i) { return left(first + i); },
        [&](std::size_t i) { return right(first + i); });
  }
  return sum;
}

}  // namespace
