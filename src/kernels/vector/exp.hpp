// exp by vectors: its reduction and polynomial, of which softmax is made too, and exp of any number.
#pragma once

#include <cstddef>
#include <limits>

#include "contract/exp.hpp"
#include "contract/exp_constants.hpp"
#include "kernels/vector/addends.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// exp(scale * v) = 2^n * exp(scale * r), by vectors.
template <class A>
struct ExpParts {
  using S = simd<A>;
  using C = rapt::ExpContract<A>;
  using batch = typename S::batch;

  batch log2_e, ln2_hi, ln2_lo;
  Addend<S> scale;
  Addend<S> c[C::coefficient_count];

  [[gnu::always_inline]] explicit ExpParts(const ExpConstants<A> &k)
      : log2_e(k.log2_e), ln2_hi(k.ln2_hi), ln2_lo(k.ln2_lo), scale(batch(k.scale)) {
    unroll<C::coefficient_count>([&](auto i)
                                     __attribute__((always_inline)) { c[i] = Addend<S>(batch(k.c[i])); });
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
    if constexpr (ReloadsAddends<S>) return S::fma(p, r, Addends<S, C>::one());
    return S::fma(p, r, batch(A(1)));
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

// The natural exponential of any number, for several vectors at a time with one test for the irregular: NaN,
// infinities, results that overflow or are subnormal.
//
// In L1, where AVX-512 needs .121 for 11 operations and one test, and AVX2 .220 for 11 operations on two
// ports:
//
//   level   | test                                             | ns per element
//   avx512  | magnitude of each vector, addition to exponent   | .159
//   avx512  | bits of all vectors, vscalefps (this one)        | .127
//   avx512  | the same after scaling                           | .127; 5.2 with subnormal results, by assists
//   avx512  | irregular vectors (this one)                     | .195; .35 as a function of its own
//   avx2    | comparisons                                      | .237
//   avx2    | bits, on port 5 (this one)                       | .220
template <class A>
struct Exp : ExpParts<A> {
  using S = simd<A>;
  using C = rapt::ExpContract<A>;
  using batch = typename S::batch;
  using mask = typename S::mask;

  [[gnu::always_inline]] Exp() : ExpParts<A>(exp_constants<A>(1.0)) {}

  template <std::size_t registers>
  [[gnu::always_inline]] void operator()(batch (&v)[registers]) const {
    if constexpr (ScalesByPower<S>) {
      // The sum with the magic number holds n - lowest_n in its low bits. While that is not negative, the
      // high bits are the magic number's. A test of bits costs less than a comparison of each vector.
      const batch magic(C::round_magic - A(C::lowest_n));
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
      // Lanes that need more than an addition to the exponent. A branch per vector would cost AVX2 half its
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
  // of two: every step is a normal number. A product or vscalefps with a subnormal result costs a microcode
  // assist, some 150 cycles per vector.
  template <std::size_t registers>
  [[gnu::always_inline]] void any(batch (&v)[registers]) const {
    const batch unit(C::integer_unit), to_units(static_cast<A>(C::subnormal_exponent)),
        normal_from(C::exp_normal_from);
    const batch low(C::exp_underflow), high(C::exp_overflow), magic(C::round_magic);
    const batch infinity(std::numeric_limits<A>::infinity());
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
    const batch unit(C::integer_unit), to_units(static_cast<A>(C::subnormal_exponent));
    const batch normal_from(C::exp_normal_from), deepest_n(A(C::lowest_n - 64)), bound(A(1));
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      // The bound on n keeps a result in units normal. The bound on the remainder is for infinities and huge
      // numbers, whose remainder is arbitrary.
      const batch n = S::max(deepest_n, shifted[r] - magic);
      batch y = this->exp_of_remainder(S::nearer_zero(this->remainder(v[r], n), bound));
      const mask subnormal = S::less(v[r], normal_from);
      y = S::scale_by_power(y, S::add_where(subnormal, n, to_units));
      v[r] = S::subtract_bits_where(subnormal, S::add_where(subnormal, y, unit), unit);
    });
  }
};

}  // namespace
