// Trains two linear layers with a ReLU between them. Every product and every gradient is rapt_linear, over
// other strides. Gradients are compared with sums in double, and the weights have the same bits on every level.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "oracle/bounds.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

using Floats = std::vector<float>;

// More samples than a group of the sum has, and more outputs than a block.
constexpr std::size_t samples = 530, inputs = 12, hidden = 70, outputs = 3;

// A matrix in memory, and how a layer reads it.
struct View {
  const float *data;
  std::ptrdiff_t row, column;

  View(const Floats &matrix, std::size_t columns)
      : data(matrix.data()), row(static_cast<std::ptrdiff_t>(columns)), column(1) {}
  View transposed() const {
    View other = *this;
    other.row = column;
    other.column = row;
    return other;
  }
  double at(std::size_t r, std::size_t c) const {
    return double{data[static_cast<std::ptrdiff_t>(r) * row + static_cast<std::ptrdiff_t>(c) * column]};
  }
};

// Returns x W^T, with x [rows][length] and w [columns][length].
Floats linear(const View &x, const View &w, std::size_t rows, std::size_t length, std::size_t columns,
              const float *bias = nullptr) {
  rapt_linear_options o = RAPT_LINEAR_OPTIONS_INIT;
  o.rows = rows;
  o.in_features = length;
  o.out_features = columns;
  o.x_strides = {x.row, x.column};
  o.w_strides = {w.row, w.column};
  o.bias = bias;
  std::size_t bytes = 0;
  REQUIRE(rapt_linear_workspace(&o, &bytes) == RAPT_OK);
  std::vector<unsigned char> workspace(bytes);
  Floats y(rows * columns);
  REQUIRE(rapt_linear(x.data, w.data, y.data(), &o, workspace.data(), bytes) == RAPT_OK);
  return y;
}

// Checks sums against the same sums in double: sum(r, c, k) is term k of the sum in row r and column c.
template <class Term>
void check_sums(const std::string &name, const Floats &got, std::size_t columns, std::size_t length,
                Term &&term) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    double sum = 0, magnitudes = 0;
    for (std::size_t k = 0; k < length; ++k) {
      const double product = term(i / columns, i % columns, k);
      sum += product;
      magnitudes += std::fabs(product);
    }
    const double bound = linear_bound(length, RAPT_ARITHMETIC_F32) * unit_of<float> * magnitudes +
                         linear_underflow<float>(length, RAPT_ARITHMETIC_F32);
    wrong += !(std::fabs(double{got[i]} - sum) <= bound);
  }
  CAPTURE(name);
  CHECK(wrong == 0);
}

struct Layer {
  std::size_t in, out;
  Floats w, bias;

  Layer(std::size_t in_features, std::size_t out_features, Random &random)
      : in(in_features), out(out_features), w(in * out), bias(out) {
    for (float &number : w)
      number = static_cast<float>(random.gaussian() / std::sqrt(static_cast<double>(in)));
  }
  Floats run(const Floats &x) const {
    return linear(View(x, in), View(w, in), samples, in, out, bias.data());
  }

  // The three gradients, where g is that of the layer's result.
  Floats of_x(const Floats &g) const {
    return linear(View(g, out), View(w, in).transposed(), samples, out, in);
  }
  Floats of_w(const Floats &g, const Floats &x) const {
    return linear(View(g, out).transposed(), View(x, in).transposed(), out, samples, in);
  }
  Floats of_bias(const Floats &g) const {
    const Floats ones(samples, 1.0f);
    return linear(View(ones, samples), View(g, out).transposed(), 1, samples, out);
  }

  void check_gradients(const Floats &g, const Floats &x) const {
    const View of_g(g, out), of_inputs(x, in), weights(w, in);
    check_sums("of x", of_x(g), in, out,
               [&](std::size_t r, std::size_t c, std::size_t k) { return of_g.at(r, k) * weights.at(k, c); });
    check_sums("of W", of_w(g, x), in, samples, [&](std::size_t r, std::size_t c, std::size_t k) {
      return of_g.at(k, r) * of_inputs.at(k, c);
    });
    check_sums("of bias", of_bias(g), out, samples,
               [&](std::size_t, std::size_t c, std::size_t k) { return of_g.at(k, c); });
  }
  void descend(float rate, const Floats &g, const Floats &x) {
    const Floats of_weights = of_w(g, x), of_biases = of_bias(g);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = std::fma(-rate, of_weights[i], w[i]);
    for (std::size_t i = 0; i < out; ++i) bias[i] = std::fma(-rate, of_biases[i], bias[i]);
  }
};

// The network learns what another network of the same shape computes.
class Student {
 public:
  Student() {
    Random of_teacher(1);
    const Layer first(inputs, hidden, of_teacher), second(hidden, outputs, of_teacher);
    for (float &number : x_) number = static_cast<float>(of_teacher.gaussian());
    Floats h = first.run(x_);
    for (float &number : h) number = number > 0 ? number : 0;
    wanted_ = second.run(h);
  }

  // Returns the mean squared error before the step.
  double step(float rate, bool checks_gradients) {
    Floats h = first_.run(x_);
    for (float &number : h) number = number > 0 ? number : 0;
    Floats g = second_.run(h);
    double loss = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      const float error = g[i] - wanted_[i];
      loss += double{error} * double{error} / static_cast<double>(g.size());
      g[i] = error / samples;
    }
    Floats of_h = second_.of_x(g);
    for (std::size_t i = 0; i < h.size(); ++i) of_h[i] = h[i] > 0 ? of_h[i] : 0;
    if (checks_gradients) {
      second_.check_gradients(g, h);
      first_.check_gradients(of_h, x_);
    }
    second_.descend(rate, g, h);
    first_.descend(rate, of_h, x_);
    return loss;
  }

  std::vector<std::uint64_t> bits() const {
    std::vector<std::uint64_t> bits;
    for (const Floats *numbers : {&first_.w, &first_.bias, &second_.w, &second_.bias}) {
      for (const float number : *numbers) bits.push_back(canonical_bits(number));
    }
    return bits;
  }

 private:
  Random random_{2};
  Floats x_ = Floats(samples * inputs), wanted_;
  Layer first_{inputs, hidden, random_}, second_{hidden, outputs, random_};
};

TEST_CASE("two layers learn, with the same bits on every level") {
  // The first three steps make the loss larger.
  const std::size_t steps = native_or_emulated<std::size_t>(60, 6);
  std::vector<std::uint64_t> expected;
  on_every_level([&] {
    Student student;
    double first = 0, last = 0;
    for (std::size_t i = 0; i < steps; ++i) {
      last = student.step(0.25f, i % 20 == 0);
      if (i == 0) first = last;
    }
    CAPTURE(first);
    CAPTURE(last);
    CHECK(last < (emulated() ? 0.5 : 0.1) * first);
    if (expected.empty()) expected = student.bits();
    CHECK(student.bits() == expected);
  });
}

}  // namespace
}  // namespace rapt::test
