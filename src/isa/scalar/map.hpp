// Implements the scalar reference of rapt_map's functions. The code spells out the order of every operation
// (contract/map.hpp).
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "contract/angle.hpp"
#include "contract/fused.hpp"
#include "contract/map.hpp"
#include "contract/norm.hpp"
#include "contract/rope.hpp"
#include "contract/special_powers.hpp"
#include "isa/scalar/activation.hpp"
#include "isa/scalar/exp.hpp"
#include "isa/scalar/rope.hpp"
#include "rapt/rapt.h"

namespace {

// The functions that are computed in double. A is the type of the elements, and decides which polynomials serve.
template <class A>
struct InDouble {
  using C = rapt::MapContract<A>;
  static constexpr bool is_long = sizeof(A) == sizeof(double);
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr double nan = std::numeric_limits<double>::quiet_NaN();

  static double two_to(double n) { return power_of_two<double>(static_cast<int>(n)); }
  static double at_most(double limit, double x) { return x > limit ? limit : x; }
  static double at_least(double limit, double x) { return x < limit ? limit : x; }

  // e^v = 2^n * (1 + q)
  struct Power {
    double n, r, q;
    explicit Power(double v) {
      using E = rapt::ExpContract<double>;
      n = fused(v, E::log2_e, E::round_magic) - E::round_magic;
      r = fused(-n, E::ln2_hi, v);
      if (is_long) r = fused(-n, E::ln2_lo, r);
      q = excess(r);
    }
    static double excess(double r) { return fused(r * r, polynomial(C::e, r), r); }
  };
  static double exp_of(double v) {
    if (std::isnan(v)) return v;
    if constexpr (is_long) return exp_one(Reduction<double>(1.0), v);
    const Power power(at_least(-C::exp_end, at_most(C::exp_end, v)));
    return (1 + power.q) * two_to(power.n);
  }
  static double expm1(double x) {
    if (std::isnan(x) || std::fabs(x) < C::tiny) return x;
    const Power power(at_least(C::expm1_low, at_most(C::expm1_high, x)));
    const double h = two_to(power.n - 1);
    return 2 * fused(h, power.q, h - 0.5);
  }

  // x = 2^k * m
  struct Split {
    double k, m;
    explicit Split(double x) {
      const bool is_subnormal = x < std::numeric_limits<double>::min();
      const auto bits = std::bit_cast<std::uint64_t>(is_subnormal ? x * 0x1p54 : x);
      int exponent = static_cast<int>(bits >> 52) - (is_subnormal ? 1023 + 54 : 1023);
      m = std::bit_cast<double>((bits & 0xfffffffffffff) | std::uint64_t{1023} << 52);
      if (m >= 2 * C::sqrt_half) m /= 2, ++exponent;
      k = exponent;
    }
  };
  static double ln(double k, double f) {
    const double s = f / (2 + f), z = s * s;
    if constexpr (!is_long)
      return fused(k, rapt::ExpContract<double>::ln2_hi, s * fused(z, polynomial(C::log, z), 2.0));
    const double h = f * f * 0.5, R = z * polynomial(C::log, z);
    return k * C::ln2_high - ((h - fused(s, h + R, k * C::ln2_low)) - f);
  }
  // What a logarithm is if x is not positive and finite.
  static bool is_special(double x, double &result) {
    if (x > 0 && x < infinity) return false;
    result = x == 0 ? -infinity : x < 0 ? nan : x;
    return true;
  }
  static double log(double x) {
    double special;
    if (is_special(x, special)) return special;
    const Split split(x);
    return ln(split.k, split.m - 1);
  }
  static double log2(double x) {
    double special;
    if (is_special(x, special)) return special;
    const Split split(x);
    return fused(ln(0, split.m - 1), rapt::ExpContract<double>::log2_e, split.k);
  }
  static double ln1p(double x) {
    const double u = 1 + x;
    double special;
    if (is_special(u, special)) return special;
    const Split split(u);
    if constexpr (!is_long) return std::fabs(x) < C::small ? fused(-0.5 * x, x, x) : ln(split.k, split.m - 1);
    const double c = x >= 1 ? 1 - (u - x) : x - (u - 1);
    return std::copysign(ln(split.k, fused(c, two_to(-at_most(64, split.k)), split.m - 1)), x);
  }

