// Adds Eigen as a peer, in the style of its documentation: maps over the caller's memory, array expressions,
// products of matrices and vectors.
#include <Eigen/Core>
#include <algorithm>
#include <cstddef>

#include "attention_by_products.hpp"
#include "compiler.hpp"
#include "peer.hpp"

namespace {

template <class T>
using ConstVector = Eigen::Map<const Eigen::Vector<T, Eigen::Dynamic>>;
template <class T>
using Vector = Eigen::Map<Eigen::Vector<T, Eigen::Dynamic>>;
template <class T>
using ConstRows = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>,
                             Eigen::Unaligned, Eigen::OuterStride<>>;

template <class T>
using Rows = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, Eigen::Unaligned,
                        Eigen::OuterStride<>>;

Eigen::Index index(std::size_t n) { return static_cast<Eigen::Index>(n); }

template <class T>
T dot(const T *a, const T *b, std::size_t n) {
  return ConstVector<T>(a, index(n)).dot(ConstVector<T>(b, index(n)));
}

template <class T>
void dot_rows(const T *query, const T *rows, std::ptrdiff_t row_stride, std::size_t row_count,
              std::size_t dim, T scale, T *out) {
  Vector<T>(out, index(row_count)).noalias() =
      scale * (ConstRows<T>(rows, index(row_count), index(dim), Eigen::OuterStride<>(row_stride)) *
               ConstVector<T>(query, index(dim)));
}

template <class T>
void scale(const T *x, T factor, T *y, std::size_t n) {
  Vector<T>(y, index(n)) = factor * ConstVector<T>(x, index(n));
}

template <class T>
void exp(const T *x, T *y, std::size_t n) {
  Vector<T>(y, index(n)).array() = ConstVector<T>(x, index(n)).array().exp();
}

template <class T>
void silu(const T *x, T *y, std::size_t n) {
  const auto v = ConstVector<T>(x, index(n)).array();
  Vector<T>(y, index(n)).array() = v * v.logistic();
}

template <class T>
void gated(const T *gate, const T *up, T *y, std::size_t n) {
  const auto v = ConstVector<T>(gate, index(n)).array();
  Vector<T>(y, index(n)).array() = v * v.logistic() * ConstVector<T>(up, index(n)).array();
}

template <class T>
std::size_t argmax(const T *x, std::size_t n) {
  Eigen::Index at = 0;
  ConstVector<T>(x, index(n)).maxCoeff(&at);
  return static_cast<std::size_t>(at);
}

template <class T>
void gelu_tanh(const T *x, T *y, std::size_t n) {
  const auto v = ConstVector<T>(x, index(n)).array();
  Vector<T>(y, index(n)).array() =
      T(0.5) * v * (1 + (T(0.7978845608028654) * (v + T(0.044715) * v * v * v)).tanh());
}

template <class T>
void rms_norm(const T *x, const T *weight, const T *, T *y, std::size_t rows, std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols) {
    const ConstVector<T> row(x, index(cols));
    const T root =
        1 / std::sqrt(row.squaredNorm() / static_cast<T>(cols) + static_cast<T>(rapt::bench::norm_eps));
    Vector<T>(y, index(cols)).array() = row.array() * root * ConstVector<T>(weight, index(cols)).array();
  }
}

template <class T>
void layer_norm(const T *x, const T *weight, const T *bias, T *y, std::size_t rows, std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols) {
    const auto row = ConstVector<T>(x, index(cols)).array();
    const T mean = row.mean();
    const T root = 1 / std::sqrt((row - mean).square().mean() + static_cast<T>(rapt::bench::norm_eps));
    Vector<T>(y, index(cols)).array() = (row - mean) * root * ConstVector<T>(weight, index(cols)).array() +
                                        ConstVector<T>(bias, index(cols)).array();
  }
}

template <class T>
void sums(const T *x, T *y, std::size_t rows, std::size_t cols, bool of_columns) {
  const Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>> matrix(
      x, index(rows), index(cols));
  if (of_columns) {
    Vector<T>(y, index(cols)) = matrix.colwise().sum().transpose();
  } else {
    Vector<T>(y, index(rows)) = matrix.rowwise().sum();
  }
}

template <class T>
void softmax(const T *x, T *y, std::size_t rows, std::size_t cols, T scale) {
  if (cols == 0) return;
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols) {
    const auto scaled = scale * ConstVector<T>(x, index(cols)).array();
    auto out = Vector<T>(y, index(cols)).array();
    out = (scaled - scaled.maxCoeff()).exp();
    out *= 1 / out.sum();
  }
}

template <class T>
T attention_weights(T *s, std::size_t begin, std::size_t end, std::size_t cols, T softcap, const T *sink) {
  auto seen = Vector<T>(s + begin, index(end - begin)).array();
  if (softcap != 0) seen = softcap - 2 * softcap / ((2 / softcap * seen).exp() + 1);
  T max = seen.maxCoeff();
  if (sink) max = std::max(max, *sink);
  seen = (seen - max).exp();
  std::fill_n(s, begin, T(0));
  std::fill(s + end, s + cols, T(0));
  return seen.sum() + (sink ? std::exp(*sink - max) : T(0));
}

