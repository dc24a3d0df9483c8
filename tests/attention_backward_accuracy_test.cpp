// The gradient of attention against the truth: the chain rule in long double, differences of the output, and
// the composition of matrix products with softmax and its gradient. The scalar level alone is measured, as
// all levels give its bits.
#include "support/attention_backward_accuracy.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "oracle/attention_backward.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

template <class T>
constexpr bool measurable = std::numeric_limits<long double>::digits >= std::numeric_limits<T>::digits + 10;

template <class T>
struct Gradients {
  std::vector<T> out, lse, dq, dk, dv, dbias, dsinks;
};

template <class T>
rapt_attention_options options_of(const oracle::Attention<T> &a) {
  rapt_attention_options o = attention_options<T>();
  o.batch = a.batch;
  o.q_heads = a.q_heads;
  o.kv_heads = a.kv_heads;
  o.q_len = a.q_len;
  o.kv_len = a.kv_len;
  o.qk_dim = a.qk_dim;
  o.v_dim = a.v_dim;
  o.scale = a.scale;
  o.softcap = a.softcap;
  const auto heads = static_cast<std::ptrdiff_t>(a.q_heads), tokens = static_cast<std::ptrdiff_t>(a.q_len),
             keys = static_cast<std::ptrdiff_t>(a.kv_len);
  if (!a.alibi_slopes.empty()) o.alibi_slopes = a.alibi_slopes.data();
  if (!a.sinks.empty()) o.sinks = a.sinks.data();
  if (!a.query_scales.empty()) {
    o.query_scales = a.query_scales.data();
    o.query_scale_strides = {heads * tokens, tokens, 1};
  }
  if (!a.bias.empty()) {
    const oracle::Repeats r = a.bias_repeats;
    const std::ptrdiff_t of_head = (r.token ? 1 : tokens) * keys;
    o.bias = a.bias.data();
    o.bias_strides = {r.batch ? RAPT_REPEAT : (r.head ? 1 : heads) * of_head, r.head ? RAPT_REPEAT : of_head,
                      r.token ? RAPT_REPEAT : keys};
  }
  if (!a.mask.empty()) {
    o.mask = a.mask.data();
    o.mask_strides = {heads * tokens * keys, tokens * keys, keys};
  }
  if (a.causal == oracle::Causal::bottom_right) o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
  o.window_left = static_cast<std::size_t>(a.window_left) + 1;
  return o;
}

template <class T>
void run_forward(const oracle::Attention<T> &a, Gradients<T> &made) {
  made.out.resize(a.batch * a.q_heads * a.q_len * a.v_dim);
  made.lse.resize(a.batch * a.q_heads * a.q_len);
  rapt_attention_options o = options_of(a);
  o.lse = made.lse.data();
  std::size_t bytes = 0;
  REQUIRE(rapt_attention_workspace(&o, &bytes) == RAPT_OK);
  std::vector<unsigned char> workspace(bytes);
  REQUIRE(rapt_attention(a.q.data(), a.k.data(), a.v.data(), made.out.data(), &o, workspace.data(), bytes) ==
          RAPT_OK);
}

template <class T>
Gradients<T> run(const oracle::Attention<T> &a, const std::vector<T> &dout) {
  Gradients<T> made;
  run_forward(a, made);
  made.dq.resize(a.q.size());
  made.dk.resize(a.k.size());
  made.dv.resize(a.v.size());
  made.dbias.resize(a.bias.size());
  made.dsinks.resize(a.q_heads);
  rapt_attention_options o = options_of(a);
  o.lse = made.lse.data();
  rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
  g.out = made.out.data();
  g.dout = dout.data();
  g.dq = made.dq.data();
  g.dk = made.dk.data();
  g.dv = made.dv.data();
  if (!a.bias.empty()) g.dbias = made.dbias.data();
  if (!a.sinks.empty()) g.dsinks = made.dsinks.data();
  std::size_t bytes = 0;
  REQUIRE(rapt_attention_backward_workspace(&o, &bytes) == RAPT_OK);
  std::vector<unsigned char> workspace(bytes);
  REQUIRE(rapt_attention_backward(a.q.data(), a.k.data(), a.v.data(), &o, &g, workspace.data(), bytes) ==
          RAPT_OK);
  return made;
}

