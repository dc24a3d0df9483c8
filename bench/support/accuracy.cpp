// Measures errors using rapt-validate's functions and the tests' oracle, which computes exact results.
#include "support/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "calls/norm_truth.hpp"
#include "oracle/attention_backward.hpp"
#include "support/attention.hpp"
#include "support/attention_accuracy.hpp"
#include "support/attention_backward.hpp"
#include "support/buffer.hpp"
#include "validate/accuracy_vectors.hpp"

namespace rapt::bench {
namespace {

using validate::Real, validate::unit;

// Keeps the largest error so far. The value is NaN once an error is NaN.
class Worst {
 public:
  void add(double error) {
    if (!(error <= worst_) && !std::isnan(worst_)) worst_ = error;
  }
  double value() const { return worst_; }

 private:
  double worst_ = 0;
};

// Returns the logits that are timed, and a sweep over inputs for which exp returns normal numbers. The sweep
// leaves out the outermost 1 % on both sides.
template <class T>
const std::vector<T> &exp_inputs() {
  static const std::vector<T> inputs = [] {
    std::vector<T> x;
    for (const double logit : logit_period()) x.push_back(static_cast<T>(logit));
    const Real low = std::log(Real(std::numeric_limits<T>::min())) * Real(0.99);
    const Real high = std::log(Real(std::numeric_limits<T>::max())) * Real(0.99);
    constexpr std::size_t steps = 65536;
    for (std::size_t i = 0; i <= steps; ++i) {
      x.push_back(static_cast<T>(low + (high - low) * static_cast<Real>(i) / steps));
    }
    return x;
  }();
  return inputs;
}

// Only the last queries of each head are checked, because the oracle takes a second for about 100 000 keys.
constexpr std::size_t judged_queries = 16;

template <class T>
test::oracle::Attention<T> oracle_of(const AttentionProblem<T> &problem) {
  const AttentionShape &shape = problem.shape;
  test::oracle::Attention<T> a;
  a.q_heads = shape.q_heads;
  a.kv_heads = shape.kv_heads;
  a.q_len = shape.q_len;
  a.kv_len = shape.kv_len;
  a.qk_dim = shape.qk_dim;
  a.v_dim = shape.v_dim;
  a.q.assign(problem.q, problem.q + shape.q_heads * shape.q_len * shape.qk_dim);
  a.k.assign(problem.k, problem.k + shape.kv_heads * shape.kv_len * shape.qk_dim);
  a.v.assign(problem.v, problem.v + shape.kv_heads * shape.kv_len * shape.v_dim);
  if (problem.sinks) a.sinks.assign(problem.sinks, problem.sinks + shape.q_heads);
  a.softcap = shape.softcap;
  if (shape.causal) a.causal = test::oracle::Causal::bottom_right;
  if (shape.window > 0) a.window_left = static_cast<std::ptrdiff_t>(shape.window) - 1;
  return a;
}

// Returns samples with all options of the timed shapes: causality, a window, a softcap, sinks, shared keys.
template <class T>
std::vector<AttentionBuffers<T>> attention_samples() {
  AttentionShape window = prompt_shape(1, 1, 1000, 64, 64, true);
  window.q_len = 150;
  window.window = 200;
  window.softcap = 50;
  std::vector<AttentionBuffers<T>> samples;
  samples.emplace_back(prompt_shape(1, 1, 100, 64, 64, true));
  samples.emplace_back(window);
  samples.emplace_back(token_shape(4, 2, 4096, 64, 48), true);
  samples.emplace_back(token_shape(2, 2, 500, 64, 64));
  return samples;
}

template <class T>
void add_errors(Worst &worst, const T *got, const std::vector<test::oracle::Sum> &exact) {
  Real largest = 0;
  for (const auto &one : exact) largest = std::max(largest, std::fabs(one.value));
  for (std::size_t i = 0; i < exact.size(); ++i) {
    worst.add(validate::as_double(std::fabs(got[i] - exact[i].value) / largest) / unit<T>);
  }
}

// Holds logits rounded to Element, and the same numbers in f32. Logits for bytes are 16 times as large.
template <class Element>
struct NarrowNumbers {
  NarrowNumbers(std::size_t count, std::size_t seed) : widened(logits<float>(count, 0, seed)), stored(count) {
    for (std::size_t i = 0; i < count; ++i) {
      float &number = widened.data()[i];
      if constexpr (std::is_integral_v<Element>) {
        stored.data()[i] = static_cast<Element>(std::clamp(16 * number, -128.0f, 127.0f));
        number = stored.data()[i];
      } else {
        const Element element(number);
        stored.data()[i] = element.bits();
        number = element;
      }
    }
  }
  std::span<const float> numbers(std::size_t first, std::size_t count) const {
    return {widened.data() + first, count};
  }

