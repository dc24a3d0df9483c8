// Computes the functions of rapt_map that have a formula in double (contract/map.hpp), on vectors of doubles.
//
// A is the type of the elements, and decides which polynomials serve. Functions take arrays of vectors, so that the
// chains of operations overlap.
#pragma once

#include <cstddef>
#include <limits>

#include "contract/angle.hpp"
#include "contract/map.hpp"
#include "contract/rope.hpp"
#include "contract/special_powers.hpp"
#include "kernels/activation.hpp"
#include "kernels/rope.hpp"
#include "kernels/vector/exp.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Evaluates a polynomial of several vectors, a step of all of them at a time. One vector after the other would fill the
// scheduler with operations that wait for each other: erf of f64 takes 1.6 times as long then.
template <std::size_t count, std::size_t registers>
RAPT_INNER inline void polynomials(const double (&c)[count], const simd<double>::batch (&z)[registers],
                                   simd<double>::batch (&p)[registers]) {
  using S = simd<double>;
  unroll<registers>([&](std::size_t i) RAPT_INNER { p[i] = S::batch(c[count - 1]); });
  unroll<count - 1>([&](std::size_t j) RAPT_INNER {
    unroll<registers>([&](std::size_t i)
                          RAPT_INNER { p[i] = S::fma(p[i], z[i], S::batch(c[count - 2 - j])); });
  });
}

template <class A>
struct InDouble {
  using S = simd<double>;
  using C = rapt::MapContract<A>;
  using E = rapt::ExpContract<double>;
  using batch = S::batch;
  using mask = S::mask;
  static constexpr bool is_long = sizeof(A) == sizeof(double);
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  RAPT_INNER static batch two_to(batch shifted) { return S::add_exponent(batch(1.0), shifted); }
  RAPT_INNER static batch limited(double low, double high, batch x) {
    return S::at_most(batch(high), S::at_least(batch(low), x));
  }

