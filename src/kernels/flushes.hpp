// Makes bf16 products flush tiny results in the same way on all CPUs, even if a CPU flushes before it rounds.
//
// A result must be flushed if it is tiny after rounding, as on x86 (contract/bf16_arithmetic.hpp). Arm, and
// x86 as qemu 7 emulates it, also flush results that would round up to the smallest normal number. Each flush
// sets a CPU flag. If the flag is set after a tile, the exact operations below compute the tile again.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "contract/bf16_arithmetic.hpp"

namespace {

inline constexpr float least_normal = std::numeric_limits<float>::min();

// Returns whether the CPU flushes a tiny result before rounding it, as Arm and QEMU's x86 do. Real x86
// flushes after rounding. The product below is tiny, but rounds up to the smallest normal number. `Flushing`
// is the level's class that sets FTZ and DAZ.
template <class Flushing>
[[gnu::noinline, gnu::flatten]] bool flushes_before_rounding() {
  const Flushing flushing;
  volatile float a = 0x1.fffp-1f, b = 0x1.0008p-126f, c = 0;
  const float product = std::fma(float{a}, float{b}, float{c});
  asm volatile("" : : "m"(product) : "memory");
  return product == 0;
}

// Records whether a tile's products may have wrong bits, because the CPU flushed a result before rounding it.
template <class Flushing>
class FlushGuard {
 public:
  bool is_doubtful() const { return is_doubtful_; }
  bool is_exact() const { return is_exact_; }
  void use_exact_products() {
    is_exact_ = true;
    is_doubtful_ = false;
  }
  // Must be called after each group of products that is computed while `flushing` exists.
  void note(const Flushing &flushing) {
    is_doubtful_ = is_doubtful_ || (is_needed_ && flushing.has_flushed());
  }

 private:
  bool is_needed_ = flushes_before_rounding<Flushing>(), is_doubtful_ = false, is_exact_ = false;
};

inline float with_flush(float x) { return std::fabs(x) < least_normal ? 0.0f : x; }

// Returns the fma of normal numbers and zeros, flushed if it is tiny after rounding. The smallest normal
// number may be a tiny result that was rounded up. The same operation at 2^64 times the size shows whether it
// was.
inline float fma_with_flush(float a, float b, float c) {
  const float sum = with_flush(std::fma(a, b, c));
  if (std::fabs(sum) != least_normal) return sum;
  constexpr float up = 0x1p64f;
  const float larger = std::fabs(a) < std::fabs(b) ? b : a, smaller = std::fabs(a) < std::fabs(b) ? a : b;
  return std::fabs(std::fma(smaller * up, larger, c * up)) < least_normal * up ? 0.0f : sum;
}

// Adds left(i) * right(i) for up to 32 terms to `sum`. Even and odd terms are separate chains.
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
