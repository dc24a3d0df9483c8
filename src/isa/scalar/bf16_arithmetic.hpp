// Implements the scalar reference of bf16 products under FTZ and DAZ. Results are the same in any mode of the
// processor.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "contract/bf16_arithmetic.hpp"
#include "contract/fused.hpp"
#include "contract/types.hpp"

namespace {

inline float flushed(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? 0.0f : x; }

// Returns a * b + c, flushed. The operands must not be subnormal.
inline float fma_flushed(float a, float b, float c) {
  const float sum = fused(a, b, c), least = std::numeric_limits<float>::min();
  if (!(std::fabs(sum) <= least)) return sum;
  if (std::fabs(sum) < least) return 0;
  // A result that is the smallest normal number may have been rounded up to it. The same operation times 2^64
  // shows whether it was.
  constexpr float up = 0x1p64f;
  const float large = std::fabs(a) < std::fabs(b) ? fused(a * up, b, c * up) : fused(a, b * up, c * up);
  return std::fabs(large) < least * up ? 0 : sum;
}

// Adds 32 products a(i) * b(i) to `sum`. Products from `count` on do not exist, and count as 0.
template <class F, class G>
float add_k32(float sum, std::size_t count, F a, G b) {
  float chain[2] = {0, 0};
  for (std::size_t i = 0; i < count; ++i) {
    chain[i % 2] = fma_flushed(flushed(a(i)), flushed(b(i)), chain[i % 2]);
  }
  return flushed(flushed(sum) + flushed(chain[0] + chain[1]));
}

template <class F, class G>
float add_k32s(float sum, std::size_t count, F a, G b) {
  constexpr std::size_t k32 = rapt::Bf16Contract::k32;
  for (std::size_t i = 0; i < count; i += k32) {
    sum = add_k32(
        sum, count - i < k32 ? count - i : k32, [&](std::size_t j) { return a(i + j); },
        [&](std::size_t j) { return b(i + j); });
  }
  return sum;
}

}  // namespace