  struct Turn {
    double s, c, n;
    explicit Turn(double x) {
      using R = rapt::RopeContract<A>;
      double r;
      if (!(std::fabs(x) < infinity)) {
        n = 0, r = nan;
      } else if (std::fabs(x) >= C::far) {
        const rapt::Angle angle = rapt::far_angle(x);
        n = angle.quadrant, r = angle.remainder;
      } else {
        n = fused(x, R::two_over_pi, R::magic) - R::magic;
        r = fused(-n, R::half_pi_low, fused(-n, R::half_pi, x));
        if (is_long) r = fused(-n, C::half_pi_lowest, r);
      }
      const double z = r * r;
      s = fused(r * z, polynomial(R::s, z), r), c = fused(z, polynomial(R::c, z), 1.0);
    }
    int quadrant() const { return static_cast<int>(static_cast<long long>(n) & 3); }
  };
  static double sine(double x) {
    if (x == 0) return x;
    const Turn turn(x);
    const double value = turn.quadrant() % 2 ? turn.c : turn.s;
    return turn.quadrant() >= 2 ? -value : value;
  }
  static double cosine(double x) {
    const Turn turn(x);
    const double value = turn.quadrant() % 2 ? turn.s : turn.c;
    return turn.quadrant() == 1 || turn.quadrant() == 2 ? -value : value;
  }
  static double tangent(double x) {
    if (x == 0) return x;
    const Turn turn(x);
    return turn.quadrant() % 2 ? -turn.c / turn.s : turn.s / turn.c;
  }
  static double tanh(double x) {
    if (std::isnan(x)) return x;
    const Power power(-2 * at_most(C::tanh_end, std::fabs(x)));
    const double scale = two_to(power.n), q = fused(scale, power.q, scale - 1);
    return std::copysign(q / (2 + q), x);
  }
  static double erf(double x) {
    if (std::isnan(x)) return x;
    const double a = at_most(C::erf_end, std::fabs(x));
    const Power power(-(a * polynomial(C::erf, a - C::erf_end / 2)));
    const double scale = two_to(power.n), q = fused(scale, power.q, scale - 1);
    return std::copysign(q, x);
  }
  static double sigmoid(double x) {
    if constexpr (is_long) return ::sigmoid(Reduction<double>(1.0), x);
    return 1 / (1 + exp_of(-x));
  }
  static double log_sigmoid(double x) { return -(ln1p(exp_of(-std::fabs(x))) - (x > 0 ? 0 : x)); }
  static double softplus(double x, double a, double b) {
    const double v = x * a;
    if (v > b) return x;
    return ((v < 0 ? 0 : v) + ln1p(exp_of(-std::fabs(v)))) / a;
  }
  struct Mish {
    double e, p, rest, d;
    explicit Mish(double x) {
      e = exp_of(-std::fabs(x));
      p = x < 0 ? e * (e + 2) : fused(2.0, e, 1.0);
      rest = x < 0 ? 2 : 2 * e * e;
      d = p + rest;
    }
  };
  static double mish(double x) {
    const Mish of(x);
    return at_least(-C::mish_end, x) * (of.p / of.d);
  }
  static double mish_slope(double x) {
    const Mish of(x);
    const double w = of.p / of.d, v = of.rest / of.d, s = (x < 0 ? of.e : 1) / (1 + of.e);
    const double b = std::copysign(at_most(C::mish_end, std::fabs(x)), x);
    return fused(b * s, v * (1 + w), w);
  }
  static double elu(double x, double a, double b, double c) { return x > 0 ? x * b : expm1(x * c) * (a * b); }
  static double elu_slope(double x, double a, double b, double c) {
    return x > 0 ? b : (a * b * c) * exp_of(x * c);
  }
  static double erf_slope(double x) {
    if (std::isnan(x)) return x;
    const double b = at_most(C::erf_slope_end, std::fabs(x)), h = b * b;
    double e = exp_of(-h);
    if (is_long) e = fused(e, -fused(b, b, -h), e);
    return C::erf_slope * e;
  }
  static double atan2(double y, double x) {
    if (std::isnan(x) || std::isnan(y)) return x + y;
    const double ax = std::fabs(x), ay = std::fabs(y);
    const double least = ax < ay ? ax : ay, most = ax < ay ? ay : ax;
    const double a = most == 0 ? 0 : least == infinity ? 1 : least / most, z = a * a;
    double t = fused(a * z, polynomial(C::atan, z), a);
    if (ay > ax) t = (C::half_pi - t) + C::half_pi_low;
    if (std::signbit(x)) t = (2 * C::half_pi - t) + 2 * C::half_pi_low;
    return std::copysign(t, y);
  }
  static double pow(double x, double y) {
    if (y == 2) return x * x;
    if (y == 3) return x * x * x;
    if (y == -1) return 1 / x;
    if (x > 0 && x < infinity && y == 0.5) return rapt::square_root(x);
    const double magnitude = std::fabs(x);
    double ordinary = 0;
    if (magnitude > 0 && magnitude < infinity && std::isfinite(y)) {
      const Split split(magnitude);
      if constexpr (is_long) {
        ordinary = power_of_logs(split, y);
      } else {
        const double v = ln(split.k, split.m - 1) * y;
        ordinary = exp_of(v);
      }
    }
    return rapt::pow_of_special(x, y, ordinary);
  }
  static double power_of_logs(const Split &split, double y) {
    if constexpr (is_long) {
      const double k = split.k, f = split.m - 1, d = 2 + f, inverse = 1 / d, s = f * inverse;
      const double s_low = (fused(-s, d, f) - s * (f - (d - 2))) * inverse;
      const double z = s * s, z_low = fused(s, s, -z) + 2 * s * s_low;
      const double p = polynomial(C::log_pow, z), v = z * p;
      const double t = C::two_thirds + v,
                   t_low = (((C::two_thirds - t) + v) + C::two_thirds_low) + fused(z, p, -v);
      const double u = z * t, u_low = fused(z, t, -u) + (z * t_low + z_low * t);
      const double w = 2 + u, w_low = ((2 - w) + u) + u_low;
      const double l = s * w, l_low = fused(s, w, -l) + (s * w_low + s_low * w);
      const double a = k * C::ln2_high, h = a + l, h_low = ((a - h) + l) + (l_low + k * C::ln2_low);
      double g = y * h, g_low = fused(y, h, -g) + y * h_low;
      if (!(std::fabs(g) < C::pow_end)) g = std::copysign(C::pow_end, g), g_low = 0;
      const Power power(g);
      const double r = power.r + g_low, one_and_more = 1 + Power::excess(r);
      const double n1 = fused(power.n, 0.5, rapt::ExpContract<double>::round_magic) -
                        rapt::ExpContract<double>::round_magic;
      return one_and_more * two_to(n1) * two_to(power.n - n1);
    }
    return 0;
  }
};

// The rest is computed in the arithmetic type.
template <class A>
A clamp_one(A x, A low, A high) {
  if (std::isnan(x)) return x;
  const A above = x < low ? low : x;
  return above > high ? high : above;
}
template <class A>
A interpolate_one(A x, A y, A weight) {
  const A difference = y - x;
  return std::fabs(weight) < A(0.5) ? x + weight * difference : y - difference * (1 - weight);
}

template <class A>
A map_one(rapt_map_function function, A x, A y, A z, const A *parameters) {
  using D = InDouble<A>;
  const A a = parameters[0], b = parameters[1], c = parameters[2];
  const auto rounded = [](double v) { return static_cast<A>(v); };
  switch (function) {
    case RAPT_MAP_SQRT:
      return rapt::square_root(x);
    case RAPT_MAP_RSQRT:
      return 1 / rapt::square_root(x);
    case RAPT_MAP_RECIPROCAL:
      return 1 / x;
    case RAPT_MAP_EXP2:
      return exp_one<A, rapt::Exp2Contract<A>>(Reduction<A>(exp2_constants<A>()), x);
    case RAPT_MAP_EXPM1:
      return rounded(D::expm1(x));
    case RAPT_MAP_LOG:
      return rounded(D::log(x));
    case RAPT_MAP_LOG2:
      return rounded(D::log2(x));
    case RAPT_MAP_LOG1P:
      return rounded(D::ln1p(x));
    case RAPT_MAP_SIN:
      return rounded(D::sine(x));
    case RAPT_MAP_COS:
      return rounded(D::cosine(x));
    case RAPT_MAP_TAN:
      return rounded(D::tangent(x));
    case RAPT_MAP_TANH:
      return rounded(D::tanh(x));
    case RAPT_MAP_ERF:
      return rounded(D::erf(x));
    case RAPT_MAP_SIGMOID:
      return rounded(D::sigmoid(x));
    case RAPT_MAP_LOG_SIGMOID:
      return rounded(D::log_sigmoid(x));
    case RAPT_MAP_SOFTPLUS:
      return rounded(D::softplus(x, a, b));
    case RAPT_MAP_MISH:
      return rounded(D::mish(x));
    case RAPT_MAP_ELU:
      return rounded(D::elu(x, a, b, c));
    case RAPT_MAP_HARD_SIGMOID:
      return clamp_one<A>(x + 3, 0, 6) / 6;
    case RAPT_MAP_HARD_SWISH:
      return x * clamp_one<A>(x + 3, 0, 6) / 6;
    case RAPT_MAP_CLAMP:
      return clamp_one(x, a, b);
    case RAPT_MAP_ADD:
      return x + y;
    case RAPT_MAP_SUBTRACT:
      return x - y;
    case RAPT_MAP_MULTIPLY:
      return x * y;
    case RAPT_MAP_DIVIDE:
      return x / y;
    case RAPT_MAP_ADD_SCALED:
      return x + a * y;
    case RAPT_MAP_POW:
      return rounded(D::pow(x, y));
    case RAPT_MAP_ATAN2:
      return rounded(D::atan2(x, y));
    case RAPT_MAP_FMA:
      return fused(x, y, z);
    case RAPT_MAP_ADDCMUL:
      return x + a * y * z;
    case RAPT_MAP_ADDCDIV:
      return x + a * y / z;
    case RAPT_MAP_LERP:
      return interpolate_one(x, y, z);
    case RAPT_MAP_LERP_AT:
      return interpolate_one(x, y, a);
    case RAPT_MAP_ERF_BACKWARD:
      return rounded(y * D::erf_slope(x));
    case RAPT_MAP_SIGMOID_BACKWARD:
      return y * (1 - x) * x;
    case RAPT_MAP_TANH_BACKWARD:
      return y * (1 - x * x);
    case RAPT_MAP_LOG_SIGMOID_BACKWARD:
      return rounded(y * D::sigmoid(-x));
    case RAPT_MAP_SOFTPLUS_BACKWARD:
      return double{x} * a > b ? y : rounded(y * D::sigmoid(double{x} * a));
    case RAPT_MAP_MISH_BACKWARD:
      return rounded(y * D::mish_slope(x));
    case RAPT_MAP_ELU_BACKWARD:
      return rounded(y * D::elu_slope(x, a, b, c));
    case RAPT_MAP_HARD_SIGMOID_BACKWARD:
      return x > -3 && x < 3 ? y / 6 : x != x ? x : A(0);
    case RAPT_MAP_HARD_SWISH_BACKWARD:
      return x < -3 ? A(0) : x <= 3 ? y * (x / 3 + A(0.5)) : x != x ? x : y;
    case RAPT_MAP_CLAMP_BACKWARD:
      return x >= a && x <= b ? y : x != x ? x : A(0);
// Without a default, the compiler names a missing function.
#define MAP(name, body, number, inputs, parameters)
#define MAP_OF_KERNEL(kernel, number, inputs) case number:
#include "contract/maps.def"
      break;
  }
  __builtin_unreachable();
}

template <class A>
void map(rapt_map_function function, const A *x, const A *y, const A *z, A *out, const A *parameters,
         std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = map_one(function, x[i], y ? y[i] : A(0), z ? z[i] : A(0), parameters);
  }
}

}  // namespace