// Multiplies a single row as a vector, because a matrix product would take longer.
template <class T>
struct Products {
  // A causal strip wastes half of its products on the diagonal, so causal strips have fewer rows.
  std::size_t most_rows(const rapt::bench::AttentionShape &shape) const {
    return shape.causal ? rapt::bench::attention_score_rows / 2 : rapt::bench::attention_score_rows;
  }
  void scores(const T *q, std::size_t rows, std::size_t q_stride, const T *k, std::size_t keys,
              std::size_t dim, T scale, T *s, std::size_t s_stride) const {
    const ConstRows<T> all_keys(k, index(keys), index(dim), Eigen::OuterStride<>(index(dim)));
    if (rows == 1) {
      Vector<T>(s, index(keys)).noalias() = scale * (all_keys * ConstVector<T>(q, index(dim)));
      return;
    }
    Rows<T>(s, index(rows), index(keys), Eigen::OuterStride<>(index(s_stride))).noalias() =
        scale * (ConstRows<T>(q, index(rows), index(dim), Eigen::OuterStride<>(index(q_stride))) *
                 all_keys.transpose());
  }
  void values(const T *s, std::size_t rows, std::size_t s_stride, const T *v, std::size_t keys,
              std::size_t dim, T *out, std::size_t out_stride) const {
    const ConstRows<T> all_values(v, index(keys), index(dim), Eigen::OuterStride<>(index(dim)));
    if (rows == 1) {
      Vector<T>(out, index(dim)).noalias() = all_values.transpose() * ConstVector<T>(s, index(keys));
      return;
    }
    Rows<T>(out, index(rows), index(dim), Eigen::OuterStride<>(index(out_stride))).noalias() =
        ConstRows<T>(s, index(rows), index(keys), Eigen::OuterStride<>(index(s_stride))) * all_values;
  }
  void add_transposed(const T *s, std::size_t rows, std::size_t s_stride, const T *x, std::size_t keys,
                      std::size_t dim, T *out) const {
    Rows<T>(out, index(keys), index(dim), Eigen::OuterStride<>(index(dim))).noalias() +=
        ConstRows<T>(s, index(rows), index(keys), Eigen::OuterStride<>(index(s_stride))).transpose() *
        ConstRows<T>(x, index(rows), index(dim), Eigen::OuterStride<>(index(dim)));
  }
};

template <class T>
void linear(const T *x, const T *w, T *y, const rapt::bench::LinearShape &s) {
  Products<T>().scores(x, s.rows, s.inputs, w, s.outputs, s.inputs, T(1), y, s.outputs);
}

template <class T>
void attention(const rapt::bench::AttentionProblem<T> &problem) {
  rapt::bench::attention_by_products<T>(problem, attention_weights<T>, Products<T>());
}

template <class T>
void attention_backward(const rapt::bench::AttentionGradientProblem<T> &problem) {
  rapt::bench::attention_gradient_by_products<T>(problem, attention_weights<T>, Products<T>());
}

// Levels that add byte products or tiles have the products of the weaker level, which are timed there.
#if defined(RAPT_PEER_LEVEL_avx2) || defined(RAPT_PEER_LEVEL_avx512) || defined(RAPT_PEER_LEVEL_neon)
constexpr bool has_own_products = true;
#else
constexpr bool has_own_products = false;
#endif

template <class T, class F>
void map(const T *a, const T *b, T *y, std::size_t n, F f) {
  Vector<T>(y, index(n)).array() =
      f(ConstVector<T>(a, index(n)).array(), ConstVector<T>(b, index(n)).array());
}
#define RAPT_MAP(number, expression)                                                             \
  case number:                                                                                   \
    return [](const T *a, const T *b, T *y, std::size_t n) {                                     \
      map(a, b, y, n, [](const auto &x, [[maybe_unused]] const auto &z) { return expression; }); \
    };
template <class T>
rapt::bench::TwoToOne<T> map_of(rapt_map_function function) {
  switch (function) {
    RAPT_MAP(RAPT_MAP_EXPM1, x.expm1())
    RAPT_MAP(RAPT_MAP_LOG, x.log())
    RAPT_MAP(RAPT_MAP_LOG1P, x.log1p())
    RAPT_MAP(RAPT_MAP_SIN, x.sin())
    RAPT_MAP(RAPT_MAP_COS, x.cos())
    RAPT_MAP(RAPT_MAP_TAN, x.tan())
    RAPT_MAP(RAPT_MAP_TANH, x.tanh())
    RAPT_MAP(RAPT_MAP_SIGMOID, x.logistic())
    RAPT_MAP(RAPT_MAP_SQRT, x.sqrt())
    RAPT_MAP(RAPT_MAP_ADD, x + z)
    default:
      return nullptr;
  }
}
#undef RAPT_MAP

template <class T>
void fill(rapt::bench::PeerFunctions<T> &functions) {
  functions.dot = dot<T>;
  functions.dot_rows = dot_rows<T>;
  if (has_own_products) functions.linear.plain = linear<T>;
  functions.scale = scale<T>;
  functions.exp = exp<T>;
  functions.silu = silu<T>;
  functions.gated = gated<T>;
  functions.map = map_of<T>;
  functions.argmax = argmax<T>;
  functions.gelu_tanh = gelu_tanh<T>;
  functions.rms_norm = rms_norm<T>;
  functions.layer_norm = layer_norm<T>;
  functions.sums = sums<T>;
  functions.softmax = softmax<T>;
  functions.attention = attention<T>;
  functions.attention_backward = attention_backward<T>;
  functions.attention_weights = attention_weights<T>;
}

}  // namespace

extern "C" const char *RAPT_PEER_ENTRY(rapt::bench::Peer &peer) {
  fill(peer.f32);
  fill(peer.f64);
  return RAPT_PEER_TEXT(EIGEN_WORLD_VERSION) "." RAPT_PEER_TEXT(EIGEN_MAJOR_VERSION) "." RAPT_PEER_TEXT(
      EIGEN_MINOR_VERSION);
}
