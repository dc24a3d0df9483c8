// Measures the accuracy of dot, dot_rows, scale, exp, exp_sum, activations and their gradients, and judges argmax.
#pragma once

#include "calls/expert_sum.hpp"
#include "calls/search.hpp"
#include "contract/activation_list.hpp"
#include "contract/fused.hpp"
#include "validate/accuracy_parts.hpp"

namespace rapt::validate {

template <class T>
struct DotAccuracy {
  static constexpr const char *unit_text = is_f64<T> ? "2^-53 sum|ab|" : "2^-24 sum|ab|";
  static constexpr double bound = usual_dot_bound<T>;

  static double error(std::span<const T> a, std::span<const T> b, Real factor, Real got) {
    Sum sum, magnitude;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const Real product = Real{a[i]} * Real{b[i]};
      sum.add(product);
      magnitude.add(std::fabs(product));
    }
    const Real most = std::fabs(factor) * magnitude.value();
    const Real off = std::fabs(got - factor * sum.value());
    if (most == 0) return off == 0 ? 0 : wrong;
    return as_double(off / most) / unit<T>;
  }
  static Judgement judge(const Problem &problem, Bits bits) {
    if (!is_moderate(problem.input)) return {};
    const auto [a, b] = make_operands<T>(Family::two_vectors, problem);
    Worst worst;
    worst.see(error(a, b, 1, value_of<Number<T>>(bits[0])), std::min(bound, dot_bound<T>(a.size())));
    return worst.judgement;
  }
};

// Dot products of bytes must be exact.
template <class T>
requires std::is_integral_v<T>
struct DotAccuracy<T> {
  static constexpr const char *unit_text = "exact";
  static constexpr double bound = 0;

  static std::int64_t exact(std::span<const T> a, std::span<const T> b) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * static_cast<Factor<T>>(b[i]);
    return sum;
  }
  static Judgement judge(const Problem &problem, Bits bits) {
    const auto [a, b] = make_operands<T>(Family::two_vectors, problem);
    Worst worst;
    worst.see(static_cast<std::int64_t>(bits[0]) == exact(a, b) ? 0 : wrong, bound);
    return worst.judgement;
  }
};

template <class T>
struct DotRowsAccuracy {
  static constexpr const char *unit_text = is_f64<T> ? "2^-53 |s|sum|ab|" : "2^-24 |s|sum|ab|";
  static constexpr double bound = DotAccuracy<T>::bound + 1;  // the product with the scale is rounded too

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto &wanted = problem.as<DotRowsProblem>();
    if (!is_moderate(problem.input) || (wanted.scale != 0 && !is_ordinary(wanted.scale))) return {};
    const auto [query, rows] = make_operands<T>(Family::dot_rows, problem);
    Worst worst;
    for (std::size_t r = 0; r < wanted.rows; ++r) {
      const auto row = std::span(rows).subspan(r * wanted.cols, wanted.cols);
      const Real factor = static_cast<Number<T>>(wanted.scale);
      worst.see(DotAccuracy<T>::error(query, row, factor, value_of<Number<T>>(bits[r])),
                std::min(bound, dot_bound<T>(wanted.cols) + 1));
    }
    return worst.judgement;
  }
};

template <class T>
requires std::is_integral_v<T>
struct DotRowsAccuracy<T> {
  static constexpr const char *unit_text = "exact";
  static constexpr double bound = 0;

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto &wanted = problem.as<DotRowsProblem>();
    const auto [query, rows] = make_operands<T>(Family::dot_rows, problem);
    Worst worst;
    for (std::size_t r = 0; r < wanted.rows; ++r) {
      const auto row = std::span(rows).subspan(r * wanted.cols, wanted.cols);
      const float sum = static_cast<float>(DotAccuracy<T>::exact(query, row));
      const float scaled = static_cast<float>(wanted.scale) * sum;
      worst.see(canonical_bits(scaled) == bits[r] ? 0 : wrong, bound);
    }
    return worst.judgement;
  }
};