  Buffer<float> widened;
  Buffer<Stored<Element>> stored;
};

}  // namespace

template <class T, class Accuracy>
double map_error(Exp<T> map) {
  const std::vector<T> &x = exp_inputs<T>();
  std::vector<T> y(x.size());
  map(x.data(), y.data(), x.size());
  Worst worst;
  for (std::size_t i = 0; i < x.size(); ++i) worst.add(Accuracy::error(x[i], y[i]));
  return worst.value();
}
template <class T>
double exp_error(Exp<T> exp) {
  return map_error<T, validate::ExpAccuracy<T>>(exp);
}
template <class T>
double silu_error(Exp<T> silu) {
  return map_error<T, validate::SiluAccuracy<T>>(silu);
}
template <class T>
double gelu_error(Exp<T> gelu) {
  return map_error<T, validate::GeluAccuracy<T>>(gelu);
}
template <class T>
double gelu_tanh_error(Exp<T> gelu_tanh) {
  return map_error<T, validate::GeluTanhAccuracy<T>>(gelu_tanh);
}

template <class T>
double gated_error(TwoToOne<T> gated) {
  const std::vector<T> &x = exp_inputs<T>(), up(x.size(), T(1) / 3);
  std::vector<T> y(x.size());
  gated(x.data(), up.data(), y.data(), x.size());
  const validate::ChosenActivation silu(0);
  Worst worst;
  for (std::size_t i = 0; i < x.size(); ++i) {
    worst.add(validate::GatedAccuracy<T>::error(silu, Real{x[i]}, Real{up[i]}, Real{y[i]}));
  }
  return worst.value();
}

template <class T>
double argmax_error(Argmax<T> argmax) {
  const Buffer<T> x = logits<T>(1000);
  const T *const largest = std::max_element(x.data(), x.data() + x.size());
  return argmax(x.data(), x.size()) == static_cast<std::size_t>(largest - x.data()) ? 0 : INFINITY;
}

template <class T>
double scale_error(Scale<T> scale) {
  constexpr T factor = T(1) / 3;
  const std::vector<T> &x = exp_inputs<T>();
  std::vector<T> y(x.size());
  scale(x.data(), factor, y.data(), x.size());
  Worst worst;
  for (std::size_t i = 0; i < x.size(); ++i) worst.add(validate::ulps<T>(Real{x[i]} * Real{factor}, y[i]));
  return worst.value();
}

template <class T>
double dot_error(Dot<T> dot) {
  const Buffer<T> a = logits<T>(65536, 0, 0), b = logits<T>(65536, 0, 1);
  Worst worst;
  for (const std::size_t n : Sizes{1, 8, 31, 100, 768, 4096, 65536}) {
    for (std::size_t k = 0; k < std::min<std::size_t>(a.size() / n, 32); ++k) {
      const std::span<const T> left(a.data() + k * n, n), right(b.data() + k * n, n);
      worst.add(validate::DotAccuracy<T>::error(left, right, 1, dot(left.data(), right.data(), n)));
    }
  }
  return worst.value();
}

template <class T>
double dot_rows_error(RowsProduct<T> dot_rows) {
  constexpr std::size_t rows = 64;
  constexpr T scale = T(0.125);
  Worst worst;
  for (const std::size_t dim : Sizes{64, 128, 768}) {
    const Buffer<T> query = logits<T>(dim, 0, 0), matrix = logits<T>(rows * dim, 0, 1), out(rows);
    PackedCopies copies;
    dot_rows(query.data(), matrix.data(), rows, dim, scale, out.data(), copies);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::span<const T> left(query.data(), dim), right(matrix.data() + r * dim, dim);
      worst.add(validate::DotAccuracy<T>::error(left, right, scale, out.data()[r]));
    }
  }
  return worst.value();
}

