#include "support/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/attention.hpp"
#include "support/buffer.hpp"

namespace rapt::bench {
namespace {

using Exact = long double;

constexpr std::size_t lengths[] = {1, 8, 31, 100, 768, 4096, 65536};  // of dot products
constexpr std::size_t dims[] = {64, 128, 768};
constexpr std::size_t widths[] = {8, 64, 1000, 4096, 50257};  // of rows

// Half the distance from 1 to the next number: 2^-24 or 2^-53.
template <class T>
constexpr Exact unit = std::numeric_limits<T>::epsilon() / 2;

template <class T>
Exact ulps(T result, Exact exact) {
  const int exponent = std::max(std::ilogb(exact), std::numeric_limits<T>::min_exponent - 1);
  return std::fabs(result - exact) / std::ldexp(Exact(1), exponent - std::numeric_limits<T>::digits + 1);
}

// By halves: the rounding errors of a long sum stay far below those that are measured by it.
template <class Term>
Exact sum_of(std::size_t begin, std::size_t end, const Term &term) {
  if (end - begin <= 8) {
    Exact sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += term(i);
    return sum;
  }
  const std::size_t middle = begin + (end - begin) / 2;
  return sum_of(begin, middle, term) + sum_of(middle, end, term);
}

// The largest error, and NaN if there is one.
double worst_of(std::size_t count, const auto &error) {
  Exact worst = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Exact one = error(i);
    if (!(one <= worst)) worst = one;
    if (std::isnan(one)) break;
  }
  return static_cast<double>(worst);
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

template <class T>
Exact dot_error_of(T result, const T *a, const T *b, std::size_t n, T scale = 1) {
  const auto product = [=](std::size_t i) { return Exact(a[i]) * b[i] * scale; };
  const Exact magnitude = sum_of(0, n, [&](std::size_t i) { return std::fabs(product(i)); });
  return std::fabs(result - sum_of(0, n, product)) / (magnitude * unit<T>);
}

// The rows of a matrix of timed logits, at several widths, with the logarithm of the sum of exponentials.
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
  double worst = 0;
  for (const Rows<T> &in : matrices<T>()) {
    const Buffer<T> y(in.rows * in.cols);
    function(in.x.data(), y.data(), in.rows, in.cols, T(1));
    worst = std::max(worst, worst_of(y.size(), [&](std::size_t i) {
                       return error(y.data()[i], Exact(in.x.data()[i]), in.log_sum[i / in.cols]);
                     }));
  }
  return worst;
}

}  // namespace

template <class T>
double exp_error(Exp<T> exp) {
  const std::vector<T> &x = exp_inputs<T>();
  std::vector<T> y(x.size());
  exp(x.data(), y.data(), x.size());
  return worst_of(x.size(), [&](std::size_t i) { return ulps(y[i], exact_exp<T>()[i]); });
}

template <class T>
double exp_sum_error(ExpSum<T> exp_sum) {
  const std::vector<T> &x = exp_inputs<T>();
  std::vector<T> y(x.size());
  exp_sum(x.data(), T(1), T(0), y.data(), x.size());
  return worst_of(x.size(), [&](std::size_t i) { return ulps(y[i], exact_exp<T>()[i]); });
}

template <class T>
double scale_error(Scale<T> scale) {
  const std::vector<T> &x = exp_inputs<T>();
  std::vector<T> y(x.size());
  const T factor = T(1) / 3;
  scale(x.data(), factor, y.data(), x.size());
  return worst_of(x.size(), [&](std::size_t i) { return ulps(y[i], Exact(x[i]) * factor); });
}

template <class T>
double dot_error(Dot<T> dot) {
  const Buffer<T> a = logits<T>(65536, 0, 0), b = logits<T>(65536, 0, 1);
  double worst = 0;
  for (const std::size_t n : lengths) {
    const std::size_t count = std::min<std::size_t>(a.size() / n, 32);
    worst = std::max(worst, worst_of(count, [&](std::size_t k) {
                       const T *from = a.data() + k * n, *by = b.data() + k * n;
                       return dot_error_of(dot(from, by, n), from, by, n);
                     }));
  }
  return worst;
}

