// Measures the error of linear layers: what the arithmetic costs on random data, and what quantized weights and
// inputs cost. src/manual/accuracy.md and rapt.h have these numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "oracle/bounds.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

// A published number may be above a measured one by this much.
constexpr double slack = 1.3;

// Checks that the number is measured, and not much more than that.
void check_published(const std::string &what, double measured, double published) {
  std::printf("%-48s measured %.3g, published %.3g\n", what.c_str(), measured, published);
  CAPTURE(what);
  CHECK(measured <= published);
  CHECK(measured * slack >= published);
}

template <class X, class W>
std::vector<double> run(const X *x, const W *w, rapt_linear_options o) {
  using Y = std::conditional_t<std::is_same_v<X, double>, double, float>;
  o.y_type = Api<Y>::type;
  std::size_t bytes = 0;
  REQUIRE(rapt_linear_workspace(&o, &bytes) == RAPT_OK);
  std::vector<unsigned char> workspace(bytes);
  std::vector<Y> y(o.rows * o.out_features);
  REQUIRE(rapt_linear(x, w, y.data(), &o, workspace.data(), bytes) == RAPT_OK);
  return {y.begin(), y.end()};
}

// ---- the arithmetic

struct Shape {
  std::size_t rows, inputs, outputs;
};
constexpr Shape shapes[] = {{40, 1, 40},    {40, 30, 40},   {40, 512, 40}, {20, 1100, 40},
                            {16, 4096, 32}, {6, 14336, 20}, {3, 65536, 10}};

// Returns the largest error of random layers, in units relative to the sum of |x w|.
template <class E>
double largest_error(rapt_arithmetic arithmetic) {
  using A = Number<E>;
  double largest = 0;
  for (const bool is_positive : {false, true}) {
    Random random(21);
    const auto draw = [&](std::size_t count) {
      std::vector<E> made(count);
      for (E &number : made) number = E(is_positive ? random.uniform() : random.gaussian());
      return made;
    };
    for (const auto &[rows, inputs, outputs] : shapes) {
      const std::vector<E> x = draw(rows * inputs), w = draw(outputs * inputs);
      rapt_linear_options o{};
      o.size = sizeof o;
      o.x_type = Api<E>::type;
      o.arithmetic = arithmetic;
      o.rows = rows;
      o.in_features = inputs;
      o.out_features = outputs;
      const std::vector<double> y = run(x.data(), w.data(), o);
      for (std::size_t i = 0; i < y.size(); ++i) {
        const E *const row = x.data() + i / outputs * inputs, *const weights =
                                                                  w.data() + i % outputs * inputs;
        long double sum = 0, magnitudes = 0;
        for (std::size_t k = 0; k < inputs; ++k) {
          const long double product =
              static_cast<long double>(A(row[k])) * static_cast<long double>(A(weights[k]));
          sum += product;
          magnitudes += std::fabs(product);
        }
        const long double error = std::fabs(static_cast<long double>(y[i]) - sum) / magnitudes;
        largest = std::max(largest, static_cast<double>(error) / unit_of<A>);
      }
    }
  }
  return largest;
}

TEST_CASE("random layers err by a few units") {
  check_published("f32", largest_error<float>(RAPT_ARITHMETIC_DEFAULT), 20);
  check_published("f16", largest_error<F16>(RAPT_ARITHMETIC_DEFAULT), 20);
  CHECK(largest_error<BF16>(RAPT_ARITHMETIC_F32) <= 20);  // many products are exact
  check_published("bf16", largest_error<BF16>(RAPT_ARITHMETIC_BF16), 25);
  if (std::numeric_limits<long double>::digits > 60)
    check_published("f64", largest_error<double>(RAPT_ARITHMETIC_DEFAULT), 20);
}

// ---- the rounding of weights and inputs

struct Numbers {
  Shape shape;
  std::vector<float> x, w;
};
Numbers normal_numbers(const Shape &shape) {
  Random random(22);
  const auto draw = [&](std::size_t count) {
    std::vector<float> made(count);
    for (float &number : made) number = static_cast<float>(random.gaussian());
    return made;
  };
  return {shape, draw(shape.rows * shape.inputs), draw(shape.outputs * shape.inputs)};
}

// Calls dot(row of x, row of w) for each output.
template <class Dot>
std::vector<double> outputs_of(const Shape &shape, const std::vector<float> &x, const std::vector<float> &w,
                               Dot &&dot) {
  std::vector<double> y;
  for (std::size_t i = 0; i < shape.rows * shape.outputs; ++i) {
    y.push_back(
        dot(x.data() + i / shape.outputs * shape.inputs, w.data() + i % shape.outputs * shape.inputs));
  }
  return y;
}
std::vector<double> exact(const Shape &shape, const std::vector<float> &x, const std::vector<float> &w) {
  return outputs_of(shape, x, w, [&](const float *row, const float *weights) {
    double sum = 0;
    for (std::size_t k = 0; k < shape.inputs; ++k) sum += double{row[k]} * double{weights[k]};
    return sum;
  });
}

