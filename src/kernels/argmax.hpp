// Finds the first of an array's largest elements.
#pragma once

#include <cstddef>
#include <limits>

#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Returns the first index below n for which is(v) sets a lane, where v is a vector of elements.
template <class E, class Is>
RAPT_INNER inline std::size_t first_where(const E *x, std::size_t n, Is is) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  std::size_t i = 0;
  while (n - i >= S::width && !S::any(is(S::load(x + i)))) i += S::width;
  for (; i < n; ++i) {
    if (S::any(is(typename S::batch(rapt::widened(x[i]))))) break;
  }
  return i;
}

// Finds the maximum of a block of elements; of these, is_nan tells whether one is NaN.
template <class E>
[[gnu::flatten, gnu::noinline]] rapt::Arithmetic<E> max_of_block(const E *x, std::size_t n, bool &is_nan) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t registers = 4, step = registers * S::width;
  constexpr A lowest = -std::numeric_limits<A>::infinity();
  batch max[registers];
  unroll<registers>([&](std::size_t r) RAPT_INNER { max[r] = batch(lowest); });
  auto nan = S::unordered(max[0], max[0]);
  for (; n >= step; n -= step, x += step) {
    batch v[registers];
    unroll<registers>([&](std::size_t r) RAPT_INNER { v[r] = S::load(x + r * S::width); });
    unroll<registers>([&](std::size_t r) RAPT_INNER { max[r] = S::max(v[r], max[r]); });
    nan = S::either(nan, S::either(S::unordered(v[0], v[1]), S::unordered(v[2], v[3])));
  }
  for (; n > 0;) {
    const std::size_t k = n < S::width ? n : S::width;
    const batch v = S::fill_after(k == S::width ? S::load(x) : S::load_first(x, k), k, lowest);
    max[0] = S::max(v, max[0]);
    nan = S::either(nan, S::unordered(v, v));
    n -= k;
    x += k;
  }
  is_nan = S::any(nan);
  return S::fold_max(S::max(S::max(max[0], max[1]), S::max(max[2], max[3])));
}

// Only the block with the maximum is read again, while it is likely to be in a cache.
template <class E>
[[gnu::flatten]] std::size_t argmax(const E *x, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t block = 4096 / sizeof(E);
  if (n == 0) return std::numeric_limits<std::size_t>::max();
  A best = -std::numeric_limits<A>::infinity();
  std::size_t best_at = 0;
  for (std::size_t i = 0; i < n; i += block) {
    const std::size_t k = n - i < block ? n - i : block;
    bool is_nan;
    const A max = max_of_block(x + i, k, is_nan);
    if (is_nan) [[unlikely]] {
      return i + first_where(x + i, k, [](batch v) RAPT_INNER { return S::unordered(v, v); });
    }
    if (max > best) best = max, best_at = i;
  }
  const batch wanted(best);
  return best_at +
         first_where(x + best_at, n - best_at, [&](batch v) RAPT_INNER { return S::equal(v, wanted); });
}

}  // namespace
