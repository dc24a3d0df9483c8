// Sums of exponentials in the contract's order.
#pragma once

#include <cstddef>
#include <type_traits>

#include "contract/reductions.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Adds a block's terms, which are vectors, in pairs down to the contract's lanes.
template <class A>
struct BlockLanes {
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t registers = rapt::sum_lanes<A> / S::width;
  static constexpr std::size_t in_block = rapt::sum_block / S::width;
  // This many registers of terms are made together, enough to fill the pipelines.
  static constexpr std::size_t together = registers < 4 ? 4 : registers;

  // Sums the registers [first, first + count) of the block. make(r, term) sets an array of `together`
  // registers, from register r on.
  template <std::size_t first, std::size_t count, class Make>
  [[gnu::always_inline]] static void sum(batch (&lanes)[registers], Make make) {
    if constexpr (count == together) {
      batch term[together];
      make(first, term);
      in_pairs<together>(term);
      unroll<registers>([&](auto r) __attribute__((always_inline)) { lanes[r] = term[r]; });
    } else {
      batch right[registers];
      sum<first, count / 2>(lanes, make);
      sum<first + count / 2, count / 2>(right, make);
      unroll<registers>([&](auto r) __attribute__((always_inline)) { lanes[r] = lanes[r] + right[r]; });
    }
  }

 private:
  template <std::size_t count>
  [[gnu::always_inline]] static void in_pairs(batch (&term)[together]) {
    if constexpr (count > registers) {
      unroll<count / 2>([&](auto i) __attribute__((always_inline)) {
        constexpr std::size_t left = i / registers * 2 * registers + i % registers;
        term[i] = term[left] + term[left + registers];
      });
      in_pairs<count / 2>(term);
    }
  }
};

// Sums blocks, in lanes of f64.
template <class A>
class BlockSum {
 public:
  using S = simd<A>;
  using D = simd<double>;
  using Lanes = BlockLanes<A>;
  using batch = typename S::batch;
  using total_batch = typename D::batch;
  static constexpr std::size_t registers = rapt::total_lanes / D::width;

  [[gnu::always_inline]] BlockSum() {
    unroll<registers>([&](auto r)
                          __attribute__((always_inline)) { total_[r] = lost_[r] = total_batch(0.0); });
  }
  // `make` is as in BlockLanes::sum.
  template <class Make>
  [[gnu::always_inline]] void add(Make make) {
    batch lanes[Lanes::registers];
    Lanes::template sum<0, Lanes::in_block>(lanes, make);
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      if constexpr (std::is_same_v<A, float>) {
        total_[r] = total_[r] + of_floats<r>(lanes);
      } else {
        add(total_[r], lost_[r], lanes[r]);
      }
    });
    ++blocks_;
  }
  // Adds whole blocks of terms that are in registers.
  template <std::size_t count>
  [[gnu::always_inline]] void add_blocks(const batch (&term)[count]) {
    unroll<count / Lanes::in_block>([&](auto block) __attribute__((always_inline)) {
      add([&](std::size_t first, batch(&part)[Lanes::together]) __attribute__((always_inline)) {
        unroll<Lanes::together>([&](auto r) __attribute__((always_inline)) {
          part[r] = term[block * Lanes::in_block + first + r];
        });
      });
    });
  }
  // Scales exactly, except for lanes that become subnormal.
  [[gnu::always_inline]] void scale(double power_of_two) {
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      total_[r] = total_[r] * total_batch(power_of_two);
      lost_[r] = lost_[r] * total_batch(power_of_two);
    });
  }
  [[gnu::always_inline]] double fold() {
    if constexpr (std::is_same_v<A, float>) {
      return D::fold(folded());
    } else {
      return blocks_ > 1 ? fold_with_losses() : D::fold(folded());
    }
  }
  // Folds the lanes of one block down to a register.
  [[gnu::always_inline]] total_batch folded() const {
    total_batch lane[registers];
    unroll<registers>([&](auto r) __attribute__((always_inline)) { lane[r] = total_[r]; });
    return fold_registers(lane);
  }

 private:
  // Returns register r of lane i + lane i + 8, as f64.
  template <std::size_t r>
  [[gnu::always_inline]] static total_batch of_floats(const batch (&lanes)[Lanes::registers]) {
    return S::template widened<r % 2>(lanes[r / 2]) +
           S::template widened<(r + registers) % 2>(lanes[(r + registers) / 2]);
  }
  template <class Number>
  [[gnu::always_inline]] static void add(Number &total, Number &lost, Number term) {
    const Number before = total;
    total = before + term;
    const Number added = total - before;
    lost = lost + ((before - (total - added)) + (term - added));
  }
  [[gnu::noinline]] double fold_with_losses() const {
    double total[rapt::total_lanes], lost[rapt::total_lanes];
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      D::store(total + r * D::width, total_[r]);
      D::store(lost + r * D::width, lost_[r]);
    });
    for (std::size_t half = rapt::total_lanes / 2; half > 0; half /= 2) {
      for (std::size_t j = 0; j < half; ++j) {
        add(total[j], lost[j], total[j + half]);
        lost[j] += lost[j + half];
      }
    }
    // An infinite sum keeps no loss, which would be NaN.
    return total[0] - total[0] == 0 ? total[0] + lost[0] : total[0];
  }

  total_batch total_[registers], lost_[registers];
  std::size_t blocks_ = 0;
};

// Adds the terms [i, end) in blocks. terms.full(i, term) sets an array of vectors to the terms from i on.
// terms.first(i, k) is a vector of k terms, where the other lanes are 0; k may be more than a vector has.
template <class A, class Terms>
[[gnu::always_inline]] inline void add_terms(BlockSum<A> &sum, std::size_t i, std::size_t end,
                                             const Terms &terms) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t together = BlockLanes<A>::together;
  if constexpr (S::exp_together >= BlockLanes<A>::in_block) {
    constexpr std::size_t step = S::exp_together * S::width;
    for (; end - i >= step; i += step) {
      batch term[S::exp_together];
      terms.full(i, term);
      sum.add_blocks(term);
    }
  }
  for (; end - i >= rapt::sum_block; i += rapt::sum_block) {
    sum.add([&](std::size_t r, batch(&term)[together])
                __attribute__((always_inline)) { terms.full(i + r * S::width, term); });
  }
  if (i == end) return;
  alignas(64) A tail[rapt::sum_block];
  for (std::size_t j = 0; j < rapt::sum_block; j += S::width) {
    const std::size_t left = end - i > j ? end - i - j : 0;
    batch term[1] = {batch(A(0))};
    if (left >= S::width) {
      terms.full(i + j, term);
    } else if (left > 0) {
      term[0] = terms.first(i + j, left);
    }
    S::store(tail + j, term[0]);
  }
  sum.add([&](std::size_t r, batch(&term)[together]) __attribute__((always_inline)) {
    unroll<together>([&](auto t)
                         __attribute__((always_inline)) { term[t] = S::load(tail + (r + t) * S::width); });
  });
}

template <class A, class Terms>
[[gnu::always_inline]] inline double sum_of(std::size_t n, const Terms &terms) {
  BlockSum<A> sum;
  add_terms(sum, 0, n, terms);
  return sum.fold();
}

}  // namespace