// The share of the bound that rapt.h states for a metric.
template <class T>
double metric_error(int kind, std::span<const T> a, std::span<const T> b, Real got) {
  using N = Number<T>;
  const bool is_distance = kind == RAPT_METRIC_DOT_DISTANCE || kind == RAPT_METRIC_COSINE_DISTANCE;
  Sum products, magnitudes, differences, of_a, of_b;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Real x{static_cast<N>(a[i])}, y{static_cast<N>(b[i])};
    products.add(x * y);
    magnitudes.add(std::fabs(x * y));
    differences.add((x - y) * (x - y));
    of_a.add(x * x);
    of_b.add(y * y);
  }
  const Real u = unit<N>, d = std::is_integral_v<T> ? 0 : dot_bound<N>(a.size());
  Real exact, allowed;
  if (kind == RAPT_METRIC_L2_SQUARED) {
    exact = differences.value();
    allowed = (std::is_integral_v<T> ? 0 : squared_distance_bound<N>(a.size())) * u * exact;
  } else if (kind == RAPT_METRIC_DOT || kind == RAPT_METRIC_DOT_DISTANCE) {
    exact = products.value();
    allowed = d * u * magnitudes.value();
  } else {
    const Real divisor = std::sqrt(of_a.value()) * std::sqrt(of_b.value());
    exact = divisor == 0 ? 0 : products.value() / divisor;
    allowed = std::is_integral_v<T> ? 4 * Real{unit<double>} : cosine_bound<N>(a.size()) * u;
  }
  if (is_distance) exact = 1 - exact;
  if (is_distance || std::is_integral_v<T>) allowed += u * std::fabs(exact);
  const Real off = std::fabs(got - exact);
  return allowed == 0 ? (off == 0 ? 0 : wrong) : as_double(off / allowed);
}

// Long double has only 11 bits more than f64.
template <class T>
struct MetricAccuracy {
  static constexpr const char *unit_text = "share";
  static constexpr double bound = is_f64<T> ? 1 + 0x1p-6 : 1;

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto &wanted = problem.as<DotRowsProblem>();
    if (!std::is_integral_v<T> && !is_moderate(problem.input)) return {};
    const auto [a, rows] = make_operands<T>(Family::dot_rows, problem);
    Worst worst;
    for (std::size_t r = 0; r < wanted.rows; ++r) {
      const std::vector<T> row(rows.begin() + static_cast<std::ptrdiff_t>(r * wanted.cols),
                               rows.begin() + static_cast<std::ptrdiff_t>((r + 1) * wanted.cols));
      worst.see(metric_error<T>(metric_of(problem), a, row, value_of<Number<T>>(bits[r])), bound);
    }
    return worst.judgement;
  }
};

template <class T>
struct MetricRowsAccuracy {
  static constexpr const char *unit_text = "share";
  static constexpr double bound = MetricAccuracy<T>::bound;

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto &wanted = problem.as<DotRowsProblem>();
    if (!std::is_integral_v<T> && !is_moderate(problem.input)) return {};
    const auto [vector, queries] = make_operands<T>(Family::dot_rows, problem);
    const std::size_t rows = rows_of_metric(problem);
    Worst worst;
    for (std::size_t i = 0; i < wanted.rows; ++i) {
      const std::vector<T> query(queries.begin() + static_cast<std::ptrdiff_t>(i * wanted.cols),
                                 queries.begin() + static_cast<std::ptrdiff_t>((i + 1) * wanted.cols));
      for (std::size_t j = 0; j < rows; ++j) {
        const std::vector<T> row = turned(std::span<const T>(vector), j);
        worst.see(metric_error<T>(metric_of(problem), query, row, value_of<Number<T>>(bits[i * rows + j])),
                  bound);
      }
    }
    return worst.judgement;
  }
};

// Returns |got - exact| in units in the last place of T near `exact`. For subnormal numbers, the unit is
// 2^-149 or 2^-1074.
template <class T>
double ulps(Real exact, Real got) {
  int exponent;
  std::frexp(exact, &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent) - std::numeric_limits<T>::digits;
  return as_double(std::ldexp(std::fabs(got - exact), -exponent));
}