double relative_rms(const std::vector<double> &got, const std::vector<double> &wanted) {
  double errors = 0, squares = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    errors += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    squares += wanted[i] * wanted[i];
  }
  return std::sqrt(errors / squares);
}

rapt_linear_options options_of(const Shape &shape) {
  rapt_linear_options o{};
  o.size = sizeof o;
  o.rows = shape.rows;
  o.in_features = shape.inputs;
  o.out_features = shape.outputs;
  return o;
}

TEST_CASE("a chain errs more than groups of 512") {
  struct Row {
    Shape shape;
    double chain, groups;  // as in linear_layers.md
  };
  constexpr Row rows[] = {
      {{32, 4096, 32}, 1.3e-6, 4.2e-7}, {{16, 14336, 32}, 2.1e-6, 4.3e-7}, {{16, 65536, 16}, 5.0e-6, 4.6e-7}};
  for (const Row &row : rows) {
    const Shape &shape = row.shape;
    const Numbers made = normal_numbers(shape);
    const std::vector<double> wanted = exact(shape, made.x, made.w);
    const std::string name = std::to_string(shape.inputs) + " inputs";
    const std::vector<double> chains = outputs_of(shape, made.x, made.w, [&](const float *x, const float *w) {
      float sum = 0;
      for (std::size_t k = 0; k < shape.inputs; ++k) sum = std::fma(x[k], w[k], sum);
      return double{sum};
    });
    check_published(name + ", one chain", relative_rms(chains, wanted), row.chain);
    const std::vector<double> got = run(made.x.data(), made.w.data(), options_of(shape));
    check_published(name + ", groups of 512", relative_rms(got, wanted), row.groups);
  }
}

constexpr Shape quantized_shape = {32, 4096, 64};

// Weights rounded by rapt_quantize_rows.
struct QuantizedLayer {
  std::vector<unsigned char> q;
  std::vector<float> scales, numbers;
  rapt_linear_options options = options_of(quantized_shape);

  QuantizedLayer(const std::vector<float> &w, rapt_type type, std::size_t group)
      : q(w.size()), scales(w.size()), numbers(w.size()) {
    REQUIRE(rapt_quantize_rows(w.data(), RAPT_F32, 0, quantized_shape.outputs, quantized_shape.inputs, group,
                               type, q.data(), scales.data()) == RAPT_OK);
    REQUIRE(rapt_dequantize_rows(q.data(), type, quantized_shape.outputs, quantized_shape.inputs, group,
                                 scales.data(), nullptr, nullptr, RAPT_TYPE_DEFAULT, nullptr, numbers.data(),
                                 RAPT_F32, 0) == RAPT_OK);
    options.w_type = type;
    options.scale_group = group;
    options.w_scales = scales.data();
  }
  std::vector<double> run(const std::vector<float> &x, rapt_arithmetic arithmetic, std::size_t x_group) {
    options.arithmetic = arithmetic;
    options.x_group = x_group;
    return test::run(x.data(), q.data(), options);
  }
};

struct Row {
  rapt_type type;
  std::size_t group;
  double in_f32, in_i8, in_i8_by_rows, arithmetic;  // as in accuracy.md
};
constexpr Row table[] = {{RAPT_I8, 32, 5.5e-3, 7.7e-3, 1.0e-2, 2.4e-7},
                         {RAPT_I8, 128, 6.4e-3, 9.1e-3, 1.1e-2, 2.3e-7},
                         {RAPT_I8, 0, 8.5e-3, 1.2e-2, 1.2e-2, 4.1e-7},
                         {RAPT_I4, 32, 9.7e-2, 9.7e-2, 9.7e-2, 2.4e-7},
                         {RAPT_I4, 128, 0.12, 0.12, 0.12, 2.2e-7}};

TEST_CASE("relative error of layers with quantized weights") {
  const Numbers made = normal_numbers(quantized_shape);
  const std::vector<double> wanted = exact(quantized_shape, made.x, made.w);
  for (const Row &row : table) {
    QuantizedLayer layer(made.w, row.type, row.group);
    const std::string name =
        std::string(row.type == RAPT_I8 ? "i8" : "i4") + ", scale group " + std::to_string(row.group);
    const auto error = [&](rapt_arithmetic arithmetic, std::size_t x_group) {
      return relative_rms(layer.run(made.x, arithmetic, x_group), wanted);
    };
    check_published(name + ", F32", error(RAPT_ARITHMETIC_F32, 0), row.in_f32);
    check_published(name + ", I8", error(RAPT_ARITHMETIC_I8, 0), row.in_i8);
    check_published(name + ", I8, an x scale a row", error(RAPT_ARITHMETIC_I8, SIZE_MAX), row.in_i8_by_rows);
    const std::vector<double> of_numbers = exact(quantized_shape, made.x, layer.numbers);
    check_published(name + ", F32 compared with the exact sum",
                    relative_rms(layer.run(made.x, RAPT_ARITHMETIC_F32, 0), of_numbers), row.arithmetic);
  }
}

}  // namespace
}  // namespace rapt::test
