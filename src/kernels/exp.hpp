// exp, exp_sum, and the pieces of exp that softmax is made of.
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>

#include "kernels/contract.hpp"
#include "kernels/exp_constants.hpp"
#include "kernels/sum.hpp"
#include "kernels/unroll.hpp"

namespace {

// exp(scale * v) = 2^n * exp(scale * r), by vectors.
template <class T>
struct ExpParts {
  using S = simd<T>;
  using C = rapt::Contract<T>;
  using batch = typename S::batch;

  batch log2_e, ln2_hi, ln2_lo, scale;
  batch c[C::coefficient_count];

  [[gnu::always_inline]] explicit ExpParts(const ExpConstants<T> &k)
      : log2_e(k.log2_e), ln2_hi(k.ln2_hi), ln2_lo(k.ln2_lo), scale(k.scale) {
    unroll<C::coefficient_count>([&](auto i) { c[i] = batch(k.c[i]); });
  }

  [[gnu::always_inline]] batch remainder(batch v, batch n) const {
    return S::fnma(n, ln2_lo, S::fnma(n, ln2_hi, v));
  }
  [[gnu::always_inline]] batch exp_of_remainder(batch r) const {
    batch p = c[C::coefficient_count - 1];
    unroll<C::coefficient_count - 1>([&](auto i) { p = S::fma(p, r, c[C::coefficient_count - 2 - i]); });
    p = S::fma(p, r, scale);
    return S::fma(p, r, batch(T(1)));
  }
  // 2^k * exp(scale * v) where magic is round_magic + k, and the result is a normal number.
  [[gnu::always_inline]] batch exp_normal(batch v, batch magic) const {
    const batch shifted = S::fma(v, log2_e, magic);
    return S::add_exponent(exp_of_remainder(remainder(v, shifted - magic)), shifted);
  }
};

// The natural exponential of anything.
template <class T>
struct Exp : ExpParts<T> {
  using S = simd<T>;
  using C = rapt::Contract<T>;
  using batch = typename S::batch;
  using mask = typename S::mask;

  [[gnu::always_inline]] Exp() : ExpParts<T>(exp_constants<T>(1.0)) {}

  // Lanes that need more than adding to an exponent: NaN, and results that overflow or are subnormal.
  [[gnu::always_inline]] static mask unusual(batch x) { return S::not_less(S::abs(x), batch(C::exp_plain)); }
  [[gnu::always_inline]] batch usual(batch x) const { return this->exp_normal(x, batch(C::round_magic)); }

  // A subnormal result is p * 2^n in units of the smallest subnormal, rounded to an integer by adding a power
  // of two: all of it in normal numbers. (A product or vscalefps that comes out subnormal costs a microcode
  // assist, some 150 cycles a vector.)
  [[gnu::noinline]] batch any(batch x) const {
    const batch low(C::exp_underflow), high(C::exp_overflow);
    batch v = S::select(S::less(x, low), low, x);
    v = S::select(S::less(high, v), high, v);
    const batch magic(C::round_magic);
    const batch shifted = S::fma(v, this->log2_e, magic);
    const batch p = this->exp_of_remainder(this->remainder(v, shifted - magic));
    const batch normal = S::add_exponent(p, shifted);
    const batch unit(C::integer_unit);
    const batch in_units = S::add_exponent(p, shifted + batch(T(C::subnormal_exponent)));
    const batch subnormal = S::subtract_bits(in_units + unit, unit);
    batch y = S::select(S::less(x, batch(C::exp_normal_from)), subnormal, normal);
    y = S::select(S::less(high, x), batch(std::numeric_limits<T>::infinity()), y);
    return S::select(S::unordered(x, x), x, y);
  }
  [[gnu::always_inline]] batch operator()(batch x) const { return S::any(unusual(x)) ? any(x) : usual(x); }
};

// Several vectors with one test: a test of each costs AVX2 half its speed.
template <std::size_t registers, class T>
[[gnu::always_inline]] inline void exp_block(const Exp<T> &exp, typename simd<T>::batch (&v)[registers]) {
  using S = simd<T>;
  typename S::mask odd = Exp<T>::unusual(v[0]);
  unroll<registers - 1>([&](auto r) { odd = S::either(odd, Exp<T>::unusual(v[r + 1])); });
  if (S::any(odd)) [[unlikely]] {
    unroll<registers>([&](auto r) { v[r] = exp.any(v[r]); });
  } else {
    unroll<registers>([&](auto r) { v[r] = exp.usual(v[r]); });
  }
}

template <class T>
[[gnu::flatten]] void exp_all(const T *x, T *y, std::size_t n) {
  using S = simd<T>;
  constexpr std::size_t registers = 4;
  constexpr std::size_t block = registers * S::width;
  const Exp<T> exp;
  std::size_t i = 0;
  for (; n - i >= block; i += block) {
    typename S::batch v[registers];
    unroll<registers>([&](auto r) { v[r] = S::load(x + i + r * S::width); });
    exp_block(exp, v);
    unroll<registers>([&](auto r) { S::store(y + i + r * S::width, v[r]); });
  }
  for (; n - i >= S::width; i += S::width) S::store(y + i, exp(S::load(x + i)));
  if (i < n) S::store_first(y + i, exp(S::load_first(x + i, n - i)), n - i);
}

template <class T>
[[gnu::flatten]] T exp_sum(const T *x, T scale, T shift, T *y, std::size_t n) {
  using S = simd<T>;
  using batch = typename S::batch;
  const Exp<T> exp;
  const batch factor(scale), minus_shift(-shift);
  return static_cast<T>(sum_of<T>(
      n,
      [&](std::size_t i, auto &e) __attribute__((always_inline)) {
        constexpr std::size_t registers = std::extent_v<std::remove_reference_t<decltype(e)>>;
        unroll<registers>([&](auto r) { e[r] = S::fma(factor, S::load(x + i + r * S::width), minus_shift); });
        exp_block(exp, e);
        unroll<registers>([&](auto r) { S::store(y + i + r * S::width, e[r]); });
      },
      [&](std::size_t i, std::size_t k) {
        const batch e = exp(S::fma(factor, S::load_first(x + i, k), minus_shift));
        S::store_first(y + i, e, k);
        return S::keep_first(e, k);
      }));
}

}  // namespace
