// Compares the gradient of attention with three references: the chain rule in long double, differences of the
// output, and matrix products with softmax and its gradient. Only the scalar level is compared with the chain
// rule, because all levels give the same bits.
#include "support/attention_backward_accuracy.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <vector>

#include "support/attention_oracle.hpp"
#include "support/effort.hpp"
#include "support/worst_errors.hpp"

using namespace rapt::test;

namespace {

template <class T>
void measure(const oracle::Attention<T> &a, const std::vector<T> &dout, WorstErrors &worst) {
  const oracle::GradientTruth truth = oracle::gradient_truth(a, dout, gradient_units(a.qk_dim, a.v_dim));
  REQUIRE(truth.is_finite);
  const AttentionResults<T> got = run_forward_and_backward(a, dout);
  const auto see = [&](const char *name, const std::vector<oracle::Sum> &sums, const std::vector<T> &values) {
    if (values.empty()) return;
    worst.see(name, gradient_error<T>(sums, [&](std::size_t i) { return values[i]; }), 1);
  };
  see("dq", truth.dq, got.dq);
  see("dk", truth.dk, got.dk);
  see("dv", truth.dv, got.dv);
  see("dbias", truth.dbias, got.dbias);
  see("dsinks", truth.dsinks, got.dsinks);
}

template <class T>
std::vector<T> normal_dout(const oracle::Attention<T> &a, Random &random) {
  return draw<T>(a.rows({}) * a.v_dim, [&] { return random.gaussian(); });
}

}  // namespace

TEST_CASE_TEMPLATE("ordinary gradients", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  for (const std::size_t dim : Sizes{1, 8, 64, 128, 576}) {
    WorstErrors worst;
    for (const std::size_t keys : Sizes{1, 5, 64, 300, 1300}) {
      if (emulated() && keys > 64) continue;
      for (const double sigma : {0.1, 1.0, 3.0}) {
        Random random(keys + dim);
        oracle::Attention<T> a = normal_attention<T>({keys < 1000 ? 12u : 4u, keys, dim, 16}, random, sigma);
        std::vector<T> dout = normal_dout(a, random);
        measure(a, dout, worst);
        for (T &value : a.v) value = static_cast<T>(1 + random.uniform());  // terms of ds cancel
        for (T &value : dout) value = static_cast<T>(1 + random.uniform());
        measure(a, dout, worst);
      }
    }
    worst.print<T>("qk_dim " + std::to_string(dim));
  }
  WorstErrors widths, many_queries;
  for (const std::size_t v_dim : Sizes{1, 3, 64, 512}) {
    Random random(v_dim);
    const oracle::Attention<T> a = normal_attention<T>({40, 90, 16, v_dim}, random);
    measure(a, normal_dout(a, random), widths);
  }
  widths.print<T>("v_dim 1 to 512");
  for (const std::size_t queries : Sizes{64, 300, 2000}) {
    if (emulated() && queries > 64) continue;
    Random random(queries);
    oracle::Attention<T> a = normal_attention<T>({queries, 3, 4, 4}, random);
    measure(a, normal_dout(a, random), many_queries);
    // The terms are equal, so all partial sums are rounded in the same direction.
    a.q.assign(a.q.size(), T(0.7));
    measure(a, std::vector<T>(queries * 4, T(0.3)), many_queries);
  }
  many_queries.print<T>("many queries");
}

TEST_CASE_TEMPLATE("options", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  for (const ScoreOption<T> &option : score_options<T>) {
    WorstErrors worst;
    for (const std::size_t keys : Sizes{7, 64, 300}) {
      if (emulated() && keys > 64) continue;
      Random random(keys);
      oracle::Attention<T> a = normal_attention<T>({20, keys, 24, 8, 4, 2}, random);
      option.set(a, random);
      measure(a, normal_dout(a, random), worst);
    }
    worst.print<T>(option.name);
  }
}

// Products of values and dout underflow. Large keys or queries would make these lost products matter.
TEST_CASE_TEMPLATE("products that underflow", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  const int least = std::numeric_limits<T>::min_exponent;
  for (const bool large_keys : {true, false}) {
    CAPTURE(large_keys);
    for (const int exponent : {least * 5 / 8, least / 2, least * 3 / 8}) {
      Random random(5);
      oracle::Attention<T> a = normal_attention<T>({12, 70, 6, 9}, random);
      std::vector<T> dout = normal_dout(a, random);
      const auto scale_by = [](std::vector<T> &values, int power) {
        for (T &value : values) value = std::ldexp(value, power);
      };
      scale_by(a.v, exponent);
      scale_by(dout, exponent);
      scale_by(large_keys ? a.k : a.q, -least * 3 / 4);
      scale_by(large_keys ? a.q : a.k, least * 3 / 4);
      WorstErrors worst;
      measure(a, dout, worst);
      worst.print<T>("underflow");
    }
  }
}