// The worst of many calls, in shares of the bounds.
struct Worst {
  double dq = 0, dk = 0, dv = 0, dbias = 0, dsinks = 0;
  std::size_t calls = 0;
};

template <class T>
void measure(const oracle::Attention<T> &a, const std::vector<T> &dout, Worst &worst) {
  const oracle::GradientTruth truth = oracle::gradient_truth(a, dout, gradient_units(a.qk_dim, a.v_dim));
  REQUIRE(truth.is_finite);
  const Gradients<T> got = run(a, dout);
  const auto see = [](double &most, const std::vector<oracle::Sum> &sums, const std::vector<T> &values) {
    most = std::max(most, gradient_error<T>(sums, [&](std::size_t i) { return values[i]; }));
  };
  worst.calls += 1;
  see(worst.dq, truth.dq, got.dq);
  see(worst.dk, truth.dk, got.dk);
  see(worst.dv, truth.dv, got.dv);
  if (!a.bias.empty()) see(worst.dbias, truth.dbias, got.dbias);
  if (!a.sinks.empty()) see(worst.dsinks, truth.dsinks, got.dsinks);
}

template <class T>
void judge(const std::string &what, const Worst &worst) {
  std::printf(
      "%s %-34s %4zu calls, shares of the bounds: dq %5.3f, dk %5.3f, dv %5.3f, dbias %5.3f, dsinks %5.3f\n",
      Api<T>::element, what.c_str(), worst.calls, worst.dq, worst.dk, worst.dv, worst.dbias, worst.dsinks);
  CHECK(worst.calls > 0);
  for (const double share : {worst.dq, worst.dk, worst.dv, worst.dbias, worst.dsinks}) CHECK(share <= 1);
}

template <class T, class Draw>
std::vector<T> draw(std::size_t count, Draw &&one) {
  std::vector<T> values(count);
  for (T &value : values) value = static_cast<T>(one());
  return values;
}

template <class T>
oracle::Attention<T> make(std::size_t queries, std::size_t keys, std::size_t qk_dim, std::size_t v_dim,
                          Random &random, double sigma = 1, std::size_t q_heads = 1,
                          std::size_t kv_heads = 1) {
  oracle::Attention<T> a;
  a.q_len = queries;
  a.kv_len = keys;
  a.qk_dim = qk_dim;
  a.v_dim = v_dim;
  a.q_heads = q_heads;
  a.kv_heads = kv_heads;
  a.q = draw<T>(q_heads * queries * qk_dim, [&] { return sigma * random.gaussian(); });
  a.k = draw<T>(kv_heads * keys * qk_dim, [&] { return sigma * random.gaussian(); });
  a.v = draw<T>(kv_heads * keys * v_dim, [&] { return random.gaussian(); });
  return a;
}

// Few numbers, and every kind of option.
constexpr int kinds = 9;
constexpr const char *kind_names[kinds] = {"plain",          "softcap", "bias",
                                           "a bias for all", "alibi",   "sinks",
                                           "query scales",   "scale",   "softcap of large scores"};
template <class T>
oracle::Attention<T> with_option(int kind, std::size_t queries, std::size_t keys, std::size_t dim,
                                 std::size_t width, Random &random) {
  oracle::Attention<T> a = make<T>(queries, keys, dim, width, random, 1, 4, 2);
  if (kind == 1) a.softcap = 3;
  if (kind == 2) a.bias = draw<T>(4 * queries * keys, [&] { return 2 * random.gaussian(); });
  if (kind == 3) {
    a.bias_repeats = {true, true, true};
    a.bias = draw<T>(keys, [&] { return 2 * random.gaussian(); });
  }
  if (kind == 4) {
    a.alibi_slopes = {T(0.25), T(0.003), T(1), T(-0.1)};
    a.causal = oracle::Causal::bottom_right;
  }
  if (kind == 5) a.sinks = {T(1), T(-2), T(3), T(0)};
  if (kind == 6) a.query_scales = draw<T>(4 * queries, [&] { return random.gaussian(); });
  if (kind == 7) a.scale = -1.5;
  if (kind == 8) a.softcap = 2, a.scale = 3;
  return a;
}

}  // namespace

