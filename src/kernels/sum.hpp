// Sums of exponentials in the contract's order.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/contract.hpp"
#include "kernels/fold.hpp"
#include "kernels/unroll.hpp"

namespace {

// Lanes' sums of many blocks: f64 for f32, and for f64 together with what each addition loses (Knuth's
// two-sum).
template <class T>
class LongSum {
 public:
  using S = simd<T>;
  static constexpr std::size_t lanes = rapt::Contract<T>::sum_lanes;

  template <std::size_t registers>
  void add(typename S::batch (&lane)[registers]) {
    if constexpr (std::is_same_v<T, float>) {
      unroll<registers>([&](auto r) { S::add_to(total_ + r * S::width, lane[r]); });
    } else {
      unroll<registers>([&](auto r) {
        const auto before = S::load(total_ + r * S::width);
        const auto sum = before + lane[r];
        const auto added = sum - before;
        const auto lost = (before - (sum - added)) + (lane[r] - added);
        S::store(total_ + r * S::width, sum);
        S::store(lost_ + r * S::width, S::load(lost_ + r * S::width) + lost);
      });
    }
  }
  double fold() {
    const double sum = fold(total_);
    if constexpr (std::is_same_v<T, float>) return sum;
    return sum - sum == 0 ? sum + fold(lost_) : sum;  // what an infinity loses is NaN
  }

 private:
  static double fold(double (&lane)[lanes]) {
    for (std::size_t half = lanes / 2; half > 0; half /= 2) {
      for (std::size_t j = 0; j < half; ++j) lane[j] += lane[j + half];
    }
    return lane[0];
  }
  double total_[lanes] = {};
  double lost_[lanes] = {};
};

// The sum of n terms. block(i, term) gives the terms from i on, one vector after the other; first(i, k) gives
// a vector of k of them and 0 in the other lanes (k may be more than a vector: then all of them).
template <class T, class Block, class First>
[[gnu::always_inline]] inline double sum_of(std::size_t n, Block block, First first) {
  using S = simd<T>;
  using C = rapt::Contract<T>;
  constexpr std::size_t lanes = C::sum_lanes;
  constexpr std::size_t registers = lanes / S::width;
  constexpr std::size_t vectors = registers < 4 ? 4 : registers;  // at a time: enough to fill the pipelines
  typename S::batch lane[registers];
  std::size_t i = 0;
  const auto sum_until = [&](std::size_t end) __attribute__((always_inline)) {
    unroll<registers>([&](auto r) { lane[r] = typename S::batch(T(0)); });
    for (; end - i >= vectors * S::width; i += vectors * S::width) {
      typename S::batch term[vectors];
      block(i, term);
      unroll<vectors>([&](auto r) { lane[r % registers] = lane[r % registers] + term[r]; });
    }
    for (; i<end; i = end - i> lanes ? i + lanes : end) {
      unroll<registers>([&](auto r) {
        constexpr std::size_t begin = r * S::width;
        if (end - i > begin) lane[r] = lane[r] + first(i + begin, end - i - begin);
      });
    }
  };

  if (n <= C::sum_block) {
    sum_until(n);
    return double{fold_lanes<T>(lane)};
  }
  LongSum<T> sum;
  while (i < n) {
    sum_until(n - i > C::sum_block ? i + C::sum_block : n);
    sum.add(lane);
  }
  return sum.fold();
}

}  // namespace
