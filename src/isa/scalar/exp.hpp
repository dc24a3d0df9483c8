// Implements the scalar reference of exp and exp_sum.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "contract/exp.hpp"
#include "contract/exp_constants.hpp"
#include "contract/fused.hpp"
#include "contract/reductions.hpp"
#include "isa/scalar/dot.hpp"

namespace {

template <class A>
A power_of_two(int n) {
  using C = rapt::ExpContract<A>;
  using Bits = typename C::Bits;
  constexpr int exponent_bias = std::numeric_limits<A>::max_exponent - 1;
  return __builtin_bit_cast(A, static_cast<Bits>(n + exponent_bias) << C::mantissa_bits);
}

// Splits exp(scale * v) into 2^n * exp(scale * r), and evaluates the polynomial of r.
template <class A>
struct Reduction {
  using C = rapt::ExpContract<A>;
  ExpConstants<A> k;

  explicit Reduction(double scale) : k(exp_constants<A>(scale)) {}
  explicit Reduction(const ExpConstants<A> &constants) : k(constants) {}

  A round_multiple(A v) const { return fused(v, k.log2_e, C::round_magic) - C::round_magic; }
  A remainder(A v, A n) const { return fused(-n, k.ln2_lo, fused(-n, k.ln2_hi, v)); }
  A exp_of_remainder(A r) const {
    A p = k.c[C::coefficient_count - 1];
    for (std::size_t i = C::coefficient_count - 1; i-- > 0;) p = fused(p, r, k.c[i]);
    p = fused(p, r, k.scale);
    return fused(p, r, A(1));
  }
};

template <class A, class C = rapt::ExpContract<A>>
A exp_one(const Reduction<A> &natural, A x) {
  if (std::isnan(x)) return x;
  if (x > C::exp_overflow) return std::numeric_limits<A>::infinity();
  if (x < C::exp_underflow) return 0;
  const A n = natural.round_multiple(x);
  const A p = natural.exp_of_remainder(natural.remainder(x, n));
  // The result is multiplied by two exact powers, so that a subnormal result is rounded only once.
  const int half = static_cast<int>(n) / 2;
  return p * power_of_two<A>(half) * power_of_two<A>(static_cast<int>(n) - half);
}

template <class A>
void exp(const A *x, A *y, std::size_t n) {
  const Reduction<A> natural(1.0);
  for (std::size_t i = 0; i < n; ++i) y[i] = exp_one(natural, x[i]);
}

// Sums blocks of terms. For f64, BlockSum also keeps the rounding errors of its additions (Knuth's two-sum).
template <class A>
class BlockSum {
 public:
  void add(const A (&term)[rapt::sum_block]) {
    constexpr std::size_t lanes = rapt::sum_lanes<A>, vectors = rapt::sum_block / lanes;
    A lane[vectors][lanes];
    for (std::size_t i = 0; i < rapt::sum_block; ++i) lane[i / lanes][i % lanes] = term[i];
    for (std::size_t step = 1; step < vectors; step *= 2) {
      for (std::size_t v = 0; v < vectors; v += 2 * step) {
        for (std::size_t j = 0; j < lanes; ++j) lane[v][j] += lane[v + step][j];
      }
    }
    for (std::size_t j = 0; j < rapt::total_lanes; ++j) {
      double sum = double{lane[0][j]};
      if constexpr (lanes > rapt::total_lanes) sum += double{lane[0][j + rapt::total_lanes]};
      add(total_[j], lost_[j], sum);
    }
    ++blocks_;
  }
  void scale(double power_of_two) {
    for (double &total : total_) total *= power_of_two;
    for (double &lost : lost_) lost *= power_of_two;
  }
  double fold() {
    for (std::size_t half = rapt::total_lanes / 2; half > 0; half /= 2) {
      for (std::size_t j = 0; j < half; ++j) {
        add(total_[j], lost_[j], total_[j + half]);
        lost_[j] += lost_[j + half];
      }
    }
    const bool counts_losses = sizeof(A) == sizeof(double) && blocks_ > 1;
    // The loss of an infinite sum is NaN, so it is not added.
    return counts_losses && std::isfinite(total_[0]) ? total_[0] + lost_[0] : total_[0];
  }

 private:
  static void add(double &total, double &lost, double term) {
    const double before = total;
    total = before + term;
    const double added = total - before;
    lost += (before - (total - added)) + (term - added);
  }
  double total_[rapt::total_lanes] = {}, lost_[rapt::total_lanes] = {};
  std::size_t blocks_ = 0;
};

// Adds the terms with the indices begin to end - 1 to `sum`, in blocks.
template <class A, class Term>
void add_terms(BlockSum<A> &sum, std::size_t begin, std::size_t end, Term term) {
  for (std::size_t i = begin; i < end; i += rapt::sum_block) {
    A block[rapt::sum_block] = {};
    for (std::size_t j = 0; j < rapt::sum_block && i + j < end; ++j) block[j] = term(i + j);
    sum.add(block);
  }
}

template <class A, class Term>
double sum_of(std::size_t n, Term term) {
  BlockSum<A> sum;
  add_terms(sum, 0, n, term);
  return sum.fold();
}

template <class A>
A exp_sum(const A *x, A scale, A shift, A *y, std::size_t n) {
  const Reduction<A> natural(1.0);
  return static_cast<A>(
      sum_of<A>(n, [&](std::size_t i) { return y[i] = exp_one(natural, fused(scale, x[i], -shift)); }));
}

}  // namespace
