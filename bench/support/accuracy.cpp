#include "support/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/accuracy_reference.hpp"
#include "support/buffer.hpp"

namespace rapt::bench {
namespace {

constexpr std::size_t lengths[] = {1, 8, 31, 100, 768, 4096, 65536};  // of dot products
constexpr std::size_t dims[] = {64, 128, 768};

template <class T>
Exact ulps(T result, Exact exact) {
  const int exponent = std::max(std::ilogb(exact), std::numeric_limits<T>::min_exponent - 1);
  return std::fabs(result - exact) / std::ldexp(Exact(1), exponent - std::numeric_limits<T>::digits + 1);
}

// The timed logits, and a sweep over the inputs of exp that have normal results, all but the outermost.
template <class T>
const std::vector<T> &exp_inputs() {
  static const std::vector<T> inputs = [] {
    std::vector<T> x;
    for (const double logit : logit_period()) x.push_back(static_cast<T>(logit));
    const Exact low = std::log(Exact(std::numeric_limits<T>::min())) * Exact(0.99);
    const Exact high = std::log(Exact(std::numeric_limits<T>::max())) * Exact(0.99);
    constexpr std::size_t steps = 65536;
    for (std::size_t i = 0; i <= steps; ++i) {
      x.push_back(static_cast<T>(low + (high - low) * static_cast<Exact>(i) / steps));
    }
    return x;
  }();
  return inputs;
}

template <class T>
const std::vector<Exact> &exact_exp() {
  static const std::vector<Exact> results = [] {
    std::vector<Exact> y;
    for (const T x : exp_inputs<T>()) y.push_back(std::exp(Exact(x)));
    return y;
  }();
  return results;
}

// compute(x, y, n) writes the results; exact(i) is the exact one.
template <class T, class Compute, class ExactResult>
double worst_of_elements(const Compute &compute, const ExactResult &exact) {
  const std::vector<T> &x = exp_inputs<T>();
  std::vector<T> y(x.size());
  compute(x.data(), y.data(), x.size());
  Worst worst;
  for (std::size_t i = 0; i < x.size(); ++i) worst.add(ulps(y[i], exact(i)));
  return worst.value();
}

template <class T>
Exact dot_error_of(T result, const T *a, const T *b, std::size_t n, T scale = 1) {
  const auto product = [=](std::size_t i) { return Exact(a[i]) * b[i] * scale; };
  const Exact magnitude = sum_of(0, n, [&](std::size_t i) { return std::fabs(product(i)); });
  return std::fabs(result - sum_of(0, n, product)) / (magnitude * unit<T>);
}

}  // namespace

template <class T>
double exp_error(Exp<T> exp) {
  return worst_of_elements<T>(exp, [](std::size_t i) { return exact_exp<T>()[i]; });
}

template <class T>
double exp_sum_error(ExpSum<T> exp_sum) {
  return worst_of_elements<T>([=](const T *x, T *y, std::size_t n) { exp_sum(x, T(1), T(0), y, n); },
                              [](std::size_t i) { return exact_exp<T>()[i]; });
}

template <class T>
double scale_error(Scale<T> scale) {
  constexpr T factor = T(1) / 3;
  return worst_of_elements<T>([=](const T *x, T *y, std::size_t n) { scale(x, factor, y, n); },
                              [](std::size_t i) { return Exact(exp_inputs<T>()[i]) * factor; });
}

template <class T>
double dot_error(Dot<T> dot) {
  const Buffer<T> a = logits<T>(65536, 0, 0), b = logits<T>(65536, 0, 1);
  Worst worst;
  for (const std::size_t n : lengths) {
    const std::size_t count = std::min<std::size_t>(a.size() / n, 32);
    for (std::size_t k = 0; k < count; ++k) {
      const T *from = a.data() + k * n, *by = b.data() + k * n;
      worst.add(dot_error_of(dot(from, by, n), from, by, n));
    }
  }
  return worst.value();
}

template <class T>
double dot_rows_error(DotRows<T> dot_rows) {
  constexpr std::size_t rows = 64;
  constexpr T scale = T(0.125);
  Worst worst;
  for (const std::size_t dim : dims) {
    const Buffer<T> query = logits<T>(dim, 0, 0), matrix = logits<T>(rows * dim, 0, 1), out(rows);
    dot_rows(query.data(), matrix.data(), static_cast<std::ptrdiff_t>(dim), rows, dim, scale, out.data());
    for (std::size_t r = 0; r < rows; ++r) {
      worst.add(dot_error_of(out.data()[r], query.data(), matrix.data() + r * dim, dim, scale));
    }
  }
  return worst.value();
}

#define RAPT_INSTANTIATE(T)                    \
  template double exp_error<T>(Exp<T>);        \
  template double exp_sum_error<T>(ExpSum<T>); \
  template double scale_error<T>(Scale<T>);    \
  template double dot_error<T>(Dot<T>);        \
  template double dot_rows_error<T>(DotRows<T>);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::bench
