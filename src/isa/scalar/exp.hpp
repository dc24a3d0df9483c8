// The reference of exp and exp_sum.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "contract/exp.hpp"
#include "contract/exp_constants.hpp"
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

// n and r of exp(scale * v) = 2^n * exp(scale * r), and the polynomial of r.
template <class A>
struct Reduction {
  using C = rapt::ExpContract<A>;
  ExpConstants<A> k;

  explicit Reduction(double scale) : k(exp_constants<A>(scale)) {}

  A round_multiple(A v) const { return std::fma(v, k.log2_e, C::round_magic) - C::round_magic; }
  A remainder(A v, A n) const { return std::fma(-n, k.ln2_lo, std::fma(-n, k.ln2_hi, v)); }
  A exp_of_remainder(A r) const {
    A p = k.c[C::coefficient_count - 1];
    for (std::size_t i = C::coefficient_count - 1; i-- > 0;) p = std::fma(p, r, k.c[i]);
    p = std::fma(p, r, k.scale);
    return std::fma(p, r, A(1));
  }
};

template <class A>
A exp_one(const Reduction<A> &natural, A x) {
  using C = rapt::ExpContract<A>;
  if (std::isnan(x)) return x;
  if (x > C::exp_overflow) return std::numeric_limits<A>::infinity();
  if (x < C::exp_underflow) return 0;
  const A n = natural.round_multiple(x);
  const A p = natural.exp_of_remainder(natural.remainder(x, n));
  // By two exact powers, so that a subnormal result is rounded once.
  const int half = static_cast<int>(n) / 2;
  return p * power_of_two<A>(half) * power_of_two<A>(static_cast<int>(n) - half);
}

template <class A>
void exp(const A *x, A *y, std::size_t n) {
  const Reduction<A> natural(1.0);
  for (std::size_t i = 0; i < n; ++i) y[i] = exp_one(natural, x[i]);
}

// A lane of section sums. In f64 it also keeps the loss of its additions (Knuth's two-sum).
template <class A>
struct LongSumLane {
  double total = 0;
  double lost = 0;

  void add(A sum) {
    const double before = total, term = double{sum};
    total = before + term;
    if constexpr (sizeof(A) == sizeof(double)) {
      const double added = total - before;
      lost += (before - (total - added)) + (term - added);
    }
  }
};

template <class A>
double fold(const LongSumLane<A> (&lane)[rapt::sum_lanes<A>]) {
  constexpr std::size_t lanes = rapt::sum_lanes<A>;
  double total[lanes], lost[lanes];
  for (std::size_t j = 0; j < lanes; ++j) {
    total[j] = lane[j].total;
    lost[j] = lane[j].lost;
  }
  const double sum = fold(total);
  return std::isfinite(sum) ? sum + fold(lost) : sum;  // the loss of an infinite sum is NaN
}

// Adds term(begin) … term(end - 1) to the lanes, in the order that the contract gives sums of exponentials.
template <class A, class Term>
void add_to_lanes(A (&lane)[rapt::sum_lanes<A>], std::size_t begin, std::size_t end, Term term) {
  for (std::size_t i = begin; i < end; ++i) lane[i % rapt::sum_lanes<A>] += term(i);
}

template <class A, class Term>
double sum_of(std::size_t n, Term term) {
  if (n <= rapt::sum_section) {
    A lane[rapt::sum_lanes<A>] = {};
    add_to_lanes(lane, 0, n, term);
    return double{fold(lane)};
  }
  LongSumLane<A> long_lane[rapt::sum_lanes<A>];
  for (std::size_t i = 0; i < n; i += rapt::sum_section) {
    A lane[rapt::sum_lanes<A>] = {};
    add_to_lanes(lane, i, n - i < rapt::sum_section ? n : i + rapt::sum_section, term);
    for (std::size_t j = 0; j < rapt::sum_lanes<A>; ++j) long_lane[j].add(lane[j]);
  }
  return fold<A>(long_lane);
}

template <class A>
A exp_sum(const A *x, A scale, A shift, A *y, std::size_t n) {
  const Reduction<A> natural(1.0);
  return static_cast<A>(
      sum_of<A>(n, [&](std::size_t i) { return y[i] = exp_one(natural, std::fma(scale, x[i], -shift)); }));
}

}  // namespace