// A 16-bit element is rounded twice: first to f32, with an error of less than 2^-24 of the product.
template <class T>
struct ScaleAccuracy {
  static constexpr const char *unit_text = "ULP";
  // `exact` is itself rounded to the 64 bits of long double.
  static constexpr double bound = 0.5 + 0x1p-10;

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto x = make_operands<T>(Family::vector, problem).first;
    const auto factor = static_cast<Number<T>>(problem.as<VectorProblem>().scale);
    Worst worst;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real exact = Real{x[i]} * Real{factor}, got = value_of<T>(bits[i]);
      if (!std::isfinite(exact) || !std::isfinite(got)) continue;
      worst.see(ulps<T>(exact, got), bound);
    }
    return worst.judgement;
  }
};

// A conversion to f32 is exact. Other conversions round once.
template <class From, class To>
struct ConversionAccuracy {
  static constexpr const char *unit_text = "ULP";
  static constexpr double bound = std::is_same_v<To, float> ? 0 : 0.5;

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto x = make_operands<From>(Family::vector, problem).first;
    Worst worst;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real exact = Real{x[i]}, got = value_of<To>(bits[i]);
      if (std::isfinite(exact) && std::isfinite(got)) worst.see(ulps<To>(exact, got), bound);
    }
    return worst.judgement;
  }
};
template <class T>
using ToF32Accuracy = ConversionAccuracy<T, float>;
template <class T>
using FromF32Accuracy = ConversionAccuracy<float, T>;

template <class T>
struct ExpAccuracy {
  static constexpr const char *unit_text = "ULP";
  static constexpr double bound = is_f64<T> ? exp_bound : exp_f32_bound;

  static double error(T x, Real got) {
    const Real exact = std::exp(Real{x});
    const Real largest = std::numeric_limits<T>::max();
    const Real overflow = largest + largest * static_cast<Real>(unit<T>) / 2;
    if (exact >= overflow) return std::isinf(got) ? 0 : wrong;
    if (!std::isfinite(got) || std::signbit(got)) return wrong;
    return ulps<T>(exact, got);
  }
  static Judgement judge(const Problem &problem, Bits bits) {
    const auto x = make_operands<T>(Family::vector, problem).first;
    Worst worst;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isfinite(x[i])) worst.see(error(x[i], value_of<T>(bits[i])), bound);
    }
    return worst.judgement;
  }
};

// Function has the exact value, and what its bound counts in.
template <class T, class Function>
struct ActivationAccuracy {
  using A = Number<T>;
  static constexpr const char *unit_text = Function::unit_text;
  static constexpr double of_arithmetic = sizeof(A) / sizeof(T) == 2 ? 0x1p-11 : 1;
  static constexpr double bound = (sizeof(T) == 2 ? 0.5 : 0) + Function::ulps * of_arithmetic;

  static double error(Real x, Real got) {
    const Real exact = Function::value(x);
    // The exponential of a tail is subnormal.
    const Real lost = std::fabs(x) * Real{std::numeric_limits<A>::denorm_min()};
    const Real off = std::max(std::fabs(got - exact) - lost, Real{0});
    return ulps<T>(exact, exact + off) / Function::unit(x);
  }
  static Judgement judge(const Problem &problem, Bits bits) {
    const auto values = make_operands<T>(Family::vector, problem).first;
    Worst worst;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Real x{values[i]}, got = value_of<T>(bits[i]);
      if (std::isfinite(x) && !std::isinf(got)) worst.see(error(x, got), bound);
    }
    return worst.judgement;
  }
};