  // e^v = 2^n * (1 + q), where the low bits of `shifted` hold n.
  template <std::size_t registers>
  RAPT_INNER static void excess(const batch (&r)[registers], batch (&q)[registers]) {
    polynomials(C::e, r, q);
    unroll<registers>([&](std::size_t i) RAPT_INNER { q[i] = S::fma(r[i] * r[i], q[i], r[i]); });
  }
  template <std::size_t registers>
  RAPT_INNER static void reduce(const batch (&v)[registers], batch (&shifted)[registers],
                                batch (&r)[registers]) {
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch magic(E::round_magic);
      shifted[i] = S::fma(v[i], batch(E::log2_e), magic);
      const batch n = shifted[i] - magic;
      r[i] = S::fnma(n, batch(E::ln2_hi), v[i]);
      if constexpr (is_long) r[i] = S::fnma(n, batch(E::ln2_lo), r[i]);
    });
  }
  template <std::size_t registers>
  RAPT_INNER static void power(const batch (&v)[registers], batch (&shifted)[registers],
                               batch (&q)[registers]) {
    batch r[registers];
    reduce(v, shifted, r);
    excess(r, q);
  }
  template <std::size_t registers>
  RAPT_INNER static void exp_of(batch (&v)[registers]) {
    if constexpr (is_long) {
      const Exp<double> exp;
      exp(v);
    } else {
      batch shifted[registers], q[registers];
      unroll<registers>([&](std::size_t i) RAPT_INNER { v[i] = limited(-C::exp_end, C::exp_end, v[i]); });
      power(v, shifted, q);
      unroll<registers>([&](std::size_t i) RAPT_INNER { v[i] = (batch(1.0) + q[i]) * two_to(shifted[i]); });
    }
  }
  template <std::size_t registers>
  RAPT_INNER static void exp_of_minus_magnitude(const batch (&v)[registers], batch (&e)[registers]) {
    unroll<registers>([&](std::size_t i) RAPT_INNER { e[i] = batch(0.0) - S::abs(v[i]); });
    exp_of(e);
  }
  // Replaces v by 2^n * (1 + q) - 1, which must be a normal number.
  template <std::size_t registers>
  RAPT_INNER static void power_minus_1(batch (&v)[registers]) {
    batch shifted[registers], q[registers];
    power(v, shifted, q);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch scale = two_to(shifted[i]);
      v[i] = S::fma(scale, q[i], scale - batch(1.0));
    });
  }
  template <std::size_t registers>
  RAPT_INNER static void expm1(const batch (&x)[registers], batch (&result)[registers]) {
    batch shifted[registers], v[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER { v[i] = limited(C::expm1_low, C::expm1_high, x[i]); });
    batch q[registers];
    power(v, shifted, q);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch h = two_to(shifted[i] - batch(1.0));
      result[i] = S::select(S::less(S::abs(x[i]), batch(C::tiny)), x[i],
                            batch(2.0) * S::fma(h, q[i], h - batch(0.5)));
    });
  }

  // x = 2^k * m, for a normal x > 0. The sum of bits carries into the exponent where the mantissa reaches sqrt(1/2)'s.
  RAPT_INNER static void split(batch x, batch &k, batch &m) {
    const batch half(C::sqrt_half), one(1.0), all(__builtin_bit_cast(double, 0x000fffffffffffff));
    const auto sum = S::bits(x) + (S::bits(one) - S::bits(half));
    // The exponent, as the low bits of a double.
    const double biased = 0x1p52 + 1023;
    k = S::number((sum >> 52) | S::bits(batch(0x1p52))) - batch(biased);
    m = S::number((sum & S::bits(all)) + S::bits(half));
  }
  template <std::size_t registers>
  RAPT_INNER static void ln(const batch (&k)[registers], const batch (&f)[registers],
                            batch (&result)[registers]) {
    batch s[registers], z[registers], p[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      s[i] = S::divide(f[i], batch(2.0) + f[i]);
      z[i] = s[i] * s[i];
    });
    polynomials(C::log, z, p);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      if constexpr (is_long) {
        const batch h = f[i] * f[i] * batch(0.5), most = z[i] * p[i];
        result[i] =
            k[i] * batch(C::ln2_high) - ((h - S::fma(s[i], h + most, k[i] * batch(C::ln2_low))) - f[i]);
      } else {
        result[i] = S::fma(k[i], batch(E::ln2_hi), s[i] * S::fma(z[i], p[i], batch(2.0)));
      }
    });
  }
  // Computes logarithms: log(k, f, result) of arrays of k and of m - 1. A branch for all vectors finds those of other
  // than normal numbers.
  template <std::size_t registers, class Log>
  RAPT_INNER static void logs(const batch (&x)[registers], batch (&result)[registers], Log log) {
    constexpr double smallest = std::numeric_limits<double>::min();
    const batch least(smallest), end(infinity), zero(0.0);
    batch k[registers], f[registers];
    mask unusual = S::negate(usual(x[0], least, end));
    unroll<registers - 1>([&](std::size_t i) RAPT_INNER {
      unusual = S::either(unusual, S::negate(usual(x[i + 1], least, end)));
    });
    const bool any_unusual = S::any(unusual);
    batch given[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER { given[i] = x[i]; });
    if (any_unusual) [[unlikely]] {
      unroll<registers>([&](std::size_t i) RAPT_INNER {
        given[i] = S::select(S::less(x[i], least), x[i] * batch(0x1p54), x[i]);
      });
    }
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      split(given[i], k[i], f[i]);
      f[i] = f[i] - batch(1.0);
    });
    if (any_unusual) [[unlikely]] {
      unroll<registers>([&](std::size_t i)
                            RAPT_INNER { k[i] = S::select(S::less(x[i], least), k[i] - batch(54.0), k[i]); });
    }
    log(k, f, given);
    if (any_unusual) [[unlikely]] {
      unroll<registers>([&](std::size_t i) RAPT_INNER {
        batch v = S::select(S::less(x[i], end), given[i], x[i]);
        v = S::select(S::equal(x[i], zero), batch(-infinity), v);
        given[i] = S::select(S::less(x[i], zero), batch(std::numeric_limits<double>::quiet_NaN()), v);
      });
    }
    unroll<registers>([&](std::size_t i) RAPT_INNER { result[i] = given[i]; });
  }
  RAPT_INNER static mask usual(batch x, batch least, batch end) {
    return S::negate(S::either(S::less(x, least), S::negate(S::less(x, end))));
  }
  template <std::size_t registers>
  RAPT_INNER static void ln1p(const batch (&x)[registers], batch (&result)[registers]) {
    const batch one(1.0);
    [[maybe_unused]] const batch magic(E::round_magic);
    batch u[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER { u[i] = one + x[i]; });
    logs(u, result, [&](const batch(&k)[registers], batch(&f)[registers], batch(&l)[registers]) RAPT_INNER {
      if constexpr (!is_long) {
        ln(k, f, l);
        unroll<registers>([&](std::size_t i) RAPT_INNER {
          l[i] =
              S::select(S::less(S::abs(x[i]), batch(C::small)), S::fma(batch(-0.5) * x[i], x[i], x[i]), l[i]);
        });
      } else {
        unroll<registers>([&](std::size_t i) RAPT_INNER {
          const batch c = S::select(S::less(x[i], one), x[i] - (u[i] - one), one - (u[i] - x[i]));
          f[i] = S::fma(c, two_to(magic - S::min(batch(64.0), k[i])), f[i]);
        });
        ln(k, f, l);
        unroll<registers>([&](std::size_t i) RAPT_INNER { l[i] = S::with_sign(S::abs(l[i]), x[i]); });
      }
    });
  }
};

