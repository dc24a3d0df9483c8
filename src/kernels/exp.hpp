// exp, exp_sum, and the pieces of exp that softmax is made of.
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>

#include "contract/exp.hpp"
#include "contract/exp_constants.hpp"
#include "kernels/vector/map.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/sum.hpp"
#include "kernels/vector/unroll.hpp"

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
    unroll<C::coefficient_count>([&](auto i) __attribute__((always_inline)) { c[i] = batch(k.c[i]); });
  }

  [[gnu::always_inline]] batch remainder(batch v, batch n) const {
    return S::fnma(n, ln2_lo, S::fnma(n, ln2_hi, v));
  }
  [[gnu::always_inline]] batch exp_of_remainder(batch r) const {
    batch p = c[C::coefficient_count - 1];
    unroll<C::coefficient_count - 1>([&](auto i) __attribute__((always_inline)) {
      p = S::fma(p, r, c[C::coefficient_count - 2 - i]);
    });
    p = S::fma(p, r, scale);
    return S::fma(p, r, batch(T(1)));
  }
  // 2^k * exp(scale * v) where magic is round_magic + k, and the result is a normal number.
  [[gnu::always_inline]] batch exp_normal(batch v, batch magic) const {
    const batch shifted = S::fma(v, log2_e, magic);
    const batch p = exp_of_remainder(remainder(v, shifted - magic));
    if constexpr (ScalesByPower<S>) {
      return S::scale_by_power(p, shifted - batch(C::round_magic));
    } else {
      return S::add_exponent(p, shifted);
    }
  }
};

// The natural exponential of anything, by blocks of vectors with one test for what is unusual in them: NaN,
// infinities, results that overflow or are subnormal.
//
// AVX-512, ns an element in L1, where 11 operations a vector and one for the test need .121: comparing
// the magnitude of each vector and adding to the exponent .159; the test of bits and vscalefps .127. Scaling
// before the test is known: the same, but 5.2 with subnormal results, assists. What is unusual takes .195; it
// took .35 as a function of its own. AVX2: the test by comparisons .237, on port 5 .220, which is the limit
// of 11 operations on two ports.
template <class T>
struct Exp : ExpParts<T> {
  using S = simd<T>;
  using C = rapt::Contract<T>;
  using batch = typename S::batch;
  using mask = typename S::mask;

  [[gnu::always_inline]] Exp() : ExpParts<T>(exp_constants<T>(1.0)) {}

  template <std::size_t registers>
  [[gnu::always_inline]] void operator()(batch (&v)[registers]) const {
    if constexpr (ScalesByPower<S>) {
      // n + lowest_n lies in the low bits of what adding the magic number gives, and while it is not negative
      // the others are the magic number's: tested by bits, as comparing each vector costs another operation.
      const batch magic(C::round_magic - T(C::lowest_n));
      batch shifted[registers];
      unroll<registers>([&](auto r) __attribute__((always_inline)) {
        shifted[r] = S::fma(v[r], this->log2_e, magic);
      });
      if (S::high_bits_differ(shifted, batch(C::round_magic))) [[unlikely]] {
        any_by_power(v, shifted, magic);
      } else {
        unroll<registers>([&](auto r) __attribute__((always_inline)) {
          const batch n = shifted[r] - magic;
          v[r] = S::scale_by_power(this->exp_of_remainder(this->remainder(v[r], n)), n);
        });
      }
    } else {
      // Lanes that need more than adding to an exponent. One branch a block: one a vector costs AVX2 half its
      // speed.
      const batch plain(C::exp_plain);
      mask odd = S::magnitude_reaches(v[0], plain);
      unroll<registers - 1>([&](auto r) __attribute__((always_inline)) {
        odd = S::either(odd, S::magnitude_reaches(v[r + 1], plain));
      });
      if (S::any(odd)) [[unlikely]] {
        any(v);
      } else {
        unroll<registers>([&](auto r) __attribute__((always_inline)) {
          v[r] = this->exp_normal(v[r], batch(C::round_magic));
        });
      }
    }
  }
  [[gnu::always_inline]] batch operator()(batch x) const {
    batch v[1] = {x};
    (*this)(v);
    return v[0];
  }

 private:
  // A subnormal result is p * 2^n in units of the smallest subnormal, rounded to an integer by adding a power
  // of two: all of it in normal numbers. (A product or vscalefps that comes out subnormal costs a microcode
  // assist, some 150 cycles a vector.)
  template <std::size_t registers>
  [[gnu::always_inline]] void any(batch (&v)[registers]) const {
    const batch unit(C::integer_unit), to_units(static_cast<T>(C::subnormal_exponent)),
        normal_from(C::exp_normal_from);
    const batch low(C::exp_underflow), high(C::exp_overflow), magic(C::round_magic);
    const batch infinity(std::numeric_limits<T>::infinity());
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      const batch x = v[r];
      const batch clamped = S::min(high, S::max(low, x));
      const batch shifted = S::fma(clamped, this->log2_e, magic);
      const batch p = this->exp_of_remainder(this->remainder(clamped, shifted - magic));
      const mask subnormal = S::less(x, normal_from);
      batch y = S::add_exponent(p, S::add_where(subnormal, shifted, to_units));
      y = S::subtract_bits_where(subnormal, S::add_where(subnormal, y, unit), unit);
      v[r] = S::select(S::not_greater(x, high), y, x + infinity);
    });
  }
  template <std::size_t registers>
  [[gnu::always_inline]] void any_by_power(batch (&v)[registers], const batch (&shifted)[registers],
                                           batch magic) const {
    const batch unit(C::integer_unit), to_units(static_cast<T>(C::subnormal_exponent));
    const batch normal_from(C::exp_normal_from), deepest_n(T(C::lowest_n - 64)), bound(T(1));
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      // Not so deep that a result in units is subnormal itself. The remainder of an infinity or of a huge
      // number is anything.
      const batch n = S::max(deepest_n, shifted[r] - magic);
      batch y = this->exp_of_remainder(S::nearer_zero(this->remainder(v[r], n), bound));
      const mask subnormal = S::less(v[r], normal_from);
      y = S::scale_by_power(y, S::add_where(subnormal, n, to_units));
      v[r] = S::subtract_bits_where(subnormal, S::add_where(subnormal, y, unit), unit);
    });
  }
};

template <class T>
[[gnu::flatten]] void exp_all(const T *x, T *y, std::size_t n) {
  map(x, y, n, Exp<T>());
}

// What exp_sum adds up: exp(scale * x - shift), stored in y.
template <class T>
struct ExpSumTerms {
  using S = simd<T>;
  using batch = typename S::batch;
  const T *x;
  T *y;
  batch factor, minus_shift;
  Exp<T> exp;

  template <std::size_t registers>
  [[gnu::always_inline]] void full(std::size_t i, batch (&e)[registers]) const {
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      e[r] = S::fma(factor, S::load(x + i + r * S::width), minus_shift);
    });
    exp(e);
    unroll<registers>([&](auto r) __attribute__((always_inline)) { S::store(y + i + r * S::width, e[r]); });
  }
  [[gnu::always_inline]] batch first(std::size_t i, std::size_t k) const {
    const batch e = exp(S::fma(factor, S::load_first(x + i, k), minus_shift));
    S::store_first(y + i, e, k);
    return S::keep_first(e, k);
  }
};

template <class T>
[[gnu::flatten]] T exp_sum(const T *x, T scale, T shift, T *y, std::size_t n) {
  using batch = typename simd<T>::batch;
  return static_cast<T>(sum_of<T>(n, ExpSumTerms<T>{x, y, batch(scale), batch(-shift), {}}));
}

}  // namespace