struct ExactSilu {
  static constexpr const char *unit_text = "ULP";
  static constexpr double ulps = silu_bound;
  static Real value(Real x) { return x / (1 + std::exp(-x)); }
  static double unit(Real) { return 1; }
};
struct ExactGelu {
  static constexpr const char *unit_text = "ULP";
  static constexpr double ulps = gelu_bound;
  static Real value(Real x) { return x / 2 * std::erfc(-x / std::sqrt(Real{2})); }
  static double unit(Real) { return 1; }
};
// The rounding of v counts |v| / 2 times.
struct ExactGeluTanh {
  static constexpr const char *unit_text = "(1 + |v| / 2) ULP";
  static constexpr double ulps = gelu_tanh_bound;
  static Real v(Real x) {
    return std::sqrt(8 / std::acos(Real{-1})) * (x + Real{44715} / 1000000 * x * x * x);
  }
  static Real value(Real x) { return x / (1 + std::exp(-v(x))); }
  static double unit(Real x) { return as_double(1 + std::fabs(v(x)) / 2); }
};
template <class T>
using SiluAccuracy = ActivationAccuracy<T, ExactSilu>;
template <class T>
using GeluAccuracy = ActivationAccuracy<T, ExactGelu>;
template <class T>
using GeluTanhAccuracy = ActivationAccuracy<T, ExactGeluTanh>;

// Of a gradient, `slope` is the exact derivative, and `magnitude` is what its bound counts in.
struct Slope {
  Real value, magnitude;
};

struct SiluSlope {
  static constexpr const char *text = "(s + |x s'|)";
  static constexpr double bound = silu_backward_bound;
  static Slope of(Real x) {
    const Real s = 1 / (1 + std::exp(-x)), t = 1 / (1 + std::exp(x));
    return {s * (1 + x * t), s * (1 + std::fabs(x) * t)};
  }
  static double unit(Real) { return 1; }
};
struct GeluSlope {
  static constexpr const char *text = "(s + |x s'|)";
  static constexpr double bound = gelu_backward_bound;
  static Slope of(Real x) {
    const Real s = std::erfc(-x / std::sqrt(Real{2})) / 2;
    const Real density = std::exp(-x * x / 2) / std::sqrt(2 * std::acos(Real{-1}));
    return {s + x * density, s + std::fabs(x) * density};
  }
  static double unit(Real) { return 1; }
};
struct GeluTanhSlope {
  static constexpr const char *text = "(1 + |v| / 2)(s + |x s'|)";
  static constexpr double bound = gelu_tanh_backward_bound;
  static Slope of(Real x) {
    const Real v = ExactGeluTanh::v(x), s = 1 / (1 + std::exp(-v)), t = 1 / (1 + std::exp(v));
    const Real w =
        t == 0 ? 0 : std::sqrt(8 / std::acos(Real{-1})) * (x + 3 * (Real{44715} / 1000000 * x * x * x));
    return {s * (1 + w * t), s * (1 + std::fabs(w) * t)};
  }
  static double unit(Real x) { return ExactGeluTanh::unit(x); }
};

template <class T, class Function>
struct GradientAccuracy {
  static constexpr const char *unit_text = Function::text;
  static constexpr double bound = Function::bound;

  // In u * |dy| * magnitude. Subnormal factors lose more, and a subnormal result half a unit.
  static double error(Real x, Real dy, Real got) {
    const Slope slope = Function::of(x);
    const Real tiny = Real{std::numeric_limits<T>::denorm_min()};
    const Real lost = std::fabs(dy) * tiny * (is_f64<T> ? 0x1p14 : 0x1p9) + tiny;
    const Real off = std::fabs(got - dy * slope.value) - lost;
    if (!(off > 0)) return off == off ? 0 : wrong;
    return as_double(off / (std::fabs(dy) * slope.magnitude)) / unit<T> / Function::unit(x);
  }
  static Judgement judge(const Problem &problem, Bits bits) {
    const auto [x, dy] = make_operands<T>(Family::two_vectors, problem);
    Worst worst;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real got = value_of<T>(bits[i]);
      if (std::isfinite(x[i]) && std::isfinite(dy[i]) && std::isfinite(got))
        worst.see(error(x[i], dy[i], got), bound);
    }
    return worst.judgement;
  }
};
template <class T>
using SiluBackwardAccuracy = GradientAccuracy<T, SiluSlope>;
template <class T>
using GeluBackwardAccuracy = GradientAccuracy<T, GeluSlope>;
template <class T>
using GeluTanhBackwardAccuracy = GradientAccuracy<T, GeluTanhSlope>;

