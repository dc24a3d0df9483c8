// Adds up rows, each times its weight: what the experts of a token give.
#pragma once

#include <cstddef>

#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class E>
struct ExpertSum {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;

  const E *x;
  std::ptrdiff_t x_stride;
  std::size_t top_k;
  const A *weights;
  const E *add;

  // Computes the sums of some vectors. load(row, r) loads vector r of a row.
  template <std::size_t count, class Load>
  RAPT_INNER void sum(batch (&t)[count], const Load &load) const {
    unroll<count>([&](std::size_t r) RAPT_INNER { t[r] = load(x, r); });
    if (weights) unroll<count>([&](std::size_t r) RAPT_INNER { t[r] = batch(weights[0]) * t[r]; });
    for (std::size_t slot = 1; slot < top_k; ++slot) {
      const E *const row = x + static_cast<std::ptrdiff_t>(slot) * x_stride;
      if (weights) {
        const batch weight(weights[slot]);
        unroll<count>([&](std::size_t r) RAPT_INNER { t[r] = S::fma(weight, load(row, r), t[r]); });
      } else {
        unroll<count>([&](std::size_t r) RAPT_INNER { t[r] = t[r] + load(row, r); });
      }
    }
    if (add) unroll<count>([&](std::size_t r) RAPT_INNER { t[r] = t[r] + load(add, r); });
  }
};

// Several vectors at a time hide how long an addition takes.
template <class E>
[[gnu::flatten]] void expert_sum(const E *x, std::ptrdiff_t x_stride, std::size_t top_k,
                                 const rapt::Arithmetic<E> *weights, const E *add, E *y, std::size_t n) {
  using Sum = ExpertSum<E>;
  using S = typename Sum::S;
  constexpr std::size_t count = 4;
  const Sum sums{x, x_stride, top_k, weights, add};
  std::size_t i = 0;
  for (; n - i >= count * S::width; i += count * S::width) {
    typename Sum::batch t[count];
    sums.sum(t, [&](const E *row, std::size_t r) RAPT_INNER { return S::load(row + i + r * S::width); });
    unroll<count>([&](std::size_t r) RAPT_INNER { S::store(y + i + r * S::width, t[r]); });
  }
  for (; i < n; i += S::width) {
    typename Sum::batch t[1];
    const std::size_t left = n - i < S::width ? n - i : S::width;
    sums.sum(t, [&](const E *row, std::size_t) RAPT_INNER { return S::load_first(row + i, left); });
    S::store_first(y + i, t[0], left);
  }
}

}  // namespace