template <class A>
struct ExpMinus1 : InDouble<A> {
  static constexpr bool in_double = true;
  using batch = simd<double>::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    this->expm1(x, x);
  }
};

template <class A>
struct NaturalLog : InDouble<A> {
  static constexpr bool in_double = true;
  using batch = simd<double>::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    this->logs(x, x,
               [](const batch(&k)[registers], const batch(&f)[registers], batch(&l)[registers])
                   RAPT_INNER { InDouble<A>::ln(k, f, l); });
  }
};

template <class A>
struct LogBase2 : InDouble<A> {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using batch = S::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    this->logs(x, x,
               [](const batch(&k)[registers], const batch(&f)[registers], batch(&l)[registers]) RAPT_INNER {
                 batch none[registers];
                 unroll<registers>([&](std::size_t i) RAPT_INNER { none[i] = batch(0.0); });
                 InDouble<A>::ln(none, f, l);
                 unroll<registers>([&](std::size_t i) RAPT_INNER {
                   l[i] = S::fma(l[i], batch(rapt::ExpContract<double>::log2_e), k[i]);
                 });
               });
  }
};

template <class A>
struct LogOf1Plus : InDouble<A> {
  static constexpr bool in_double = true;
  using batch = simd<double>::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    batch result[registers];
    this->ln1p(x, result);
    unroll<registers>([&](std::size_t i) RAPT_INNER { x[i] = result[i]; });
  }
};

// The sines and cosines of the remainders r of x, and n in the low bits of `shifted`.
template <class A, std::size_t registers>
struct Turned {
  using S = simd<double>;
  using C = rapt::MapContract<A>;
  using R = rapt::RopeContract<A>;
  using batch = S::batch;
  batch s[registers], c[registers], shifted[registers];

  RAPT_INNER explicit Turned(const batch (&x)[registers]) {
    batch r[registers], z[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      shifted[i] = S::fma(x[i], batch(R::two_over_pi), batch(R::magic));
      const batch n = shifted[i] - batch(R::magic);
      r[i] = S::fnma(n, batch(R::half_pi_low), S::fnma(n, batch(R::half_pi), x[i]));
      if constexpr (sizeof(A) == sizeof(double)) r[i] = S::fnma(n, batch(C::half_pi_lowest), r[i]);
      const auto far = S::negate(S::less(S::abs(x[i]), batch(C::far)));
      if (S::any(far)) [[unlikely]]
        from_afar(x[i], r[i], shifted[i]);
      z[i] = r[i] * r[i];
    });
    polynomials(R::s, z, s);
    polynomials(R::c, z, c);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      s[i] = S::fma(r[i] * z[i], s[i], r[i]);
      c[i] = S::fma(z[i], c[i], batch(1.0));
    });
  }

 private:
  RAPT_INNER static void from_afar(batch x, batch &r, batch &shifted) {
    double lanes[S::width], remainders[S::width], sums[S::width];
    S::store(lanes, x);
    S::store(remainders, r);
    S::store(sums, shifted);
    replace_far(lanes, remainders, sums);
    r = S::load(remainders);
    shifted = S::load(sums);
  }
  [[gnu::noinline]] static void replace_far(const double *x, double *r, double *shifted) {
    for (std::size_t i = 0; i < S::width; ++i) {
      const double magnitude = x[i] < 0 ? -x[i] : x[i];
      if (magnitude < C::far) continue;
      rapt::Angle angle{0, std::numeric_limits<double>::quiet_NaN()};
      if (magnitude < std::numeric_limits<double>::infinity()) angle = rapt::far_angle(x[i]);
      r[i] = angle.remainder;
      shifted[i] = R::magic + angle.quadrant;
    }
  }
};

