// Measures the accuracy of rms_norm, layer_norm and their gradients.
#pragma once

#include "support/norm_cases.hpp"
#include "validate/accuracy_parts.hpp"

namespace rapt::validate {

// Holds the exact numbers of a row.
template <class T>
struct NormTruth {
  using A = Number<T>;
  bool is_layer;
  std::vector<Real> x, w;
  Real mean = 0, root = 0, mean_size = 0;

  // Returns the exact (x - mean) / sqrt(...).
  Real normal(std::size_t i) const { return (x[i] - mean) * root; }

  // Reads row r of the problem. The residual, if any, is added and rounded to the type.
  NormTruth(const Problem &problem, bool layer, std::size_t r, bool adds) : is_layer(layer) {
    const NormProblem &wanted = problem.as<NormProblem>();
    const OperandValues<T> &operands = make_operands<T>(Family::norm, problem);
    const NormArrays<T> arrays = make_norm_arrays<T>(problem);
    Sum sum, size, squares;
    for (std::size_t i = 0; i < wanted.cols; ++i) {
      T value = operands.first[r * wanted.cols + i];
      if (adds) value = static_cast<T>(static_cast<A>(A(value) + A(operands.second[r * wanted.cols + i])));
      x.push_back(Real{A(value)});
      w.push_back(wanted.weight ? Real{A(arrays.weight[i])} + (wanted.plus_one && !layer ? 1 : 0) : Real{1});
      sum.add(x.back());
      size.add(std::fabs(x.back()));
    }
    const Real n = static_cast<Real>(wanted.cols);
    if (layer) mean = sum.value() / n;
    mean_size = size.value() / n;
    for (const Real value : x) squares.add((value - mean) * (value - mean));
    root = 1 / std::sqrt(squares.value() / n + static_cast<Real>(static_cast<A>(wanted.eps)));
  }
  Real d_units() const { return static_cast<Real>(dot_bound<A>(x.size())); }
  Real q() const { return is_layer ? (d_units() + 2) * static_cast<Real>(unit<A>) * mean_size * root : 0; }
  bool is_measurable() const { return std::isfinite(root) && root < 0x1p50L; }
};

template <class T, bool is_layer>
struct NormAccuracyOf {
  using A = Number<T>;
  static constexpr const char *unit_text = "share";
  static constexpr double bound = 1;

  static Judgement judge(const Problem &problem, Bits bits) {
    const NormProblem &wanted = problem.as<NormProblem>();
    Worst worst;
    if (!is_moderate(problem.input) || !is_ordinary(wanted.scale)) return {};
    const NormArrays<T> arrays = make_norm_arrays<T>(problem);
    const Real u = static_cast<Real>(unit<A>), z = static_cast<Real>(smallest<A>);
    for (std::size_t r = 0; r < wanted.rows; ++r) {
      const NormTruth<T> row(problem, is_layer, r, wanted.second);
      if (!row.is_measurable()) continue;
      for (std::size_t i = 0; i < wanted.cols; ++i) {
        const Real normal = row.normal(i), w = row.w[i];
        Real exact = normal * w, allowed;
        if (is_layer && wanted.bias) exact += Real{A(arrays.bias[i])};
        if (is_layer) {
          allowed = std::fabs(w) *
                        (((row.d_units() / 2 + 7) * u + row.q() * row.q()) * std::fabs(normal) + row.q()) +
                    2 * u * std::fabs(exact);
        } else {
          allowed = (row.d_units() / 2 + (wanted.plus_one ? 7 : 6)) * u * std::fabs(exact);
        }
        allowed += (std::fabs(w) + 1) * z;
        if (sizeof(T) == 2) {
          constexpr int digits = std::numeric_limits<T>::digits;
          allowed += std::ldexp(std::fabs(exact) + allowed, -digits) +
                     std::ldexp(Real{1}, std::numeric_limits<T>::min_exponent - digits - 1);
        }
        worst.see(as_double(std::fabs(value_of<T>(bits[r * wanted.cols + i]) - exact) / allowed), bound);
      }
    }
    return worst.judgement;
  }
};
template <class T>
using RmsNormAccuracy = NormAccuracyOf<T, false>;
template <class T>
using LayerNormAccuracy = NormAccuracyOf<T, true>;

// Compares the gradients with the exact derivative. The bound has the magnitudes of dx's terms.
template <class T, bool is_layer>
struct NormBackwardAccuracyOf {
  static constexpr const char *unit_text = "share";
  static constexpr double bound = 1;