template <class Element>
double narrow_dot_error(NarrowDot<Element> dot) {
  const NarrowNumbers<Element> a(65536, 0), b(65536, 1);
  Worst worst;
  for (const std::size_t n : Sizes{1, 8, 31, 100, 768, 4096, 65536}) {
    for (std::size_t first = 0; first + n <= std::min<std::size_t>(a.stored.size(), 32 * n); first += n) {
      const Real got = static_cast<Real>(dot(a.stored.data() + first, b.stored.data() + first, n));
      worst.add(validate::DotAccuracy<float>::error(a.numbers(first, n), b.numbers(first, n), 1, got));
    }
  }
  return worst.value();
}

template <class Element>
double narrow_dot_rows_error(RowsProduct<Stored<Element>, float> dot_rows) {
  constexpr std::size_t rows = 64;
  constexpr float scale = 0.125f;
  Worst worst;
  for (const std::size_t dim : Sizes{64, 128, 768}) {
    const NarrowNumbers<Element> query(dim, 0), matrix(rows * dim, 1);
    const Buffer<float> out(rows);
    PackedCopies copies;
    dot_rows(query.stored.data(), matrix.stored.data(), rows, dim, scale, out.data(), copies);
    for (std::size_t r = 0; r < rows; ++r) {
      worst.add(validate::DotAccuracy<float>::error(query.numbers(0, dim), matrix.numbers(r * dim, dim),
                                                    scale, out.data()[r]));
    }
  }
  return worst.value();
}

template <class Kind>
double linear_error(LinearProduct<typename Kind::Element> product) {
  using Number = typename Kind::Number;
  using T = std::conditional_t<std::is_same_v<Number, double>, double, float>;
  const auto widened = [](const typename Kind::Element *elements, std::size_t count) {
    std::vector<T> numbers(count);
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (std::is_floating_point_v<Number>) {
        numbers[i] = elements[i];
      } else {
        numbers[i] = Number::of_bits(elements[i]);
      }
    }
    return numbers;
  };
  Worst worst;
  for (const LinearShape &s : {LinearShape{1, 64, 4096}, LinearShape{40, 64, 768}}) {
    LinearLayer<Kind> layer(s);
    layer(product);
    const std::vector<T> x = widened(layer.x(), s.rows * s.inputs),
                         w = widened(layer.w(), s.outputs * s.inputs);
    const std::vector<T> y = widened(layer.y(), s.rows * s.outputs);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const std::span<const T> left(x.data() + i / s.outputs * s.inputs, s.inputs);
      const std::span<const T> right(w.data() + i % s.outputs * s.inputs, s.inputs);
      worst.add(validate::DotAccuracy<T>::error(left, right, 1, y[i]));
    }
  }
  return worst.value();
}

template <rapt_arithmetic arithmetic>
double quantized_linear_error(QuantizedProduct product) {
  Worst worst;
  for (const rapt_type type : {RAPT_I8, RAPT_I4}) {
    QuantizedLayer layer({{4, 64, 768}, type, 32, arithmetic});
    layer(product);
    const LinearShape &s = layer.shape();
    for (std::size_t i = 0; i < s.rows * s.outputs; ++i) {
      const std::span<const float> x(layer.x() + i / s.outputs * s.inputs, s.inputs);
      const std::span<const float> w(layer.w() + i % s.outputs * s.inputs, s.inputs);
      worst.add(validate::DotAccuracy<float>::error(x, w, 1, layer.y()[i]));
    }
  }
  return worst.value();
}

template <class T>
double softmax_error(RowsFunction<T> softmax) {
  Worst worst;
  for (const std::size_t cols : Sizes{8, 64, 1000, 4096, 50257}) {
    const std::size_t rows = std::max<std::size_t>(1, 8192 / cols);
    const Buffer<T> x = logits<T>(rows * cols), y(rows * cols);
    softmax(x.data(), y.data(), rows, cols, T(1));
    for (std::size_t first = 0; first < y.size(); first += cols) {
      validate::Sum sum;
      for (std::size_t c = first; c < first + cols; ++c) sum.add(std::exp(Real(x.data()[c])));
      for (std::size_t c = first; c < first + cols; ++c) {
        const Real exact = std::exp(Real(x.data()[c])) / sum.value();
        worst.add(validate::as_double(std::fabs(y.data()[c] / exact - 1)) / unit<T>);
      }
    }
  }
  return worst.value();
}