template <class A>
struct Sine {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using batch = S::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    const Turned<A, registers> of(x);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch v = S::select_where_odd(of.shifted[i], of.c[i], of.s[i]);
      x[i] = S::select(S::equal(x[i], batch(0.0)), x[i], S::negate_where_second_bit(of.shifted[i], v));
    });
  }
};
template <class A>
struct Cosine {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using batch = S::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    const Turned<A, registers> of(x);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch v = S::select_where_odd(of.shifted[i], of.s[i], of.c[i]);
      x[i] = S::negate_where_second_bit(of.shifted[i] + batch(1.0), v);
    });
  }
};
template <class A>
struct Tangent {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using batch = S::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    const Turned<A, registers> of(x);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch v = S::divide(S::select_where_odd(of.shifted[i], batch(0.0) - of.c[i], of.s[i]),
                                S::select_where_odd(of.shifted[i], of.s[i], of.c[i]));
      x[i] = S::select(S::equal(x[i], batch(0.0)), x[i], v);
    });
  }
};

template <class A>
struct HyperbolicTangent : InDouble<A> {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using C = rapt::MapContract<A>;
  using batch = S::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    batch q[registers];
    unroll<registers>([&](std::size_t i)
                          RAPT_INNER { q[i] = batch(-2.0) * S::min(batch(C::tanh_end), S::abs(x[i])); });
    this->power_minus_1(q);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      x[i] = S::with_sign(S::abs(S::divide(q[i], batch(2.0) + q[i])), x[i]);
    });
  }
};

template <class A>
struct ErrorFunction : InDouble<A> {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using C = rapt::MapContract<A>;
  using batch = S::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    batch a[registers], t[registers], v[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      a[i] = S::min(batch(C::erf_end), S::abs(x[i]));
      t[i] = a[i] - batch(C::erf_end / 2);
    });
    polynomials(C::erf, t, v);
    unroll<registers>([&](std::size_t i) RAPT_INNER { v[i] = batch(0.0) - a[i] * v[i]; });
    this->power_minus_1(v);
    unroll<registers>([&](std::size_t i) RAPT_INNER { x[i] = S::with_sign(S::abs(v[i]), x[i]); });
  }
};

// 1 / (1 + e^-v), of which f64 needs another form where e^-v overflows.
template <class A, std::size_t registers>
RAPT_INNER inline void sigmoids(simd<double>::batch (&v)[registers]) {
  using S = simd<double>;
  using batch = S::batch;
  if constexpr (sizeof(A) == sizeof(double)) {
    const Sigmoid<double> sigmoid;
    sigmoid(v);
  } else {
    unroll<registers>([&](std::size_t i) RAPT_INNER { v[i] = batch(0.0) - v[i]; });
    InDouble<A>::exp_of(v);
    unroll<registers>([&](std::size_t i) RAPT_INNER { v[i] = S::divide(batch(1.0), batch(1.0) + v[i]); });
  }
}

template <class A>
struct Logistic {
  static constexpr bool in_double = true;
  using batch = simd<double>::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    sigmoids<A>(x);
  }
};

template <class A>
struct LogSigmoid : InDouble<A> {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using batch = S::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    batch e[registers], l[registers];
    this->exp_of_minus_magnitude(x, e);
    this->ln1p(e, l);
    unroll<registers>([&](std::size_t i)
                          RAPT_INNER { x[i] = batch(-0.0) - (l[i] - S::min(batch(0.0), x[i])); });
  }
};

template <class A>
struct Softplus : InDouble<A> {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using batch = S::batch;
  double a, b;
  RAPT_INNER explicit Softplus(const A *parameters) : a(parameters[0]), b(parameters[1]) {}
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    batch v[registers], e[registers], l[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER { v[i] = x[i] * batch(a); });
    this->exp_of_minus_magnitude(v, e);
    this->ln1p(e, l);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch y = S::divide(S::max(batch(0.0), v[i]) + l[i], batch(a));
      x[i] = S::select(S::less(batch(b), v[i]), x[i], y);
    });
  }
};

