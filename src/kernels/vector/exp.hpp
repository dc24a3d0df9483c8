// Computes exp of vectors: its range reduction and polynomial, which softmax uses too, and exp of any number.
#pragma once

#include <bit>
#include <cstddef>
#include <limits>

#include "contract/exp.hpp"
#include "contract/exp_constants.hpp"
#include "kernels/vector/addends.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Computes exp(scale * v) as 2^n * exp(scale * r), where r is the remainder of v after range reduction.
template <class A>
struct ExpParts {
  using S = simd<A>;
  using C = rapt::ExpContract<A>;
  using batch = typename S::batch;

  batch log2_e, ln2_hi, ln2_lo;
  Addend<S> scale;
  Addend<S> c[C::coefficient_count];

  RAPT_INNER explicit ExpParts(const ExpConstants<A> &k)
      : log2_e(k.log2_e), ln2_hi(k.ln2_hi), ln2_lo(k.ln2_lo), scale(batch(k.scale)) {
    unroll<C::coefficient_count>([&](std::size_t i) RAPT_INNER { c[i] = Addend<S>(batch(k.c[i])); });
  }

  RAPT_INNER batch remainder(batch v, batch n) const { return S::fnma(n, ln2_lo, S::fnma(n, ln2_hi, v)); }
  RAPT_INNER batch exp_of_remainder(batch r) const {
    batch p = c[C::coefficient_count - 1];
    unroll<C::coefficient_count - 1>([&](std::size_t i)
                                         RAPT_INNER { p = S::fma(p, r, c[C::coefficient_count - 2 - i]); });
    p = S::fma(p, r, scale);
    if constexpr (ReloadsAddends<S>) return S::fma(p, r, Addends<S, C>::one());
    return S::fma(p, r, batch(A(1)));
  }
  // Computes several vectors in lockstep. One by one, each operation would wait for the one before it.
  template <std::size_t registers>
  RAPT_INNER void exp_of_remainders(const batch (&v)[registers], const batch (&n)[registers],
                                    batch (&p)[registers]) const {
    const auto each = [](auto step) RAPT_INNER { unroll<registers>(step); };
    batch r[registers];
    each([&](std::size_t i) RAPT_INNER { r[i] = S::fnma(n[i], ln2_hi, v[i]); });
    each([&](std::size_t i) RAPT_INNER { r[i] = S::fnma(n[i], ln2_lo, r[i]); });
    each([&](std::size_t i) RAPT_INNER { p[i] = c[C::coefficient_count - 1]; });
    unroll<C::coefficient_count - 1>([&](std::size_t j) RAPT_INNER {
      each([&](std::size_t i) RAPT_INNER { p[i] = S::fma(p[i], r[i], c[C::coefficient_count - 2 - j]); });
    });
    each([&](std::size_t i) RAPT_INNER { p[i] = S::fma(p[i], r[i], scale); });
    each([&](std::size_t i) RAPT_INNER { p[i] = S::fma(p[i], r[i], batch(A(1))); });
  }
  // Replaces v by 2^k * exp(scale * v) where v is above `lowest`, and by 0 elsewhere. `magic` is round_magic
  // + k. A NaN gives 0, or NaN if S::exp_keeps_nan.
  template <std::size_t registers>
  RAPT_INNER void exp_above(batch (&v)[registers], batch lowest, batch magic) const {
    batch shifted[registers], n[registers], p[registers];
    const auto each = [](auto step) RAPT_INNER { unroll<registers>(step); };
    each([&](std::size_t i) RAPT_INNER { shifted[i] = S::fma(v[i], log2_e, magic); });
    each([&](std::size_t i) RAPT_INNER { n[i] = shifted[i] - magic; });
    exp_of_remainders(v, n, p);
    each([&](std::size_t i) RAPT_INNER {
      if constexpr (ScalesByPower<S>) {
        v[i] = S::scale_by_power_above(v[i], lowest, p[i], shifted[i] - batch(C::round_magic), shifted[i]);
      } else {
        v[i] = S::zero_where(S::not_greater(v[i], lowest), S::add_exponent(p[i], shifted[i]));
      }
    });
  }
  // Returns 2^k * exp(scale * v), which must be a normal number. `magic` is round_magic + k.
  RAPT_INNER batch exp_normal(batch v, batch magic) const {
    const batch shifted = S::fma(v, log2_e, magic);
    return scaled(exp_of_remainder(remainder(v, shifted - magic)), shifted);
  }
  template <std::size_t registers>
  RAPT_INNER void exp_normal(batch (&v)[registers], batch magic) const {
    batch shifted[registers], n[registers], p[registers];
    const auto each = [](auto step) RAPT_INNER { unroll<registers>(step); };
    each([&](std::size_t i) RAPT_INNER { shifted[i] = S::fma(v[i], log2_e, magic); });
    each([&](std::size_t i) RAPT_INNER { n[i] = shifted[i] - magic; });
    exp_of_remainders(v, n, p);
    each([&](std::size_t i) RAPT_INNER { v[i] = scaled(p[i], shifted[i]); });
  }