template <class T>
double norm_error(Norm<T> norm, bool is_layer) {
  Worst worst;
  for (const std::size_t cols : Sizes{64, 4096}) {
    const Buffer<T> x = logits<T>(cols), w = logits<T>(cols, 0, 1), b = logits<T>(cols, 0, 2), y(cols);
    norm(x.data(), w.data(), is_layer ? b.data() : nullptr, y.data(), 1, cols);
    const validate::NormRow<T> row({x.elements().begin(), x.elements().end()}, norm_eps, is_layer);
    for (std::size_t i = 0; i < cols; ++i) {
      const Real product = row.t(i) * w.data()[i], shift = is_layer ? b.data()[i] : Real{0};
      const Real off = std::fabs(y.data()[i] - product - shift) / (std::fabs(product) + std::fabs(shift));
      worst.add(validate::as_double(off) / unit<T>);
    }
  }
  return worst.value();
}

template <class T>
double attention_error(Attention<T> attention) {
  Worst worst;
  for (const AttentionBuffers<T> &sample : attention_samples<T>()) {
    const AttentionProblem<T> problem = sample.problem();
    attention(problem);
    worst.add(attention_output_error(problem));
  }
  return worst.value();
}

template <class T>
double attention_output_error(const AttentionProblem<T> &problem) {
  Worst worst;
  const test::oracle::Attention<T> a = oracle_of(problem);
  for (std::size_t h = 0; h < a.q_heads; ++h) {
    for (std::size_t i = a.q_len - std::min(a.q_len, judged_queries); i < a.q_len; ++i) {
      const std::span<const T> out(problem.out + a.row({}, 0, h, i) * a.v_dim, a.v_dim);
      worst.add(test::attention_errors<T>(test::oracle::attention_truth(a, 0, h, i), out, T(0)).out);
    }
  }
  return worst.value();
}

template <class T>
double attention_backward_error(AttentionBackward<T> backward) {
  const AttentionGradientBuffers<T> buffers(prompt_shape(1, 1, 100, 64, 64, true));
  const AttentionGradientProblem<T> problem = buffers.problem();
  backward(problem);
  const test::oracle::Attention<T> a = oracle_of(problem.forward);
  const std::vector<T> dout(problem.dout, problem.dout + a.q_heads * a.q_len * a.v_dim);
  const auto no_bounds = [](test::oracle::RowTruth) { return test::oracle::RowUnits{0, 0}; };
  const test::oracle::GradientTruth truth = test::oracle::gradient_truth(a, dout, no_bounds);
  Worst worst;
  add_errors(worst, problem.dq, truth.dq);
  add_errors(worst, problem.dk, truth.dk);
  add_errors(worst, problem.dv, truth.dv);
  return worst.value();
}

#define RAPT_INSTANTIATE(T)                                               \
  template double exp_error<T>(Exp<T>);                                   \
  template double silu_error<T>(Exp<T>);                                  \
  template double gelu_error<T>(Exp<T>);                                  \
  template double gelu_tanh_error<T>(Exp<T>);                             \
  template double gated_error<T>(TwoToOne<T>);                            \
  template double argmax_error<T>(Argmax<T>);                             \
  template double scale_error<T>(Scale<T>);                               \
  template double dot_error<T>(Dot<T>);                                   \
  template double dot_rows_error<T>(RowsProduct<T>);                      \
  template double softmax_error<T>(RowsFunction<T>);                      \
  template double norm_error<T>(Norm<T>, bool);                           \
  template double attention_error<T>(Attention<T>);                       \
  template double attention_output_error<T>(const AttentionProblem<T> &); \
  template double attention_backward_error<T>(AttentionBackward<T>);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

template double linear_error<LinearF32>(LinearProduct<float>);
template double linear_error<LinearF64>(LinearProduct<double>);
template double linear_error<LinearF16>(LinearProduct<std::uint16_t>);
template double linear_error<LinearBF16>(LinearProduct<std::uint16_t>);
template double linear_error<LinearInBF16>(LinearProduct<std::uint16_t>);
template double quantized_linear_error<RAPT_ARITHMETIC_F32>(QuantizedProduct);
template double quantized_linear_error<RAPT_ARITHMETIC_I8>(QuantizedProduct);

#define RAPT_INSTANTIATE(Element)                                \
  template double narrow_dot_error<Element>(NarrowDot<Element>); \
  template double narrow_dot_rows_error<Element>(RowsProduct<Stored<Element>, float>);
RAPT_INSTANTIATE(test::F16)
RAPT_INSTANTIATE(test::BF16)
RAPT_INSTANTIATE(std::int8_t)
#undef RAPT_INSTANTIATE

}  // namespace rapt::bench