// tanh(log(1 + e^x)) = p / d, and what d has besides p.
template <class A, std::size_t registers>
RAPT_INNER inline void mish_parts(const simd<double>::batch (&x)[registers],
                                  simd<double>::batch (&e)[registers], simd<double>::batch (&p)[registers],
                                  simd<double>::batch (&rest)[registers]) {
  using S = simd<double>;
  using batch = S::batch;
  InDouble<A>::exp_of_minus_magnitude(x, e);
  unroll<registers>([&](std::size_t i) RAPT_INNER {
    const batch two(2.0);
    const auto negative = S::less(x[i], batch(0.0));
    p[i] = S::select(negative, e[i] * (e[i] + two), S::fma(two, e[i], batch(1.0)));
    rest[i] = S::select(negative, two, two * e[i] * e[i]);
  });
}

template <class A>
struct Mish {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using batch = S::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    batch e[registers], p[registers], rest[registers];
    mish_parts<A>(x, e, p, rest);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      x[i] = S::max(batch(-rapt::MapNumbers::mish_end), x[i]) * S::divide(p[i], p[i] + rest[i]);
    });
  }
};

template <class A>
struct Elu : InDouble<A> {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using batch = S::batch;
  double a, b, c;
  RAPT_INNER explicit Elu(const A *parameters) : a(parameters[0]), b(parameters[1]), c(parameters[2]) {}
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    batch v[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER { v[i] = x[i] * batch(c); });
    this->expm1(v, v);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      x[i] = S::select(S::less(batch(0.0), x[i]), x[i] * batch(b), v[i] * batch(a * b));
    });
  }
};

template <class A>
struct Arctangent {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using C = rapt::MapContract<A>;
  using batch = S::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&y)[registers], const batch (&x)[registers]) const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const batch zero(0.0), pi(2 * C::half_pi);
    batch a[registers], z[registers], p[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch ax = S::abs(x[i]), ay = S::abs(y[i]);
      const auto is_steep = S::less(ax, ay);
      const batch least = S::select(is_steep, ax, ay), most = S::select(is_steep, ay, ax);
      a[i] = S::select(S::equal(most, zero), zero, S::divide(least, most));
      a[i] = S::select(S::equal(least, batch(infinity)), batch(1.0), a[i]);
      z[i] = a[i] * a[i];
    });
    polynomials(C::atan, z, p);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      batch t = S::fma(a[i] * z[i], p[i], a[i]);
      const auto is_steep = S::less(S::abs(x[i]), S::abs(y[i])), unordered = S::unordered(x[i], y[i]);
      t = S::select(is_steep, (batch(C::half_pi) - t) + batch(C::half_pi_low), t);
      // 1 with the sign of x is less than 0 where x is negative, or -0.
      const auto is_left = S::less(S::with_sign(batch(1.0), x[i]), zero);
      t = S::select(is_left, (pi - t) + batch(2 * C::half_pi_low), t);
      y[i] = S::select(unordered, x[i] + y[i], S::with_sign(t, y[i]));
    });
  }
};