template <class T>
double dot_rows_error(DotRows<T> dot_rows) {
  constexpr std::size_t rows = 64;
  double worst = 0;
  for (const std::size_t dim : dims) {
    const Buffer<T> query = logits<T>(dim, 0, 0), matrix = logits<T>(rows * dim, 0, 1), out(rows);
    dot_rows(query.data(), matrix.data(), static_cast<std::ptrdiff_t>(dim), rows, dim, T(0.125), out.data());
    worst =
        std::max(worst, worst_of(rows, [&](std::size_t r) {
                   return dot_error_of(out.data()[r], query.data(), matrix.data() + r * dim, dim, T(0.125));
                 }));
  }
  return worst;
}

template <class T>
double softmax_error(RowsFunction<T> softmax) {
  return worst_of_rows<T>(softmax, [](T y, Exact x, Exact log_sum) {
    return std::fabs(y / std::exp(x - log_sum) - 1) / unit<T>;
  });
}

template <class T>
double log_softmax_error(RowsFunction<T> log_softmax) {
  return worst_of_rows<T>(log_softmax, [](T y, Exact x, Exact log_sum) {
    const Exact exact = x - log_sum;
    return std::fabs(y - exact) / (std::max(Exact(1), std::fabs(exact)) * unit<T>);
  });
}

template <class T>
double logsumexp_error(RowsFunction<T> logsumexp) {
  double worst = 0;
  for (const Rows<T> &in : matrices<T>()) {
    const Buffer<T> out(in.rows);
    logsumexp(in.x.data(), out.data(), in.rows, in.cols, T(1));
    worst =
        std::max(worst, worst_of(in.rows, [&](std::size_t r) {
                   const Exact exact = in.log_sum[r];
                   return std::fabs(out.data()[r] - exact) / (std::max(Exact(1), std::fabs(exact)) * unit<T>);
                 }));
  }
  return worst;
}

template <class T>
double softmax_backward_error(Backward<T> backward) {
  double worst = 0;
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
      const Exact mean = sum_of(0, in.cols, [&](std::size_t c) { return Exact(p[c]) * g[c]; });
      const Exact magnitude =
          sum_of(0, in.cols, [&](std::size_t c) { return std::fabs(Exact(p[c]) * g[c]); });
      worst = std::max(worst, worst_of(in.cols, [&](std::size_t c) {
                         const Exact scale = p[c] * (std::fabs(Exact(g[c])) + magnitude);
                         return std::fabs(d[c] - p[c] * (g[c] - mean)) / (scale * unit<T>);
                       }));
    }
  }
  return worst;
}