  static Judgement judge(const Problem &problem, Bits bits) {
    const NormProblem &wanted = problem.as<NormProblem>();
    Worst worst;
    const bool is_centered = problem.input == InputClass::uniform || problem.input == InputClass::gaussian;
    if (!is_centered || !is_ordinary(wanted.scale) || wanted.cols < 2) return {};
    const std::vector<T> &gradients = make_operands<T>(Family::norm, problem).second;
    const NormArrays<T> arrays = make_norm_arrays<T>(problem);
    const Real u = static_cast<Real>(unit<T>), n = static_cast<Real>(wanted.cols);
    std::vector<Real> dweight(wanted.cols), dweight_most(wanted.cols), dbias(wanted.cols),
        dbias_most(wanted.cols);
    Real rows = 0;
    for (std::size_t r = 0; r < wanted.rows; ++r) {
      const NormTruth<T> row(problem, is_layer, r, false);
      // A row that is nearly constant loses its deviations.
      if (!row.is_measurable() || row.mean_size * row.root > 16) return {};
      const auto g = [&](std::size_t i) { return Real{gradients[r * wanted.cols + i]} * row.w[i]; };
      Sum of_g, of_gh, size_g, size_gh;
      for (std::size_t i = 0; i < wanted.cols; ++i) {
        of_g.add(g(i));
        of_gh.add(g(i) * row.normal(i));
        size_g.add(std::fabs(g(i)));
        size_gh.add(std::fabs(g(i)) * (std::fabs(row.normal(i)) + (is_layer ? row.mean_size * row.root : 0)));
      }
      const Real units = 3 * row.d_units() + 24;
      const Real mean = is_layer ? of_g.value() / n : 0, most_mean = is_layer ? size_g.value() / n : 0;
      const Real shift = is_layer ? row.mean_size * row.root : 0;
      for (std::size_t i = 0; i < wanted.cols; ++i) {
        const Real h = row.normal(i), size_h = std::fabs(h) + shift;
        const Real exact = row.root * (g(i) - mean - h * of_gh.value() / n);
        const Real allowed =
            units * u * row.root * (std::fabs(g(i)) + most_mean + size_h * size_gh.value() / n) +
            static_cast<Real>(smallest<T>);
        worst.see(as_double(std::fabs(value_of<T>(bits[r * wanted.cols + i]) - exact) / allowed), bound);
        const Real dy{gradients[r * wanted.cols + i]};
        dweight[i] += dy * h;
        dweight_most[i] += std::fabs(dy) * size_h * units;
        dbias[i] += dy;
        dbias_most[i] += std::fabs(dy);
      }
      rows += 1;
    }
    const auto see = [&](std::size_t from, std::span<const T> before, std::span<const Real> sums,
                         std::span<const Real> most) {
      for (std::size_t i = 0; i < wanted.cols; ++i) {
        const Real start = wanted.second ? Real{before[i]} : Real{0};
        const Real allowed =
            u * (most[i] + (rows + 1) * (most[i] + std::fabs(start))) + static_cast<Real>(smallest<T>);
        worst.see(as_double(std::fabs(value_of<T>(bits[from + i]) - sums[i] - start) / allowed), bound);
      }
    };
    if (wanted.bias) see(wanted.rows * wanted.cols, arrays.weight, dweight, dweight_most);
    if (wanted.bias && is_layer) see((wanted.rows + 1) * wanted.cols, arrays.bias, dbias, dbias_most);
    return worst.judgement;
  }
};
template <class T>
using RmsNormBackwardAccuracy = NormBackwardAccuracyOf<T, false>;
template <class T>
using LayerNormBackwardAccuracy = NormBackwardAccuracyOf<T, true>;

}  // namespace rapt::validate