TEST_CASE_TEMPLATE("ordinary gradients", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  for (const std::size_t dim : Sizes{1, 8, 64, 128, 576}) {
    Worst worst;
    for (const std::size_t keys : Sizes{1, 5, 64, 300, 1300}) {
      if (emulated() && keys > 64) continue;
      for (const double sigma : {0.1, 1.0, 3.0}) {
        Random random(keys + dim);
        const std::size_t queries = keys < 1000 ? 12 : 4;
        oracle::Attention<T> a = make<T>(queries, keys, dim, 16, random, sigma);
        std::vector<T> dout = draw<T>(queries * 16, [&] { return random.gaussian(); });
        measure(a, dout, worst);
        for (T &value : a.v) value = static_cast<T>(1 + random.uniform());  // ds cancels
        for (T &value : dout) value = static_cast<T>(1 + random.uniform());
        measure(a, dout, worst);
      }
    }
    judge<T>("qk_dim " + std::to_string(dim), worst);
  }
  Worst worst;
  for (const std::size_t v_dim : Sizes{1, 3, 64, 512}) {
    Random random(v_dim);
    const oracle::Attention<T> a = make<T>(40, 90, 16, v_dim, random, 1);
    measure(a, draw<T>(40 * v_dim, [&] { return random.gaussian(); }), worst);
  }
  judge<T>("v_dim 1 to 512", worst);
  worst = {};
  for (const std::size_t queries : Sizes{64, 300, 2000}) {
    if (emulated() && queries > 64) continue;
    Random random(queries);
    oracle::Attention<T> a = make<T>(queries, 3, 4, 4, random, 1);
    measure(a, draw<T>(queries * 4, [&] { return random.gaussian(); }), worst);
    // Terms that are alike, whose sums round the same way over and over.
    a.q.assign(a.q.size(), T(0.7));
    measure(a, std::vector<T>(queries * 4, T(0.3)), worst);
  }
  judge<T>("many queries", worst);
}

TEST_CASE_TEMPLATE("options", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  for (int kind = 0; kind < kinds; ++kind) {
    Worst worst;
    for (const std::size_t keys : Sizes{7, 64, 300}) {
      if (emulated() && keys > 64) continue;
      Random random(keys);
      const oracle::Attention<T> a = with_option<T>(kind, 20, keys, 24, 8, random);
      measure(a, draw<T>(4 * 20 * 8, [&] { return random.gaussian(); }), worst);
    }
    judge<T>(kind_names[kind], worst);
  }
}

// The truth is what differences of the output say.
TEST_CASE("central differences") {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    double worst = 0;
    for (int kind = 0; kind < kinds; ++kind) {
      CAPTURE(std::string(kind_names[kind]));
      Random random(static_cast<std::uint64_t>(kind) + 7);
      oracle::Attention<double> a = with_option<double>(kind, 3, 5, 4, 3, random);
      const std::vector<double> dout = draw<double>(4 * 3 * 3, [&] { return random.gaussian(); });
      const Gradients<double> got = run(a, dout);
      const auto loss = [&] {
        Gradients<double> made;
        run_forward(a, made);
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
    }
    std::printf("%-8s the largest distance from a central difference: %.2g\n", isa.c_str(), worst);
    CHECK(worst < 1e-8);
  });
}

// dS = softmax_backward(P, dP), dQ = dS K, dK = dS^T Q, dV = P^T dO, of rapt's own parts.
TEST_CASE("the same by softmax_backward") {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    constexpr std::size_t queries = 37, keys = 90, dim = 20, width = 12;
    Random random(5);
    const oracle::Attention<double> a = make<double>(queries, keys, dim, width, random);
    const std::vector<double> dout = draw<double>(queries * width, [&] { return random.gaussian(); });
    const Gradients<double> got = run(a, dout);
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
      double worst = 0;
      for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, std::fabs(x[i] - y[i]));
      return worst;
    };
    CHECK(compare(product(ds, a.k, queries, keys, dim, false, false), got.dq) < 1e-14);
    CHECK(compare(product(ds, a.q, keys, queries, dim, true, false), got.dk) < 1e-14);
    CHECK(compare(product(p, dout, keys, queries, width, true, false), got.dv) < 1e-14);
  });
}