// What a problem's seed chooses, as the driver does.
struct ChosenActivation {
  rapt_activation activation;
  explicit ChosenActivation(std::uint64_t seed) : activation(activations[seed % activation_count]) {}
  Real value(Real x) const {
    switch (activation) {
#define ACTIVATION(function, Class, number) \
  case number:                              \
    return Exact##Class::value(x);
#include "contract/activations.def"
    }
    return 0;
  }
  double unit(Real x) const {
    switch (activation) {
#define ACTIVATION(function, Class, number) \
  case number:                              \
    return Exact##Class::unit(x);
#include "contract/activations.def"
    }
    return 0;
  }
};

// The product adds a rounding to the bound of the activation. A relative error of one unit is up to two ULP.
template <class T>
struct GatedAccuracy {
  using A = Number<T>;
  static constexpr const char *unit_text = "(1 + |v| / 2) ULP";
  static constexpr double of_arithmetic = 2 * ExactGelu::ulps + 0.5;
  static constexpr double bound = sizeof(T) == 2 ? 0.5 + of_arithmetic * 0x1p-11 : of_arithmetic;

  static double error(const ChosenActivation &activation, Real x, Real factor, Real got) {
    const Real exact = activation.value(x) * factor, tiny = Real{std::numeric_limits<A>::denorm_min()};
    if (!std::isfinite(x) || !std::isfinite(factor) || !std::isfinite(got)) return 0;
    const Real lost = std::fabs(factor) * (std::fabs(x) + 10) * tiny;
    return ulps<T>(exact, exact + std::max(std::fabs(got - exact) - lost, Real{0})) / activation.unit(x);
  }
  static Judgement judge(const Problem &problem, Bits bits) {
    const auto [gate, up] = make_operands<T>(Family::two_vectors, problem);
    const ChosenActivation activation(problem.seed);
    Worst worst;
    for (std::size_t i = 0; i < gate.size(); ++i) {
      worst.see(error(activation, Real{gate[i]}, Real{up[i]}, value_of<T>(bits[i])), bound);
    }
    return worst.judgement;
  }
};

// The share of the bound. A result of 16 bits is rounded from a sum within it.
template <class T>
struct ExpertSumAccuracy {
  using A = Number<T>;
  static constexpr const char *unit_text = "share";
  static constexpr double bound = is_f64<A> ? 1 + 0x1p-8 : 1;  // long double has 11 bits more than f64

  static double error(Real exact, Real allowed, T got) {
    if constexpr (sizeof(T) == 2) {
      const bool is_rounded = Real{T(as_double(exact - allowed))} <= Real{got} &&
                              Real{got} <= Real{T(as_double(exact + allowed))};
      return is_rounded ? 0 : wrong;
    } else {
      return as_double(std::fabs(Real{got} - exact) / allowed);
    }
  }
  static Judgement judge(const Problem &problem, Bits bits) {
    const ExpertSumNumbers<T> numbers(problem);
    const std::size_t n = problem.cols(), slots = numbers.slots;
    Worst worst;
    for (std::size_t at = 0; at < numbers.tokens * n; ++at) {
      const std::size_t token = at / n, i = at % n;
      Sum sum, magnitude;
      bool has_nan = false, has_infinity = false;
      const auto add = [&](Real term) {
        has_nan = has_nan || std::isnan(term);
        has_infinity = has_infinity || std::isinf(term);
        sum.add(term);
        magnitude.add(std::fabs(term));
      };
      for (std::size_t entry = token * slots; entry < (token + 1) * slots; ++entry) {
        const Real weight = numbers.weights.empty() ? Real{1} : Real{numbers.weights[entry]};
        add(weight * Real{A(numbers.x[entry * n + i])});
      }
      if (!numbers.add.empty()) add(Real{A(numbers.add[at])});
      const T got = from_bits<T>(static_cast<BitsOf<T>>(bits[at]));
      if (has_nan) {
        worst.see(std::isnan(Real{A(got)}) ? 0 : wrong, bound);
      } else if (!has_infinity && magnitude.value() < std::numeric_limits<A>::max() / 2) {
        const Real tiny = Real{std::numeric_limits<A>::denorm_min()}, count = static_cast<Real>(slots),
                   units = Real{expert_sum_bound(static_cast<double>(slots))};
        worst.see(error(sum.value(), units * unit<A> * magnitude.value() + count * tiny, got), bound);
      }
    }
    return worst.judgement;
  }
};

