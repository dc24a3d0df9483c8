// The operations of the delta rule (contract/delta_rule.hpp): as the CPU flushes, and exactly, for CPUs that flush
// before they round. Arm, and x86 as qemu 7 emulates it, also flush results that would round up to the smallest
// normal number.
#pragma once

#include <cmath>
#include <cstddef>

#include "contract/delta_rule.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"

namespace {

// While an object of S::Flushing lives, the CPU flushes operands and results.
template <class S>
struct FlushedByCpu {
  using V = typename S::batch;
  static V operand(V v) { return v; }
  static V fma(V a, V b, V c) { return S::fma(a, b, c); }
  static V product(V a, V b) { return a * b; }
  static V difference(V a, V b) { return a - b; }
  static V sum(V a, V b) { return a + b; }
};

// In the default mode. Operands have gone through operand(), or are results.
template <class S>
struct FlushedExactly {
  using V = typename S::batch;
  static constexpr float least = rapt::delta_least;

  static V operand(V v) { return S::select(S::less(S::abs(v), V(least)), S::with_sign(V(0.0f), v), v); }
  static V fma(V a, V b, V c) {
    const V sum = S::fma(a, b, c);
    if (!S::any(S::equal(S::abs(sum), V(least)))) [[likely]]
      return operand(sum);
    return operand(without_tiny(a, b, c, sum));
  }
  static V product(V a, V b) { return fma(a, b, V(-0.0f)); }
  // Differences and sums of normal numbers are exact where they are tiny.
  static V difference(V a, V b) { return operand(a - b); }
  static V sum(V a, V b) { return operand(a + b); }

 private:
  // The smallest normal number may be a tiny result that was rounded up. The same operation at 2^64 times the size
  // shows whether it was.
  [[gnu::noinline, gnu::flatten]] static V without_tiny(V a, V b, V c, V sum) {
    constexpr float up = 0x1p64f;
    float as[S::width], bs[S::width], cs[S::width], sums[S::width];
    S::store(as, a), S::store(bs, b), S::store(cs, c), S::store(sums, sum);
    for (std::size_t i = 0; i < S::width; ++i) {
      if (std::fabs(sums[i]) != least) continue;
      const bool a_is_smaller = std::fabs(as[i]) < std::fabs(bs[i]);
      const float small = a_is_smaller ? as[i] : bs[i], large = a_is_smaller ? bs[i] : as[i];
      if (std::fabs(std::fma(small * up, large, cs[i] * up)) < least * up)
        sums[i] = std::copysign(0.0f, sums[i]);
    }
    return S::load(sums);
  }
};

}  // namespace