template <class A>
struct Power : InDouble<A> {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using C = rapt::MapContract<A>;
  using E = rapt::ExpContract<double>;
  using batch = S::batch;
  using mask = S::mask;

  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers], const batch (&y)[registers]) const {
    const batch least(std::numeric_limits<double>::min()), end(std::numeric_limits<double>::infinity());
    mask other = is_other(x[0], y[0], least, end);
    unroll<registers - 1>([&](std::size_t i) RAPT_INNER {
      other = S::either(other, is_other(x[i + 1], y[i + 1], least, end));
    });
    if (S::any(other)) [[unlikely]] {
      unroll<registers>([&](std::size_t i) RAPT_INNER {
        double of_x[S::width], of_y[S::width];
        S::store(of_x, x[i]);
        S::store(of_y, y[i]);
        x[i] = any_powers(of_x, of_y);
      });
      return;
    }
    batch k[registers], f[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      this->split(x[i], k[i], f[i]);
      f[i] = f[i] - batch(1.0);
    });
    ordinary(k, f, y, x);
  }

 private:
  static constexpr double exact[] = {2, 3, -1, 0.5};

  // Everything but a normal x > 0 and a finite y, and the exponents that have exact cases.
  RAPT_INNER static mask is_other(batch x, batch y, batch least, batch end) {
    mask m = S::either(S::less(x, least), S::negate(S::less(x, end)));
    m = S::either(m, S::negate(S::less(S::abs(y), end)));
    for (const double exponent : exact) m = S::either(m, S::equal(y, batch(exponent)));
    return m;
  }
  template <std::size_t registers>
  RAPT_INNER static void ordinary(const batch (&k)[registers], const batch (&f)[registers],
                                  const batch (&y)[registers], batch (&result)[registers]) {
    batch shifted[registers], q[registers], v[registers];
    if constexpr (InDouble<A>::is_long) {
      of_logs(k, f, y, result);
    } else {
      InDouble<A>::ln(k, f, v);
      unroll<registers>([&](std::size_t i) RAPT_INNER {
        v[i] = InDouble<A>::limited(-C::exp_end, C::exp_end, v[i] * y[i]);
      });
      InDouble<A>::power(v, shifted, q);
      unroll<registers>([&](std::size_t i) RAPT_INNER {
        result[i] = (batch(1.0) + q[i]) * InDouble<A>::two_to(shifted[i]);
      });
    }
  }
  // One vector of any numbers. Inlined, this rare case would take registers from the common one.
  [[gnu::noinline, gnu::flatten]] static batch any_powers(const double *x, const double *y) {
    const batch v = S::load(x), magnitude = S::abs(v);
    const batch exponents[1] = {S::load(y)};
    batch k[1], f[1], powers[1];
    const auto all_are = [&](double e)
                             RAPT_INNER { return !S::any(S::negate(S::equal(exponents[0], batch(e)))); };
    if (all_are(2)) return v * v;
    if (all_are(3)) return v * v * v;
    const mask subnormal = S::less(magnitude, batch(std::numeric_limits<double>::min()));
    InDouble<A>::split(S::select(subnormal, magnitude * batch(0x1p54), magnitude), k[0], f[0]);
    k[0] = S::select(subnormal, k[0] - batch(54.0), k[0]);
    f[0] = f[0] - batch(1.0);
    ordinary(k, f, exponents, powers);
    double of_ordinary[S::width], squares[S::width], cubes[S::width], inverses[S::width], roots[S::width];
    S::store(of_ordinary, powers[0]);
    S::store(squares, v * v);
    S::store(cubes, v * v * v);
    S::store(inverses, S::divide(batch(1.0), v));
    S::store(roots, S::square_root(magnitude));
    for (std::size_t i = 0; i < S::width; ++i) {
      const bool has_root = x[i] > 0 && x[i] < std::numeric_limits<double>::infinity();
      of_ordinary[i] = y[i] == 2                 ? squares[i]
                       : y[i] == 3               ? cubes[i]
                       : y[i] == -1              ? inverses[i]
                       : y[i] == 0.5 && has_root ? roots[i]
                                                 : rapt::pow_of_special(x[i], y[i], of_ordinary[i]);
    }
    return S::load(of_ordinary);
  }
  // The logarithm in two doubles; x' is x_low.
  template <std::size_t registers>
  RAPT_INNER static void of_logs(const batch (&k)[registers], const batch (&f)[registers],
                                 const batch (&y)[registers], batch (&result)[registers]) {
    const batch one(1.0), two(2.0), two_thirds(C::two_thirds), magic(E::round_magic);
    batch s[registers], s_low[registers], z[registers], p[registers], r[registers], shifted[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch d = two + f[i], inverse = S::divide(one, d);
      s[i] = f[i] * inverse;
      s_low[i] = (S::fnma(s[i], d, f[i]) - s[i] * (f[i] - (d - two))) * inverse;
      z[i] = s[i] * s[i];
    });
    polynomials(C::log_pow, z, p);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch z_low = S::fms(s[i], s[i], z[i]) + two * s[i] * s_low[i], v = z[i] * p[i];
      const batch t = two_thirds + v,
                  t_low = (((two_thirds - t) + v) + batch(C::two_thirds_low)) + S::fms(z[i], p[i], v);
      const batch u = z[i] * t, u_low = S::fms(z[i], t, u) + (z[i] * t_low + z_low * t);
      const batch w = two + u, w_low = ((two - w) + u) + u_low;
      const batch l = s[i] * w, l_low = S::fms(s[i], w, l) + (s[i] * w_low + s_low[i] * w);
      const batch a = k[i] * batch(C::ln2_high), h = a + l,
                  h_low = ((a - h) + l) + (l_low + k[i] * batch(C::ln2_low));
      batch g = y[i] * h, g_low = S::fms(y[i], h, g) + y[i] * h_low;
      const mask inside = S::less(S::abs(g), batch(C::pow_end));
      g_low = S::zero_where(S::negate(inside), g_low);
      g = S::select(inside, g, S::with_sign(batch(C::pow_end), g));
      shifted[i] = S::fma(g, batch(E::log2_e), magic);
      const batch n = shifted[i] - magic;
      r[i] = S::fnma(n, batch(E::ln2_lo), S::fnma(n, batch(E::ln2_hi), g)) + g_low;
    });
    InDouble<A>::excess(r, p);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch n = shifted[i] - magic;
      const batch half = S::fma(n, batch(0.5), magic), rest = (n - (half - magic)) + magic;
      result[i] = (one + p[i]) * InDouble<A>::two_to(half) * InDouble<A>::two_to(rest);
    });
  }
};

