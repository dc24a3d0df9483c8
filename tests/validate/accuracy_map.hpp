// Measures the accuracy of rapt_map's functions, each as a share of the bound that rapt.h gives for it.
#pragma once

#include <cmath>
#include <limits>

#include "calls/map.hpp"
#include "support/problem_data.hpp"
#include "validate/accuracy_vectors.hpp"

namespace rapt::validate {

// What is true, from the definitions of rapt.h alone. a, b and c are the parameters, with defaults filled in.
struct MapTruth {
  Real x, y, z, a, b, c;

  static Real sigmoid(Real v) { return v > 0 ? 1 / (1 + std::exp(-v)) : std::exp(v) / (1 + std::exp(v)); }
  static Real softplus(Real v) { return v > 0 ? v + std::log1p(std::exp(-v)) : std::log1p(std::exp(v)); }
  static Real clamp(Real v, Real low, Real high) { return std::min(std::max(v, low), high); }

  Real of(rapt_map_function function) const {
    switch (function) {
      case RAPT_MAP_SQRT:
        return std::sqrt(x);
      case RAPT_MAP_RSQRT:
        return 1 / std::sqrt(x);
      case RAPT_MAP_RECIPROCAL:
        return 1 / x;
      case RAPT_MAP_EXP:
        return std::exp(x);
      case RAPT_MAP_EXP2:
        return std::exp2(x);
      case RAPT_MAP_EXPM1:
        return std::expm1(x);
      case RAPT_MAP_LOG:
        return std::log(x);
      case RAPT_MAP_LOG2:
        return std::log2(x);
      case RAPT_MAP_LOG1P:
        return std::log1p(x);
      case RAPT_MAP_SIN:
        return std::sin(x);
      case RAPT_MAP_COS:
        return std::cos(x);
      case RAPT_MAP_TAN:
        return std::tan(x);
      case RAPT_MAP_TANH:
        return std::tanh(x);
      case RAPT_MAP_ERF:
        return std::erf(x);
      case RAPT_MAP_SIGMOID:
        return sigmoid(x);
      case RAPT_MAP_LOG_SIGMOID:
        return -softplus(-x);
      case RAPT_MAP_SOFTPLUS:
        return x * a > b ? x : softplus(x * a) / a;
      case RAPT_MAP_SILU:
        return x * sigmoid(x);
      case RAPT_MAP_GELU:
        return x * std::erfc(-x * std::sqrt(Real{0.5})) / 2;
      case RAPT_MAP_GELU_TANH:
        return x * sigmoid(gelu_argument());
      case RAPT_MAP_MISH:
        return x * std::tanh(softplus(x));
      case RAPT_MAP_ELU:
        return x > 0 ? x * b : std::expm1(x * c) * (a * b);
      case RAPT_MAP_HARD_SIGMOID:
        return clamp(x + 3, 0, 6) / 6;
      case RAPT_MAP_HARD_SWISH:
        return x * clamp(x + 3, 0, 6) / 6;
      case RAPT_MAP_CLAMP:
        return clamp(x, a, b);
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
        return std::pow(x, y);
      case RAPT_MAP_ATAN2:
        return std::atan2(x, y);
      case RAPT_MAP_FMA:
        return x * y + z;
      case RAPT_MAP_ADDCMUL:
        return x + a * y * z;
      case RAPT_MAP_ADDCDIV:
        return x + a * y / z;
      case RAPT_MAP_LERP:
        return x + z * (y - x);
      case RAPT_MAP_LERP_AT:
        return x + a * (y - x);
      case RAPT_MAP_ERF_BACKWARD:
        return y * (2 / std::sqrt(std::acos(Real{-1}))) * std::exp(-x * x);
      case RAPT_MAP_SIGMOID_BACKWARD:
        return y * (1 - x) * x;
      case RAPT_MAP_TANH_BACKWARD:
        return y * (1 - x * x);
      case RAPT_MAP_LOG_SIGMOID_BACKWARD:
        return y * sigmoid(-x);
      case RAPT_MAP_SOFTPLUS_BACKWARD:
        return x * a > b ? y : y * sigmoid(x * a);
      case RAPT_MAP_SILU_BACKWARD: {
        const Real s = sigmoid(x);
        return y * (s + x * s * sigmoid(-x));
      }
      case RAPT_MAP_GELU_BACKWARD:
        return y * (std::erfc(-x * std::sqrt(Real{0.5})) / 2 +
                    x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(Real{-1})));
      case RAPT_MAP_GELU_TANH_BACKWARD: {
        const Real v = gelu_argument(), s = sigmoid(v),
                   slope = gelu_factor() * (1 + 3 * Real{0.044715L} * x * x);
        return y * (s + x * s * sigmoid(-v) * slope);
      }
      case RAPT_MAP_MISH_BACKWARD: {
        const Real t = std::tanh(softplus(x));
        return y * (t + x * sigmoid(x) * (1 - t) * (1 + t));
      }
      case RAPT_MAP_ELU_BACKWARD:
        return x > 0 ? y * b : y * a * b * c * std::exp(x * c);
      case RAPT_MAP_HARD_SIGMOID_BACKWARD:
        return x > -3 && x < 3 ? y / 6 : 0;
      case RAPT_MAP_HARD_SWISH_BACKWARD:
        return x < -3 ? 0 : x <= 3 ? y * (x / 3 + Real{0.5}) : y;
      case RAPT_MAP_CLAMP_BACKWARD:
        return x >= a && x <= b ? y : 0;
    }
    return 0;
  }

