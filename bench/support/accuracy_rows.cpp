// The errors of the kernels over rows: softmax, log_softmax, logsumexp and the gradient.
#include <algorithm>
#include <cmath>
#include <vector>

#include "support/accuracy.hpp"
#include "support/accuracy_reference.hpp"
#include "support/buffer.hpp"

namespace rapt::bench {
namespace {

constexpr std::size_t widths[] = {8, 64, 1000, 4096, 50257};

// A matrix of timed logits, with the logarithm of the sum of exponentials of each row.
template <class T>
struct Rows {
  std::size_t cols;
  std::size_t rows;
  Buffer<T> x;
  std::vector<Exact> log_sum;
};

template <class T>
const std::vector<Rows<T>> &matrices() {
  static const std::vector<Rows<T>> all = [] {
    std::vector<Rows<T>> made;
    for (const std::size_t cols : widths) {
      const std::size_t rows = std::max<std::size_t>(1, 8192 / cols);
      made.push_back({cols, rows, logits<T>(rows * cols), {}});
      const T *x = made.back().x.data();
      for (std::size_t r = 0; r < rows; ++r, x += cols) {
        made.back().log_sum.push_back(
            std::log(sum_of(0, cols, [&](std::size_t c) { return std::exp(Exact(x[c])); })));
      }
    }
    return made;
  }();
  return all;
}

// error(result, logit, log of the sum) of each element.
template <class T>
double worst_of_rows(RowsFunction<T> function, const auto &error) {
  Worst worst;
  for (const Rows<T> &in : matrices<T>()) {
    const Buffer<T> y(in.rows * in.cols);
    function(in.x.data(), y.data(), in.rows, in.cols, T(1));
    for (std::size_t i = 0; i < y.size(); ++i) {
      worst.add(error(y.data()[i], Exact(in.x.data()[i]), in.log_sum[i / in.cols]));
    }
  }
  return worst.value();
}

// Of max(1, |exact|).
template <class T>
Exact logarithm_error(T result, Exact exact) {
  return std::fabs(result - exact) / (std::max(Exact(1), std::fabs(exact)) * unit<T>);
}

}  // namespace

template <class T>
double softmax_error(RowsFunction<T> softmax) {
  return worst_of_rows<T>(softmax, [](T y, Exact x, Exact log_sum) {
    return std::fabs(y / std::exp(x - log_sum) - 1) / unit<T>;
  });
}

template <class T>
double log_softmax_error(RowsFunction<T> log_softmax) {
  return worst_of_rows<T>(log_softmax,
                          [](T y, Exact x, Exact log_sum) { return logarithm_error(y, x - log_sum); });
}

template <class T>
double logsumexp_error(RowsFunction<T> logsumexp) {
  Worst worst;
  for (const Rows<T> &in : matrices<T>()) {
    const Buffer<T> out(in.rows);
    logsumexp(in.x.data(), out.data(), in.rows, in.cols, T(1));
    for (std::size_t r = 0; r < in.rows; ++r) worst.add(logarithm_error(out.data()[r], in.log_sum[r]));
  }
  return worst.value();
}

template <class T>
double softmax_backward_error(Backward<T> backward) {
  Worst worst;
  for (const Rows<T> &in : matrices<T>()) {
    const std::size_t n = in.rows * in.cols;
    const auto stride = static_cast<std::ptrdiff_t>(in.cols);
    const Buffer<T> y(n), dy = logits<T>(n, 0, 1), dx(n);
    for (std::size_t i = 0; i < n; ++i) {
      y.data()[i] = static_cast<T>(std::exp(Exact(in.x.data()[i]) - in.log_sum[i / in.cols]));
    }
    backward(y.data(), stride, dy.data(), stride, dx.data(), stride, in.rows, in.cols, T(1));
    for (std::size_t r = 0; r < in.rows; ++r) {
      const T *p = y.data() + r * in.cols, *g = dy.data() + r * in.cols, *d = dx.data() + r * in.cols;
      const auto product = [=](std::size_t c) { return Exact(p[c]) * g[c]; };
      const Exact mean = sum_of(0, in.cols, product);
      const Exact magnitude = sum_of(0, in.cols, [&](std::size_t c) { return std::fabs(product(c)); });
      for (std::size_t c = 0; c < in.cols; ++c) {
        const Exact scale = p[c] * (std::fabs(Exact(g[c])) + magnitude);
        worst.add(std::fabs(d[c] - p[c] * (g[c] - mean)) / (scale * unit<T>));
      }
    }
  }
  return worst.value();
}

#define RAPT_INSTANTIATE(T)                              \
  template double softmax_error<T>(RowsFunction<T>);     \
  template double log_softmax_error<T>(RowsFunction<T>); \
  template double logsumexp_error<T>(RowsFunction<T>);   \
  template double softmax_backward_error<T>(Backward<T>);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::bench