// The last rows of a tile see no key, but the rows before them do.
TEST_CASE_TEMPLATE("rows behind the last key", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  WorstErrors worst;
  for (const AttentionShape &shape : {AttentionShape{10, 4, 3, 2}, {150, 70, 5, 3, 2, 1}}) {
    Random random(shape.queries);
    oracle::Attention<T> a = normal_attention<T>(shape, random);
    a.causal = oracle::Causal::offset;  // offset 0 means top left
    a.window_left = 1;
    measure(a, normal_dout(a, random), worst);
  }
  worst.print<T>("rows behind the last key");
}

// Compares gradients with central differences of the output.
TEST_CASE("central differences") {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    double worst = 0;
    for (const ScoreOption<double> &option : score_options<double>) {
      Random random(7);
      oracle::Attention<double> a = normal_attention<double>({3, 5, 4, 3, 4, 2}, random);
      option.set(a, random);
      const std::vector<double> dout = normal_dout(a, random);
      const AttentionResults<double> got = run_forward_and_backward(a, dout);
      const auto loss = [&] {
        const AttentionResults<double> made = run_forward(a);
        double sum = 0;
        for (std::size_t i = 0; i < dout.size(); ++i) sum += made.out[i] * dout[i];
        return sum;
      };
      const auto compare = [&](std::vector<double> &x, const std::vector<double> &gradient) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double at = x[i], step = 1e-5;
          x[i] = at + step;
          const double above = loss();
          x[i] = at - step;
          const double below = loss();
          x[i] = at;
          worst = std::max(worst, std::fabs((above - below) / (2 * step) - gradient[i]));
        }
      };
      compare(a.q, got.dq);
      compare(a.k, got.dk);
      compare(a.v, got.dv);
      compare(a.bias, got.dbias);
      compare(a.sinks, got.dsinks);
      CAPTURE(std::string(option.name));
      CHECK(worst < 1e-8);
    }
    std::printf("%-8s the largest distance from a central difference: %.2g\n", isa.c_str(), worst);
  });
}

// Composes the gradient from softmax and softmax_backward of rapt: dS = softmax_backward(P, dP), dQ = dS K,
// dK = dS^T Q, dV = P^T dO.
TEST_CASE("the same by softmax_backward") {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    constexpr std::size_t queries = 37, keys = 90, dim = 20, width = 12;
    Random random(5);
    const oracle::Attention<double> a = normal_attention<double>({queries, keys, dim, width}, random);
    const std::vector<double> dout = draw<double>(queries * width, [&] { return random.gaussian(); });
    const AttentionResults<double> got = run_forward_and_backward(a, dout);
    const double scale = 1 / std::sqrt(static_cast<double>(dim));
    const auto product = [](const std::vector<double> &x, const std::vector<double> &y, std::size_t rows,
                            std::size_t inner, std::size_t cols, bool x_across, bool y_across) {
      std::vector<double> made(rows * cols);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c) {
          for (std::size_t i = 0; i < inner; ++i) {
            made[r * cols + c] +=
                x[x_across ? i * rows + r : r * inner + i] * y[y_across ? c * inner + i : i * cols + c];
          }
        }
      }
      return made;
    };
    const std::vector<double> t = product(a.q, a.k, queries, dim, keys, false, true);
    rapt_softmax_options o = RAPT_SOFTMAX_OPTIONS_INIT;
    o.scale = scale;
    std::vector<double> p(queries * keys), ds(queries * keys);
    REQUIRE(rapt_softmax_f64(t.data(), keys, p.data(), keys, queries, keys, &o) == RAPT_OK);
    const std::vector<double> dp = product(dout, a.v, queries, width, keys, false, true);
    REQUIRE(rapt_softmax_backward_f64(p.data(), keys, dp.data(), keys, ds.data(), keys, queries, keys,
                                      scale) == RAPT_OK);
    const auto compare = [](const std::vector<double> &x, const std::vector<double> &y) {
      double most = 0;
      for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, std::fabs(x[i] - y[i]));
      return most;
    };
    CHECK(compare(product(ds, a.k, queries, keys, dim, false, false), got.dq) < 1e-14);
    CHECK(compare(product(ds, a.q, keys, queries, dim, true, false), got.dk) < 1e-14);
    CHECK(compare(product(p, dout, keys, queries, width, true, false), got.dv) < 1e-14);
  });
}