 private:
  RAPT_INNER static batch scaled(batch p, batch shifted) {
    if constexpr (ScalesByPower<S>) {
      return S::scale_by_power(p, shifted - batch(C::round_magic));
    } else {
      return S::add_exponent(p, shifted);
    }
  }
};

// Computes the natural exponential of any number, for several vectors at a time. One test per array of
// vectors finds irregular arguments: NaN, infinities, and those whose result overflows or is subnormal. After
// two irregular arrays in a row, the next ones skip the test and take the slower path for any number.
//
// Measured in L1. The limit is .121 ns on AVX-512 (11 operations and one test), and .220 on AVX2 (11
// operations on two ports):
//
//   level   | how irregular arguments are found                | ns per element
//   avx512  | magnitude of each vector, addition to exponent   | .159
//   avx512  | bits of all vectors, vscalefps (this one)        | .127
//   avx512  | the same, but tested after the scaling           | .127; 5.2 with subnormal results (assists)
//   avx512  | this one, 8 vectors in lockstep or 4 and 4       | .127 to .130
//   avx2    | comparisons                                      | .237
//   avx2    | bits, on port 5 (this one)                       | .220
//
// At a higher clock, with subnormal results in every vector:
//
//   level   | how subnormal results are computed               | ns per element; with ordinary ones
//   avx512  | all vectors are tested                           | .173; .131
//   avx512  | this one                                         | .161; .125
//   avx2    | all vectors are tested                           | .357; .195
//   avx2    | powers added to exponents, without overflow      | .273; loses NaNs with some payloads
//   avx2    | the same, 4 vectors in lockstep                  | .379
//   avx2    | converted to integers, overflow and NaN too      | .346
//   avx2    | this one, a fused operation with the power       | .285; .400 if some overflow
template <class A, class Contract = rapt::ExpContract<A>>
struct Exp : ExpParts<A> {
  using S = simd<A>;
  using C = Contract;
  using batch = typename S::batch;
  using mask = typename S::mask;

  // The test adds the argument, in units of ln 2, to a magic number. The low bits of that sum hold n -
  // lowest_n. While 2^n is normal or overflows only slightly, the sum has none of the bits `unusual_bits`.
  using Bits = typename C::Bits;
  static constexpr int exponent_bits = 8 * sizeof(A) - 1 - C::mantissa_bits;
  static constexpr Bits unusual_bits =
      ~std::bit_cast<Bits>(C::round_magic) &
      ((~Bits{0} << C::mantissa_bits) | ((Bits{1} << (C::mantissa_bits - 1)) - (Bits{1} << exponent_bits)));

