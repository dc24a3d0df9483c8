// Sums of exponentials in the contract's order.
#pragma once

#include <cstddef>
#include <type_traits>

#include "contract/reductions.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// The sums of lanes over many sections, in f64. In f64 arithmetic each addition's loss is kept too (Knuth's
// two-sum).
template <class A>
class LongSum {
 public:
  using S = simd<A>;
  static constexpr std::size_t lanes = rapt::sum_lanes<A>;

  // Not a constructor: few sums are long, and clearing these lanes takes as long as a short row.
  void clear() {
    for (std::size_t j = 0; j < lanes; ++j) total_[j] = lost_[j] = 0;
  }
  template <std::size_t registers>
  void add(typename S::batch (&lane)[registers]) {
    if constexpr (std::is_same_v<A, float>) {
      unroll<registers>([&](auto r)
                            __attribute__((always_inline)) { S::add_to(total_ + r * S::width, lane[r]); });
    } else {
      unroll<registers>([&](auto r) __attribute__((always_inline)) {
        const auto before = S::load(total_ + r * S::width);
        const auto sum = before + lane[r];
        const auto added = sum - before;
        const auto lost = (before - (sum - added)) + (lane[r] - added);
        S::store(total_ + r * S::width, sum);
        S::store(lost_ + r * S::width, S::load(lost_ + r * S::width) + lost);
      });
    }
  }
  // Exact, except for lanes that become subnormal.
  void scale(double power_of_two) {
    for (std::size_t j = 0; j < lanes; ++j) {
      total_[j] *= power_of_two;
      lost_[j] *= power_of_two;
    }
  }
  double fold() {
    const double sum = fold(total_);
    if constexpr (std::is_same_v<A, float>) return sum;
    return sum - sum == 0 ? sum + fold(lost_) : sum;  // the loss of an infinite sum is NaN
  }

 private:
  static double fold(double (&lane)[lanes]) {
    for (std::size_t half = lanes / 2; half > 0; half /= 2) {
      for (std::size_t j = 0; j < half; ++j) lane[j] += lane[j + half];
    }
    return lane[0];
  }
  double total_[lanes];
  double lost_[lanes];
};

// The lanes of a sum of at most a section of terms.
template <class A>
struct SumLanes {
  using S = simd<A>;
  static constexpr std::size_t lanes = rapt::sum_lanes<A>;
  static constexpr std::size_t registers = lanes / S::width;
  static constexpr std::size_t vectors = registers < 4 ? 4 : registers;  // at a time: they fill the pipelines
  typename S::batch lane[registers];

  [[gnu::always_inline]] void clear() {
    unroll<registers>([&](auto r) __attribute__((always_inline)) { lane[r] = typename S::batch(A(0)); });
  }
  // Adds the terms [i, end) except a tail of fewer than `vectors` vectors; returns the tail's first index.
  template <class Terms>
  [[gnu::always_inline]] std::size_t add_whole(std::size_t i, std::size_t end, const Terms &terms) {
    for (; end - i >= vectors * S::width; i += vectors * S::width) {
      typename S::batch term[vectors];
      terms.full(i, term);
      unroll<vectors>([&](auto r) __attribute__((always_inline)) {
        lane[r % registers] = lane[r % registers] + term[r];
      });
    }
    return i;
  }
  // The sum of the terms [i, end). terms.full(i, term) sets an array of vectors to the terms from i on.
  // terms.first(i, k) is a vector of k terms with 0 in the other lanes; k may exceed a vector.
  template <class Terms>
  [[gnu::always_inline]] void set_to_sum(std::size_t i, std::size_t end, const Terms &terms) {
    clear();
    i = add_whole(i, end, terms);
    for (; i < end; i += lanes < end - i ? lanes : end - i) {
      unroll<registers>([&](auto r) __attribute__((always_inline)) {
        constexpr std::size_t begin = r * S::width;
        if (end - i >= begin + S::width) {
          typename S::batch term[1];
          terms.full(i + begin, term);
          lane[r] = lane[r] + term[0];
        } else if (end - i > begin) {
          lane[r] = lane[r] + terms.first(i + begin, end - i - begin);
        }
      });
    }
  }
};

template <class A, class Terms>
[[gnu::always_inline]] inline double sum_of(std::size_t n, const Terms &terms) {
  constexpr std::size_t section = rapt::sum_section;
  static_assert(section % (SumLanes<A>::vectors * simd<A>::width) == 0);
  SumLanes<A> sum;
  LongSum<A> total;
  std::size_t i = 0;
  if (n > section) [[unlikely]] {
    total.clear();
    for (; n - i > section; i += section) {
      sum.clear();
      sum.add_whole(i, i + section, terms);
      total.add(sum.lane);
    }
  }
  // The last section, or all of a short sum. A tail is much code, so that it stands here alone.
  sum.set_to_sum(i, n, terms);
  if (n <= section) [[likely]]
    return double{fold_lanes<A>(sum.lane)};
  total.add(sum.lane);
  return total.fold();
}

}  // namespace
