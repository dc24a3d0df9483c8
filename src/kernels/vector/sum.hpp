// Sums exponentials in the order that contract/reductions.hpp fixes for all instruction-set levels.
#pragma once

#include <cstddef>
#include <type_traits>

#include "contract/reductions.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Adds the terms of a block in pairs of vectors, until sum_lanes lanes are left. A block has sum_block terms.
template <class A>
struct BlockLanes {
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t registers = rapt::sum_lanes<A> / S::width;
  static constexpr std::size_t in_block = rapt::sum_block / S::width;
  // Terms are computed this many registers at a time, which is enough to fill the pipelines.
  static constexpr std::size_t together = registers < 4 ? 4 : registers;

  // Sums the registers [first, first + count) of the block. make(r, term) fills an array of `together`
  // registers with the terms from register r on.
  template <std::size_t first, std::size_t count, class Make>
  RAPT_INNER static void sum(batch (&lanes)[registers], Make make) {
    if constexpr (count == together) {
      batch term[together];
      make(first, term);
      in_pairs<together>(term);
      unroll<registers>([&](std::size_t r) RAPT_INNER { lanes[r] = term[r]; });
    } else {
      batch right[registers];
      sum<first, count / 2>(lanes, make);
      sum<first + count / 2, count / 2>(right, make);
      unroll<registers>([&](std::size_t r) RAPT_INNER { lanes[r] = lanes[r] + right[r]; });
    }
  }

 private:
  template <std::size_t count>
  RAPT_INNER static void in_pairs(batch (&term)[together]) {
    if constexpr (count > registers) {
      unroll<count / 2>([&](auto i) RAPT_INNER {
        constexpr std::size_t left = i / registers * 2 * registers + i % registers;
        term[i] = term[left] + term[left + registers];
      });
      in_pairs<count / 2>(term);
    }
  }
};

// Sums blocks in lanes of f64. For doubles, lost_ collects the rounding errors of the additions.
template <class A>
class BlockSum {
 public:
  using S = simd<A>;
  using D = simd<double>;
  using Lanes = BlockLanes<A>;
  using batch = typename S::batch;
  using total_batch = typename D::batch;
  static constexpr std::size_t registers = rapt::total_lanes / D::width;

  RAPT_INNER BlockSum() {
    unroll<registers>([&](std::size_t r) RAPT_INNER { total_[r] = lost_[r] = total_batch(0.0); });
  }
  // Adds a block, whose terms come from `make` as in BlockLanes::sum.
  template <class Make>
  RAPT_INNER void add(Make make) {
    batch lanes[Lanes::registers];
    Lanes::template sum<0, Lanes::in_block>(lanes, make);
    unroll<registers>([&](auto r) RAPT_INNER {
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
  RAPT_INNER void add_blocks(const batch (&term)[count]) {
    unroll<count / Lanes::in_block>([&](std::size_t block) RAPT_INNER {
      add([&](std::size_t first, batch(&part)[Lanes::together]) RAPT_INNER {
        unroll<Lanes::together>([&](std::size_t r)
                                    RAPT_INNER { part[r] = term[block * Lanes::in_block + first + r]; });
      });
    });
  }
  // Multiplies the sum by a power of two. This is exact, except for lanes that become subnormal.
  RAPT_INNER void scale(double power_of_two) {
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      total_[r] = total_[r] * total_batch(power_of_two);
      lost_[r] = lost_[r] * total_batch(power_of_two);
    });
  }
  RAPT_INNER double fold() {
    if constexpr (std::is_same_v<A, float>) {
      return D::fold(folded());
    } else {
      return blocks_ > 1 ? fold_with_losses() : D::fold(folded());
    }
  }
  // Folds total_ to one register. This leaves out lost_, which is 0 after a single block.
  RAPT_INNER total_batch folded() const {
    total_batch lane[registers];
    unroll<registers>([&](std::size_t r) RAPT_INNER { lane[r] = total_[r]; });
    return fold_registers(lane);
  }

 private:
  // Returns register r of the sums of lane i and lane i + 8, in f64.
  template <std::size_t r>
  RAPT_INNER static total_batch of_floats(const batch (&lanes)[Lanes::registers]) {
    return S::template widened<r % 2>(lanes[r / 2]) +
           S::template widened<(r + registers) % 2>(lanes[(r + registers) / 2]);
  }
  template <class Number>
  RAPT_INNER static void add(Number &total, Number &lost, Number term) {
    const Number before = total;
    total = before + term;
    const Number added = total - before;
    lost = lost + ((before - (total - added)) + (term - added));
  }
  [[gnu::noinline, gnu::flatten]] double fold_with_losses() const {
    double total[rapt::total_lanes], lost[rapt::total_lanes];
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      D::store(total + r * D::width, total_[r]);
      D::store(lost + r * D::width, lost_[r]);
    });
    for (std::size_t half = rapt::total_lanes / 2; half > 0; half /= 2) {
      for (std::size_t j = 0; j < half; ++j) {
        add(total[j], lost[j], total[j + half]);
        lost[j] += lost[j + half];
      }
    }
    // The losses of an infinite sum would be NaN, so they are left out.
    return total[0] - total[0] == 0 ? total[0] + lost[0] : total[0];
  }

  total_batch total_[registers], lost_[registers];
  std::size_t blocks_ = 0;
};

// Adds the terms [i, end) in blocks. terms.full(i, term) fills an array of vectors with the terms from i on.
// terms.first(i, k) returns a vector of k terms, with 0 in the other lanes; k may exceed the width.
template <class A, class Terms>
RAPT_INNER inline void add_terms(BlockSum<A> &sum, std::size_t i, std::size_t end, const Terms &terms) {
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
    sum.add([&](std::size_t r, batch(&term)[together]) RAPT_INNER { terms.full(i + r * S::width, term); });
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
  sum.add([&](std::size_t r, batch(&term)[together]) RAPT_INNER {
    unroll<together>([&](std::size_t t) RAPT_INNER { term[t] = S::load(tail + (r + t) * S::width); });
  });
}

template <class A, class Terms>
RAPT_INNER inline double sum_of(std::size_t n, const Terms &terms) {
  BlockSum<A> sum;
  add_terms(sum, 0, n, terms);
  return sum.fold();
}

}  // namespace