namespace {

template <class T>
std::vector<Exact> exact_attention(const AttentionProblem<T> &problem, std::size_t head, std::size_t i) {
  const AttentionShape &shape = problem.shape;
  const std::size_t first = shape.first_key(i), keys = shape.last_key(i) - first;
  const Exact scale = 1 / std::sqrt(Exact(shape.qk_dim)), softcap = shape.softcap;
  const std::size_t kv_row = head / shape.group() * shape.kv_len + first;
  const T *q = problem.q + (head * shape.q_len + i) * shape.qk_dim;
  std::vector<Exact> weights(keys);
  for (std::size_t j = 0; j < keys; ++j) {
    const T *k = problem.k + (kv_row + j) * shape.qk_dim;
    weights[j] = scale * sum_of(0, shape.qk_dim, [&](std::size_t d) { return Exact(q[d]) * k[d]; });
    if (softcap != 0) weights[j] = softcap * std::tanh(weights[j] / softcap);
  }
  const Exact max = *std::max_element(weights.begin(), weights.end());
  for (Exact &weight : weights) weight = std::exp(weight - max);
  Exact sum = sum_of(0, keys, [&](std::size_t j) { return weights[j]; });
  if (problem.sinks) sum += std::exp(problem.sinks[head] - max);
  std::vector<Exact> out(shape.v_dim, 0);
  for (std::size_t j = 0; j < keys; ++j) {
    const T *v = problem.v + (kv_row + j) * shape.v_dim;
    for (std::size_t d = 0; d < shape.v_dim; ++d) out[d] += weights[j] * v[d];
  }
  for (Exact &one : out) one /= sum;
  return out;
}

// The last queries of every head, with what the timed shapes have: causality, a window, a softcap, sinks,
// heads that share their keys.
template <class T>
struct AttentionSample {
  AttentionBuffers<T> buffers;
  std::size_t first;                      // of the queries
  std::vector<std::vector<Exact>> exact;  // the outputs of a head's, then the next one's
  Exact largest_value;
};

template <class T>
const std::vector<AttentionSample<T>> &attention_samples() {
  static const std::vector<AttentionSample<T>> all = [] {
    std::vector<AttentionSample<T>> made;
    const auto add = [&made](const AttentionShape &shape, bool with_sinks) {
      constexpr std::size_t most = 16;
      AttentionSample<T> sample = {AttentionBuffers<T>(shape, with_sinks), 0, {}, 0};
      sample.first = shape.q_len > most ? shape.q_len - most : 0;
      const AttentionProblem<T> problem = sample.buffers.problem();
      for (std::size_t head = 0; head < shape.q_heads; ++head) {
        for (std::size_t i = sample.first; i < shape.q_len; ++i) {
          sample.exact.push_back(exact_attention(problem, head, i));
        }
      }
      for (std::size_t j = 0; j < shape.kv_heads * shape.kv_len * shape.v_dim; ++j) {
        sample.largest_value = std::max(sample.largest_value, std::fabs(Exact(problem.v[j])));
      }
      made.push_back(std::move(sample));
    };
    add({.q_len = 100, .kv_len = 100, .qk_dim = 64, .v_dim = 64, .causal = true}, false);
    add({.q_len = 150,
         .kv_len = 1000,
         .qk_dim = 64,
         .v_dim = 64,
         .causal = true,
         .window = 200,
         .softcap = 50},
        false);
    add({.q_heads = 4, .kv_heads = 2, .q_len = 1, .kv_len = 4096, .qk_dim = 64, .v_dim = 48, .causal = true},
        true);
    add({.q_heads = 2, .kv_heads = 2, .q_len = 1, .kv_len = 500, .qk_dim = 64, .v_dim = 64, .causal = true},
        false);
    return made;
  }();
  return all;
}

}  // namespace

template <class T>
double attention_error(Attention<T> attention) {
  double worst = 0;
  for (const AttentionSample<T> &sample : attention_samples<T>()) {
    const AttentionProblem<T> problem = sample.buffers.problem();
    attention(problem);
    const std::size_t rows = problem.shape.q_len - sample.first, dim = problem.shape.v_dim;
    worst = std::max(worst, worst_of(sample.exact.size() * dim, [&](std::size_t at) {
                       const std::size_t row = at / dim, head = row / rows;
                       const std::size_t query = head * problem.shape.q_len + sample.first + row % rows;
                       return std::fabs(problem.out[query * dim + at % dim] - sample.exact[row][at % dim]) /
                              (sample.largest_value * unit<T>);
                     }));
  }
  return worst;
}

#define RAPT_INSTANTIATE(T)                               \
  template double exp_error<T>(Exp<T>);                   \
  template double exp_sum_error<T>(ExpSum<T>);            \
  template double scale_error<T>(Scale<T>);               \
  template double dot_error<T>(Dot<T>);                   \
  template double dot_rows_error<T>(DotRows<T>);          \
  template double softmax_error<T>(RowsFunction<T>);      \
  template double log_softmax_error<T>(RowsFunction<T>);  \
  template double logsumexp_error<T>(RowsFunction<T>);    \
  template double softmax_backward_error<T>(Backward<T>); \
  template double attention_error<T>(Attention<T>);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::bench