 private:
  static Real gelu_factor() { return 2 * std::sqrt(2 / std::acos(Real{-1})); }
  Real gelu_argument() const { return gelu_factor() * (x + Real{0.044715L} * x * x * x); }
};

// The bounds of rapt.h, in ULP of the result, and what operands add: numbers of u, of magnitudes that may cancel.
template <class T>
double map_bound(rapt_map_function function) {
  const bool in_f32 = sizeof(T) == 4;
  switch (function) {
    case RAPT_MAP_SQRT:
    case RAPT_MAP_RECIPROCAL:
    case RAPT_MAP_CLAMP:
    case RAPT_MAP_ADD:
    case RAPT_MAP_SUBTRACT:
    case RAPT_MAP_MULTIPLY:
    case RAPT_MAP_DIVIDE:
    case RAPT_MAP_CLAMP_BACKWARD:
    case RAPT_MAP_HARD_SIGMOID_BACKWARD:
      return 0.5 + 0x1p-10;
    case RAPT_MAP_FMA:
      return in_f32 ? 0.5 + 0x1p-10 : 0;  // Real does not hold products of doubles
    case RAPT_MAP_RSQRT:
      return 1.5;
    case RAPT_MAP_EXP:
    case RAPT_MAP_EXP2:
      return 1;
    case RAPT_MAP_LOG:
      return in_f32 ? 0.51 : 1;
    case RAPT_MAP_LOG1P:
    case RAPT_MAP_POW:
      return in_f32 ? 0.51 : 1.5;
    case RAPT_MAP_EXPM1:
    case RAPT_MAP_LOG2:
    case RAPT_MAP_SIN:
    case RAPT_MAP_COS:
    case RAPT_MAP_ATAN2:
      return in_f32 ? 0.51 : 2;
    case RAPT_MAP_SIGMOID:
    case RAPT_MAP_LOG_SIGMOID:
      return in_f32 ? 0.51 : 2.5;
    case RAPT_MAP_ELU:
    case RAPT_MAP_TANH:
      return in_f32 ? 0.51 : 3;
    case RAPT_MAP_ERF:
    case RAPT_MAP_MISH:
      return in_f32 ? 0.51 : 5;
    case RAPT_MAP_TAN:
    case RAPT_MAP_SOFTPLUS:
    case RAPT_MAP_ERF_BACKWARD:
    case RAPT_MAP_LOG_SIGMOID_BACKWARD:
    case RAPT_MAP_SOFTPLUS_BACKWARD:
    case RAPT_MAP_ELU_BACKWARD:
      return in_f32 ? 0.51 : 4;
    default:
      return 0;
  }
}

template <class T>
struct MapAccuracy {
  static constexpr const char *unit_text = "of the function's bound";
  static constexpr double bound = 1;

  static Judgement judge(const Problem &problem, Bits bits) {
    const MapValues<T> values(problem);
    const rapt_map_function function = values.function.number;
    const auto parameter = [&](std::size_t i, double by_default) {
      const double value = values.parameters[i];
      return Real{static_cast<T>(value == 0 ? by_default : value)};
    };
    const bool is_elu = function == RAPT_MAP_ELU || function == RAPT_MAP_ELU_BACKWARD,
               is_softplus = function == RAPT_MAP_SOFTPLUS || function == RAPT_MAP_SOFTPLUS_BACKWARD;
    const Real a = parameter(0, is_elu || is_softplus ? 1 : 0),
               b = parameter(1, is_elu        ? 1
                                : is_softplus ? 20
                                              : 0),
               c = parameter(2, is_elu ? 1 : 0);
    const double most = map_bound<T>(function);
    Worst worst;
    for (std::size_t i = 0; i < values.inputs[0].size(); ++i) {
      const MapTruth truth{values.inputs[0][i], values.inputs[1][i], values.inputs[2][i], a, b, c};
      const Real exact = truth.of(function), got = value_of<T>(bits[i]);
      if (most == 0 || !std::isfinite(exact) || !std::isfinite(got)) continue;
      // The rounding of ax is seen in e^ax, and a tiny slope in what it multiplies.
      const Real steep = is_softplus || is_elu ? std::fabs(truth.x * (is_elu ? c : a)) : 0;
      const Real smallest = std::numeric_limits<T>::denorm_min();
      const Real tiny = is_gradient(function)       ? 16384 * smallest * std::fabs(truth.y)
                        : function == RAPT_MAP_MISH ? smallest * std::fabs(truth.x)
                                                    : 0;
      const double off = ulps<T>(exact, got) - as_double(tiny / unit_in_last_place(exact));
      worst.see(off / (most + as_double(sizeof(T) == 8 ? steep : 0)), bound);
    }
    return worst.judgement;
  }

 private:
  static bool is_gradient(rapt_map_function function) {
    return function == RAPT_MAP_ERF_BACKWARD || function == RAPT_MAP_LOG_SIGMOID_BACKWARD ||
           function == RAPT_MAP_SOFTPLUS_BACKWARD || function == RAPT_MAP_ELU_BACKWARD;
  }
  static Real unit_in_last_place(Real exact) {
    int exponent;
    std::frexp(exact, &exponent);
    return std::ldexp(
        Real{1}, std::max(exponent, std::numeric_limits<T>::min_exponent) - std::numeric_limits<T>::digits);
  }
};

}  // namespace rapt::validate
