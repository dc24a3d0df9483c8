// The reference of exp and exp_sum.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "contract/exp.hpp"
#include "contract/exp_constants.hpp"
#include "isa/scalar/dot.hpp"

namespace {

template <class T>
T power_of_two(int n) {
  using C = rapt::Contract<T>;
  using Bits = typename C::Bits;
  constexpr int exponent_bias = std::numeric_limits<T>::max_exponent - 1;
  return __builtin_bit_cast(T, static_cast<Bits>(n + exponent_bias) << C::mantissa_bits);
}

// n and r of exp(scale * v) = 2^n * exp(scale * r), and the polynomial of r.
template <class T>
struct Reduction {
  using C = rapt::Contract<T>;
  ExpConstants<T> k;

  explicit Reduction(double scale) : k(exp_constants<T>(scale)) {}

  T round_multiple(T v) const { return std::fma(v, k.log2_e, C::round_magic) - C::round_magic; }
  T remainder(T v, T n) const { return std::fma(-n, k.ln2_lo, std::fma(-n, k.ln2_hi, v)); }
  T exp_of_remainder(T r) const {
    T p = k.c[C::coefficient_count - 1];
    for (std::size_t i = C::coefficient_count - 1; i-- > 0;) p = std::fma(p, r, k.c[i]);
    p = std::fma(p, r, k.scale);
    return std::fma(p, r, T(1));
  }
};

template <class T>
T exp_one(const Reduction<T> &natural, T x) {
  using C = rapt::Contract<T>;
  if (std::isnan(x)) return x;
  if (x > C::exp_overflow) return std::numeric_limits<T>::infinity();
  if (x < C::exp_underflow) return 0;
  const T n = natural.round_multiple(x);
  const T p = natural.exp_of_remainder(natural.remainder(x, n));
  // By two exact powers, so that a subnormal result is rounded once.
  const int half = static_cast<int>(n) / 2;
  return p * power_of_two<T>(half) * power_of_two<T>(static_cast<int>(n) - half);
}

template <class T>
void exp(const T *x, T *y, std::size_t n) {
  const Reduction<T> natural(1.0);
  for (std::size_t i = 0; i < n; ++i) y[i] = exp_one(natural, x[i]);
}

// A lane of lanes' sums, and in f64 what its additions have lost (Knuth's two-sum).
template <class T>
struct LongSumLane {
  double total = 0;
  double lost = 0;

  void add(T sum) {
    const double before = total, term = double{sum};
    total = before + term;
    if constexpr (sizeof(T) == sizeof(double)) {
      const double added = total - before;
      lost += (before - (total - added)) + (term - added);
    }
  }
};

template <class T>
double fold(const LongSumLane<T> (&lane)[rapt::Contract<T>::sum_lanes]) {
  constexpr std::size_t lanes = rapt::Contract<T>::sum_lanes;
  double total[lanes], lost[lanes];
  for (std::size_t j = 0; j < lanes; ++j) {
    total[j] = lane[j].total;
    lost[j] = lane[j].lost;
  }
  const double sum = fold(total);
  return std::isfinite(sum) ? sum + fold(lost) : sum;  // what an infinity loses is NaN
}

// Adds term(begin) … term(end - 1) to the lanes, in the order that the contract gives sums of exponentials.
template <class T, class Term>
void add_to_lanes(T (&lane)[rapt::Contract<T>::sum_lanes], std::size_t begin, std::size_t end, Term term) {
  for (std::size_t i = begin; i < end; ++i) lane[i % rapt::Contract<T>::sum_lanes] += term(i);
}

template <class T, class Term>
double sum_of(std::size_t n, Term term) {
  using C = rapt::Contract<T>;
  if (n <= C::sum_block) {
    T lane[C::sum_lanes] = {};
    add_to_lanes(lane, 0, n, term);
    return double{fold(lane)};
  }
  LongSumLane<T> long_lane[C::sum_lanes];
  for (std::size_t i = 0; i < n; i += C::sum_block) {
    T lane[C::sum_lanes] = {};
    add_to_lanes(lane, i, n - i < C::sum_block ? n : i + C::sum_block, term);
    for (std::size_t j = 0; j < C::sum_lanes; ++j) long_lane[j].add(lane[j]);
  }
  return fold<T>(long_lane);
}

template <class T>
T exp_sum(const T *x, T scale, T shift, T *y, std::size_t n) {
  const Reduction<T> natural(1.0);
  return static_cast<T>(
      sum_of<T>(n, [&](std::size_t i) { return y[i] = exp_one(natural, std::fma(scale, x[i], -shift)); }));
}

}  // namespace