// The bits are those of dgate, then those of dup. The driver takes up for dy too.
template <class T>
struct GatedBackwardAccuracy {
  static constexpr const char *unit_text = GatedAccuracy<T>::unit_text;
  static constexpr double bound = GatedAccuracy<T>::bound;

  static double error_of_gate(const ChosenActivation &activation, T x, T product, Real got) {
    if (!std::isfinite(x) || !std::isfinite(product) || !std::isfinite(got)) return 0;
    switch (activation.activation) {
#define ACTIVATION(function, Class, number) \
  case number:                              \
    return Class##BackwardAccuracy<T>::error(x, product, got);
#include "contract/activations.def"
    }
    return 0;
  }
  static Judgement judge(const Problem &problem, Bits bits) {
    const auto [gate, up] = make_operands<T>(Family::two_vectors, problem);
    const ChosenActivation activation(problem.seed);
    Worst worst;
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const T product = up[i] * up[i];
      worst.see(error_of_gate(activation, gate[i], product, value_of<T>(bits[i])), bound);
      const Real dup = value_of<T>(bits[gate.size() + i]);
      worst.see(GatedAccuracy<T>::error(activation, Real{gate[i]}, Real{up[i]}, dup), bound);
    }
    return worst.judgement;
  }
};

template <class T>
struct ArgmaxAccuracy {
  static constexpr const char *unit_text = "exact";
  static constexpr double bound = 0;

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto x = make_operands<T>(Family::vector, problem).first;
    std::size_t best = SIZE_MAX;
    for (std::size_t i = x.size(); i-- > 0;) {
      const Real v{x[i]};
      if (best == SIZE_MAX || std::isnan(v) || (!std::isnan(Real{x[best]}) && v >= Real{x[best]})) best = i;
    }
    Worst worst;
    worst.see(bits[0] == best ? 0 : wrong, bound);
    return worst.judgement;
  }
};

// Checks each element against the bound of exp, and the sum against the exact sum of the output's elements.
template <class T>
struct ExpSumAccuracy {
  static constexpr const char *unit_text = is_f64<T> ? "2^-53 of sum" : "2^-24 of sum";
  static constexpr double bound = exp_sum_bound<T>;

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto x = make_operands<T>(Family::vector, problem).first;
    const auto &wanted = problem.as<VectorProblem>();
    const T scale = static_cast<T>(wanted.scale), shift = static_cast<T>(wanted.shift);
    Worst worst;
    Sum sum;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const T t = fused(scale, x[i], -shift);
      const Real y = value_of<T>(bits[i]);
      if (!std::isfinite(t) || !std::isfinite(y)) return {};
      if (!(ExpAccuracy<T>::error(t, y) < ExpAccuracy<T>::bound)) worst.see(wrong, bound);
      sum.add(y);
    }
    const Real got = value_of<T>(bits[x.size()]), exact = sum.value();
    if (exact >= Real{std::numeric_limits<T>::max()}) return worst.judgement;
    // A subnormal sum is exact. Other sums have a relative error.
    const Real off = std::fabs(got - exact);
    worst.see(off == 0 ? 0 : as_double(off / exact) / unit<T>, bound);
    return worst.judgement;
  }
};

}  // namespace rapt::validate
