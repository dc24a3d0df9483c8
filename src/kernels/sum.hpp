// Sums of exponentials in the contract's order.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/contract.hpp"
#include "kernels/fold.hpp"
#include "kernels/unroll.hpp"

namespace {

// The sum of n terms. block(i, term) gives the terms from i on, one for each lane; first(i, k) gives a vector
// of k of them and 0 in the other lanes (k may be more than a vector: then all of them).
template <class T, class Block, class First>
[[gnu::always_inline]] inline double sum_of(std::size_t n, Block block, First first) {
  using S = simd<T>;
  using C = rapt::Contract<T>;
  constexpr std::size_t lanes = C::sum_lanes;
  constexpr std::size_t registers = lanes / S::width;

  const bool is_long = n > C::sum_block;
  double total[std::is_same_v<T, float> ? lanes : 1] = {};
  typename S::batch lane[registers];
  for (std::size_t i = 0;;) {
    unroll<registers>([&](auto r) { lane[r] = typename S::batch(T(0)); });
    const std::size_t end = is_long && n - i > C::sum_block ? i + C::sum_block : n;
    for (; end - i >= lanes; i += lanes) {
      typename S::batch term[registers];
      block(i, term);
      unroll<registers>([&](auto r) { lane[r] = lane[r] + term[r]; });
    }
    if (i < end) {
      unroll<registers>([&](auto r) {
        constexpr std::size_t begin = r * S::width;
        if (end - i > begin) lane[r] = lane[r] + first(i + begin, end - i - begin);
      });
      i = end;
    }
    if constexpr (std::is_same_v<T, float>) {
      if (is_long) {
        unroll<registers>([&](auto r) { S::add_to(total + r * S::width, lane[r]); });
        if (i < n) continue;
        for (std::size_t half = lanes / 2; half > 0; half /= 2) {
          for (std::size_t j = 0; j < half; ++j) total[j] += total[j + half];
        }
        return total[0];
      }
    }
    break;
  }
  return double{fold_lanes<T>(lane)};
}

}  // namespace