  RAPT_INNER Exp() : ExpParts<A>(exp_constants<A>(1.0)) {}
  RAPT_INNER explicit Exp(const ExpConstants<A> &k) : ExpParts<A>(k) {}

  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&v)[registers]) const {
    if (untested_ == 0) [[likely]] {
      if (exp_of_ordinary(v)) [[likely]] {
        next_untested_ = 0;
        return;
      }
      untested_ = next_untested_;
      if (next_untested_ < 16) next_untested_ = 2 * next_untested_ + 1;
    } else {
      --untested_;
    }
    if constexpr (ScalesByPower<S>) {
      exp_of_any_by_power(v);
    } else {
      exp_of_any(v);
    }
  }
  RAPT_INNER batch operator()(batch x) const {
    batch v[1] = {x};
    if (!exp_of_ordinary(v)) [[unlikely]] {
      if constexpr (ScalesByPower<S>) {
        exp_of_any_by_power(v);
      } else {
        exp_of_any(v);
      }
    }
    return v[0];
  }

 private:
  // Returns false and leaves v unchanged if any lane is irregular.
  template <std::size_t registers>
  RAPT_INNER bool exp_of_ordinary(batch (&v)[registers]) const {
    if constexpr (ScalesByPower<S>) {
      // Testing bits costs half an operation per vector; a comparison would cost one.
      const batch magic(C::round_magic - A(C::lowest_n));
      batch shifted[registers];
      unroll<registers>([&](std::size_t r) RAPT_INNER { shifted[r] = S::fma(v[r], this->log2_e, magic); });
      if (S::has_bits(S::bits_of_any(shifted), unusual_bits)) [[unlikely]]
        return false;
      unroll<registers>([&](std::size_t r) RAPT_INNER {
        const batch n = shifted[r] - magic;
        v[r] = S::scale_by_power(this->exp_of_remainder(this->remainder(v[r], n)), n);
      });
    } else {
      // Finds lanes that need more than an addition to the exponent. There is one branch for all vectors: a
      // branch per vector would halve the speed on AVX2.
      const batch plain(C::exp_plain);
      mask odd = S::magnitude_reaches(v[0], plain);
      unroll<registers - 1>([&](std::size_t r)
                                RAPT_INNER { odd = S::either(odd, S::magnitude_reaches(v[r + 1], plain)); });
      if (S::any(odd)) [[unlikely]]
        return false;
      unroll<registers>([&](std::size_t r)
                            RAPT_INNER { v[r] = this->exp_normal(v[r], batch(C::round_magic)); });
    }
    return true;
  }

  // Computes a subnormal result p * 2^n as a multiple of the smallest subnormal number, rounded to an
  // integer. So every intermediate value is a normal number. A product or vscalefps with a subnormal result
  // would cost a microcode assist, about 150 cycles per vector.
  //
  // If the polynomial's degree is even, v needs no upper bound. The remainder of a huge number is arbitrary,
  // but its polynomial is positive. For +inf the polynomial is NaN, which vscalefps turns into inf because n
  // is inf.
  template <std::size_t registers>
  RAPT_INNER void exp_of_any_by_power(batch (&v)[registers]) const {
    const batch low(C::exp_underflow), magic(C::round_magic - A(C::lowest_n));
    const batch to_units(static_cast<A>(C::subnormal_exponent)), normal_from(static_cast<A>(C::lowest_n));
    constexpr bool even_degree = C::coefficient_count % 2 == 1;
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      const batch above = S::max(low, v[r]),
                  x = even_degree ? above : S::min(batch(-C::exp_underflow), above);
      const batch n = S::fma(x, this->log2_e, magic) - magic;
      const batch p = this->exp_of_remainder(this->remainder(x, n));
      const mask subnormal = S::less(n, normal_from);
      const batch in_units = S::scale_by_power(p, S::add_where(subnormal, n, to_units));
      v[r] = S::integer_bits_where(subnormal, in_units);
    });
  }
  // Adding `unit` rounds a subnormal result to an integer. For arguments up to `high`, 2^n is a finite
  // number. p is multiplied by that power, which keeps a NaN.
  template <std::size_t registers>
  RAPT_INNER void exp_of_any(batch (&v)[registers]) const {
    constexpr A bias = (1 << (exponent_bits - 1)) - 1;
    const batch low(C::exp_underflow), high(C::exp_plain + A(1.25)), magic(C::round_magic + bias);
    const batch to_units(static_cast<A>(C::subnormal_exponent)), unit(C::integer_unit),
        normal_from(C::exp_normal_from);
    batch highest = high;
    unroll<registers>([&](std::size_t r) RAPT_INNER { highest = S::max(v[r], highest); });
    if (S::any(S::negate(S::not_greater(highest, high)))) [[unlikely]]
      return exp_of_any_above(v);
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      const batch x = S::max(low, v[r]);
      const batch shifted = S::fma(x, this->log2_e, magic);
      const batch p = this->exp_of_remainder(this->remainder(x, shifted - magic));
      const mask subnormal = S::less(x, normal_from);
      const batch power = S::add_exponent(batch(A(0)), S::add_where(subnormal, shifted, to_units));
      const batch y = S::fma(p, power, S::keep_where(subnormal, unit));
      v[r] = S::subtract_bits_where(subnormal, y, unit);
    });
  }
  template <std::size_t registers>
  RAPT_INNER void exp_of_any_above(batch (&v)[registers]) const {
    const batch unit(C::integer_unit), to_units(static_cast<A>(C::subnormal_exponent)),
        normal_from(C::exp_normal_from);
    const batch low(C::exp_underflow), high(C::exp_overflow), magic(C::round_magic);
    const batch infinity(std::numeric_limits<A>::infinity());
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      const batch x = v[r], clamped = S::min(high, S::max(low, x));
      const batch shifted = S::fma(clamped, this->log2_e, magic);
      const batch p = this->exp_of_remainder(this->remainder(clamped, shifted - magic));
      const mask subnormal = S::less(x, normal_from);
      batch y = S::add_exponent(p, S::add_where(subnormal, shifted, to_units));
      y = S::subtract_bits_where(subnormal, S::add_where(subnormal, y, unit), unit);
      v[r] = S::select(S::not_greater(x, high), y, x + infinity);
    });
  }

  // These are the numbers of arrays that skip the test: from now on, and after the next irregular array.
  mutable std::size_t untested_ = 0, next_untested_ = 0;
};

}  // namespace