template <class A>
struct ErfBackward : InDouble<A> {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using C = rapt::MapContract<A>;
  using batch = S::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers], const batch (&dy)[registers]) const {
    batch e[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      x[i] = S::min(batch(C::erf_slope_end), S::abs(x[i]));
      e[i] = batch(0.0) - x[i] * x[i];
    });
    batch lost[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER { lost[i] = S::fma(x[i], x[i], e[i]); });
    this->exp_of(e);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      if constexpr (InDouble<A>::is_long) e[i] = S::fnma(e[i], lost[i], e[i]);
      x[i] = dy[i] * (batch(C::erf_slope) * e[i]);
    });
  }
};

template <class A>
struct LogSigmoidBackward {
  static constexpr bool in_double = true;
  using batch = simd<double>::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers], const batch (&dy)[registers]) const {
    unroll<registers>([&](std::size_t i) RAPT_INNER { x[i] = batch(0.0) - x[i]; });
    sigmoids<A>(x);
    unroll<registers>([&](std::size_t i) RAPT_INNER { x[i] = dy[i] * x[i]; });
  }
};

template <class A>
struct SoftplusBackward {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using batch = S::batch;
  double a, b;
  RAPT_INNER explicit SoftplusBackward(const A *parameters) : a(parameters[0]), b(parameters[1]) {}
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers], const batch (&dy)[registers]) const {
    batch v[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER { v[i] = x[i] = x[i] * batch(a); });
    sigmoids<A>(v);
    unroll<registers>([&](std::size_t i)
                          RAPT_INNER { x[i] = S::select(S::less(batch(b), x[i]), dy[i], dy[i] * v[i]); });
  }
};

template <class A>
struct MishBackward {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using C = rapt::MapContract<A>;
  using batch = S::batch;
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers], const batch (&dy)[registers]) const {
    batch e[registers], p[registers], rest[registers];
    mish_parts<A>(x, e, p, rest);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch one(1.0), d = p[i] + rest[i], w = S::divide(p[i], d), v = S::divide(rest[i], d);
      const batch s = S::divide(S::select(S::less(x[i], batch(0.0)), e[i], one), one + e[i]);
      const batch b = S::with_sign(S::min(batch(C::mish_end), S::abs(x[i])), x[i]);
      x[i] = dy[i] * S::fma(b * s, v * (one + w), w);
    });
  }
};

template <class A>
struct EluBackward : InDouble<A> {
  static constexpr bool in_double = true;
  using S = simd<double>;
  using batch = S::batch;
  double a, b, c;
  RAPT_INNER explicit EluBackward(const A *parameters)
      : a(parameters[0]), b(parameters[1]), c(parameters[2]) {}
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers], const batch (&dy)[registers]) const {
    batch e[registers];
    unroll<registers>([&](std::size_t i) RAPT_INNER { e[i] = x[i] * batch(c); });
    this->exp_of(e);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      x[i] = dy[i] * S::select(S::less(batch(0.0), x[i]), batch(b), batch(a * b * c) * e[i]);
    });
  }
};

}  // namespace
