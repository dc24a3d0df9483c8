// Tests rapt_delta_rule_backward: compared with differences of a forward pass in double, the errors of one token that
// rapt.h states, results that CPUs flush in different ways, special values, and arguments.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "rapt/parallel.h"
#include "rapt/parallel.hpp"
#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "support/every_level.hpp"
#include "support/isa.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

using Floats = std::vector<float>;

Floats drawn(Random &random, std::size_t n, double size) {
  Floats made(n);
  for (float &x : made) x = static_cast<float>(size * (2 * random.uniform() - 1));
  return made;
}

bool same(const Floats &a, const Floats &b) {
  return std::ranges::equal(
      a, b, {}, [](float x) { return canonical_bits(x); }, [](float x) { return canonical_bits(x); });
}

// Contiguous sequences of equal length, or packed ones. Empty arrays are not handed over.
struct Layer {
  std::size_t tokens = 1, q_heads = 1, k_heads = 1, v_heads = 1, key_dim = 1, value_dim = 1, batch = 1;
  int interleaved = 0, per_key = 0, l2_norm = 0;
  double scale = 0.5, eps = 0;
  std::vector<std::int32_t> offsets;
  Floats q, k, v, g, beta, state, dout, dfinal;

  std::size_t out_heads() const { return std::max(q_heads, v_heads); }
  std::size_t rows() const {
    return offsets.empty() ? batch * tokens : static_cast<std::size_t>(offsets.back());
  }
  std::size_t states() const { return batch * v_heads * key_dim * value_dim; }
  void draw(Random &random, double size) {
    const double shorter = 1 / std::sqrt(static_cast<double>(key_dim));
    q = drawn(random, rows() * q_heads * key_dim, shorter);
    k = drawn(random, rows() * k_heads * key_dim, shorter);
    v = drawn(random, rows() * v_heads * value_dim, size);
    dout = drawn(random, rows() * out_heads() * value_dim, size);
  }
  rapt_delta_rule_options options() const {
    rapt_delta_rule_options o = RAPT_DELTA_RULE_OPTIONS_INIT;
    o.batch = batch, o.tokens = tokens, o.q_heads = q_heads, o.k_heads = k_heads, o.v_heads = v_heads;
    o.key_dim = key_dim, o.value_dim = value_dim, o.interleaved_heads = interleaved;
    o.scale = scale, o.l2_norm = l2_norm, o.eps = eps, o.decay_per_key = g.empty() ? 0 : per_key;
    if (!g.empty()) o.g = g.data();
    if (!beta.empty()) o.beta = beta.data();
    if (!state.empty()) o.state = state.data();
    if (!offsets.empty()) o.offsets = offsets.data();
    return o;
  }

  struct Gradients {
    Floats dq, dk, dv, dg, dbeta, dstate;
    bool operator==(const Gradients &o) const {
      return same(dq, o.dq) && same(dk, o.dk) && same(dv, o.dv) && same(dg, o.dg) && same(dbeta, o.dbeta) &&
             same(dstate, o.dstate);
    }
  };
  Gradients run(bool by_tasks = false) const {
    const rapt_delta_rule_options o = options();
    Gradients made{Floats(q.size(), -7.0f), Floats(k.size(), -7.0f),    Floats(v.size(), -7.0f),
                   Floats(g.size(), -7.0f), Floats(beta.size(), -7.0f), Floats(states(), -7.0f)};
    rapt_delta_rule_gradients d = RAPT_DELTA_RULE_GRADIENTS_INIT;
    d.dout = dout.data();
    d.dq = made.dq.data(), d.dk = made.dk.data(), d.dv = made.dv.data(), d.dstate = made.dstate.data();
    if (!g.empty()) d.dg = made.dg.data();
    if (!beta.empty()) d.dbeta = made.dbeta.data();
    if (!dfinal.empty()) d.dfinal = dfinal.data();
    std::size_t bytes = 0, tasks = 0;
    REQUIRE(rapt_delta_rule_backward_workspace(&o, &bytes) == RAPT_OK);
    REQUIRE(rapt_delta_rule_backward_tasks(&o, &tasks) == RAPT_OK);
    std::vector<unsigned char> workspace(bytes, 0xff);
    if (by_tasks) {
      for (std::size_t task = tasks; task-- > 0;) {
        REQUIRE(rapt_delta_rule_backward_run(q.data(), k.data(), v.data(), &o, &d, task, task + 1,
                                             workspace.data(), bytes) == RAPT_OK);
      }
    } else {
      REQUIRE(rapt_delta_rule_backward(q.data(), k.data(), v.data(), &o, &d, workspace.data(), bytes) ==
              RAPT_OK);
    }
    return made;
  }

  // The row of a token in a tensor of `heads` heads.
  std::size_t row(std::size_t b, std::size_t heads, std::size_t head, std::size_t t) const {
    if (offsets.empty()) return (b * heads + head) * tokens + t;
    return head * rows() + static_cast<std::size_t>(offsets[b]) + t;
  }
  std::size_t length(std::size_t b) const {
    return offsets.empty() ? tokens : static_cast<std::size_t>(offsets[b + 1] - offsets[b]);
  }
};

// The inputs of a layer in double.
struct Point {
  std::vector<double> q, k, v, g, beta, state;
  explicit Point(const Layer &of)
      : q(of.q.begin(), of.q.end()),
        k(of.k.begin(), of.k.end()),
        v(of.v.begin(), of.v.end()),
        g(of.g.begin(), of.g.end()),
        beta(of.beta.begin(), of.beta.end()),
        state(of.state.begin(), of.state.end()) {}
};

// What dout and dfinal are the gradients of: their products with the outputs and the final states.
double loss(const Layer &of, const Point &at) {
  const std::size_t n = of.key_dim, m = of.value_dim;
  const auto shared = [&](std::size_t h, std::size_t count, std::size_t all) {
    return of.interleaved ? h % count : h / (all / count);
  };
  const auto divided = [&](const std::vector<double> &x, std::size_t row) {
    std::vector<double> made(x.begin() + static_cast<std::ptrdiff_t>(row * n),
                             x.begin() + static_cast<std::ptrdiff_t>((row + 1) * n));
    double sum = 0;
    for (const double e : made) sum += e * e;
    const double eps = of.eps == 0 ? 1e-6 : of.eps;
    const double by = of.l2_norm == 0                      ? 1
                      : of.l2_norm == RAPT_L2_NORM_ADD_EPS ? std::sqrt(sum + eps)
                                                           : std::max(std::sqrt(sum), eps);
    for (double &e : made) e /= by;
    return made;
  };
  double total = 0;
  const std::size_t queries = of.q_heads > of.v_heads ? of.q_heads / of.v_heads : 1;
  for (std::size_t b = 0; b < of.batch; ++b) {
    for (std::size_t h = 0; h < of.v_heads; ++h) {
      std::vector<double> s(n * m, 0.0);
      const std::size_t first = (b * of.v_heads + h) * n * m;
      for (std::size_t e = 0; e < n * m && !at.state.empty(); ++e) s[e] = at.state[first + e];
      for (std::size_t t = 0; t < of.length(b); ++t) {
        const std::size_t own = of.row(b, of.v_heads, h, t);
        const std::vector<double> k =
            divided(at.k, of.row(b, of.k_heads, shared(h, of.k_heads, of.v_heads), t));
        for (std::size_t j = 0; j < m; ++j) {
          double r = 0;
          for (std::size_t i = 0; i < n; ++i) {
            if (!at.g.empty()) s[i * m + j] *= std::exp(at.g[of.per_key ? own * n + i : own]);
            r += k[i] * s[i * m + j];
          }
          double u = at.v[own * m + j];
          if (!at.beta.empty()) u = at.beta[own] * (u - r);
          for (std::size_t i = 0; i < n; ++i) s[i * m + j] += k[i] * u;
        }
        for (std::size_t x = 0; x < queries; ++x) {
          const std::size_t q_head = of.q_heads <= of.v_heads ? shared(h, of.q_heads, of.v_heads)
                                     : of.interleaved         ? x * of.v_heads + h
                                                              : h * queries + x;
          const std::size_t out_head = of.q_heads <= of.v_heads ? h : q_head;
          const std::vector<double> q = divided(at.q, of.row(b, of.q_heads, q_head, t));
          for (std::size_t j = 0; j < m; ++j) {
            double o = 0;
            for (std::size_t i = 0; i < n; ++i) o += q[i] * s[i * m + j];
            total += of.scale * o * of.dout[of.row(b, of.out_heads(), out_head, t) * m + j];
          }
        }
      }
      for (std::size_t e = 0; e < n * m && !of.dfinal.empty(); ++e) total += s[e] * of.dfinal[first + e];
    }
  }
  return total;
}

// Compares a gradient with differences: element by element, or of large ones along some directions.
double worst_error(const Layer &of, Random &random, std::vector<double> Point::*input,
                   const Floats &gradient) {
  constexpr double step = 1e-5;
  const std::size_t n = gradient.size(), directions = n <= 24 ? n : 3;
  double worst = 0, size = 1e-3;
  for (const float x : gradient) size = std::max(size, std::fabs(static_cast<double>(x)));
  for (std::size_t d = 0; d < directions; ++d) {
    std::vector<double> direction(n, 0.0);
    if (n <= 24) direction[d] = 1;
    for (std::size_t i = 0; i < n && n > 24; ++i) direction[i] = random.one_in(2) ? 1 : -1;
    double got = 0;
    const auto at = [&](double by) {
      Point moved(of);
      for (std::size_t i = 0; i < n; ++i) (moved.*input)[i] += by * direction[i];
      return loss(of, moved);
    };
    for (std::size_t i = 0; i < n; ++i) got += direction[i] * static_cast<double>(gradient[i]);
    const double wanted = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
    const double most = size * (n <= 24 ? 1 : std::sqrt(static_cast<double>(n)));
    worst = std::max(worst, std::fabs(got - wanted) / most);
  }
  return worst;
}

Layer drawn_layer(Random &random, std::size_t round) {
  Layer made;
  const bool is_small = round % 3 != 0;
  made.batch = 1 + random.below(2);
  made.tokens = is_small ? 1 + random.below(4) : 1 + random.below(70);
  made.key_dim = 1 + random.below(is_small ? 5 : 20);
  made.value_dim = 1 + random.below(is_small ? 5 : 150);
  const std::size_t fewest = 1 + random.below(3), more = 1 + random.below(3);
  if (random.one_in(3)) {
    made.v_heads = fewest, made.q_heads = fewest * more, made.k_heads = random.one_in(2) ? 1 : fewest;
  } else {
    made.v_heads = fewest * more, made.q_heads = fewest;
    made.k_heads = random.one_of<std::size_t>({1, fewest, more, fewest * more});
  }
  made.interleaved = random.one_in(2);
  // Of rows of one element, the gradient through the norm is next to nothing.
  made.l2_norm = made.key_dim == 1 ? 0 : static_cast<int>(random.below(3));
  if (made.l2_norm != 0 && random.one_in(2)) made.eps = 0.3;
  made.scale = random.one_of({0.5, -1.5});
  if (random.one_in(3)) {
    made.offsets = {0};
    for (std::size_t b = 0; b < made.batch; ++b)
      made.offsets.push_back(made.offsets.back() + static_cast<std::int32_t>(random.below(made.tokens + 1)));
  }
  made.draw(random, 1);
  if (!random.one_in(4)) {
    made.per_key = random.one_in(2);
    made.g = drawn(random, made.rows() * made.v_heads * (made.per_key ? made.key_dim : 1), 0.5);
    for (float &x : made.g) x = -std::fabs(x);
  }
  if (!random.one_in(4)) {
    made.beta = drawn(random, made.rows() * made.v_heads, 1);
    for (float &x : made.beta) x = std::fabs(x);
  }
  if (!random.one_in(4)) made.state = drawn(random, made.states(), 1);
  if (!random.one_in(4)) made.dfinal = drawn(random, made.states(), 1);
  return made;
}

}  // namespace

TEST_CASE("gradients are those of a forward pass in double, with the same bits on every level and by tasks") {
  Random random(3);
  double worst[6] = {};
  for (std::size_t round = 0; round < 120; ++round) {
    const Layer layer = drawn_layer(random, round);
    CAPTURE(round);
    Layer::Gradients expected;
    bool is_first = true;
    for_each_usable_isa([&](const std::string &isa) {
      CAPTURE(isa);
      const Layer::Gradients got = layer.run();
      CHECK(layer.run(true) == got);
      if (is_first) expected = got;
      is_first = false;
      CHECK(got == expected);
    });
    if (layer.rows() == 0) continue;
    const auto see = [&](std::size_t which, std::vector<double> Point::*input, const Floats &gradient) {
      if (gradient.empty()) return;
      const double error = worst_error(layer, random, input, gradient);
      CAPTURE(which);
      CHECK(error < 2e-5);
      worst[which] = std::max(worst[which], error);
    };
    see(0, &Point::q, expected.dq);
    see(1, &Point::k, expected.dk);
    see(2, &Point::v, expected.dv);
    see(3, &Point::g, expected.dg);
    see(4, &Point::beta, expected.dbeta);
    if (!layer.state.empty()) see(5, &Point::state, expected.dstate);
  }
  std::printf("errors compared with differences: %.1e %.1e %.1e %.1e %.1e %.1e\n", worst[0], worst[1],
              worst[2], worst[3], worst[4], worst[5]);
}

// Numbers near the smallest normal one, of which most operations flush something.
TEST_CASE("tiny gradients and states have the same bits on every level") {
  Random random(5);
  for (std::size_t round = 0; round < 40; ++round) {
    Layer layer;
    layer.tokens = 1 + random.below(20), layer.key_dim = 1 + random.below(20),
    layer.value_dim = 1 + random.below(70);
    layer.q_heads = 1 + random.below(2);
    layer.scale = 1;
    layer.draw(random, 0x1p-62);
    const double size = random.one_of({0x1p-64, 0x1p-123});
    layer.state = drawn(random, layer.states(), size), layer.dfinal = drawn(random, layer.states(), size);
    if (random.one_in(2)) layer.v = drawn(random, layer.v.size(), 0x1p-124);
    if (random.one_in(2)) layer.dout = drawn(random, layer.dout.size(), 0x1p-124);
    if (random.one_in(2)) layer.beta = drawn(random, layer.rows(), 1);
    if (random.one_in(2)) layer.g = drawn(random, layer.rows(), 1);
    Layer::Gradients expected;
    bool is_first = true;
    for_each_usable_isa([&](const std::string &isa) {
      CAPTURE(isa);
      const Layer::Gradients got = layer.run();
      if (is_first) expected = got;
      is_first = false;
      CHECK(got == expected);
    });
  }
}

// The sums of q and p, of k and G and of the state and p are tiny, but round up to the smallest normal number. Arm
// flushes them before it rounds.
TEST_CASE("gradients that round up to the smallest normal number stay") {
  constexpr float below = 0x1.fffp-1f, above = 0x1.0008p-126f, least = 0x1p-126f;
  for_each_usable_isa([&](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t tokens : {1u, 2u, 40u}) {
      for (const std::size_t value_dim : {1u, 7u, 16u, 40u, 128u}) {
        Layer layer;
        layer.tokens = tokens, layer.key_dim = 2, layer.value_dim = value_dim, layer.scale = 1;
        layer.q.assign(tokens * 2, 0.0f), layer.k.assign(tokens * 2, 0.0f);
        for (std::size_t t = 0; t < tokens; ++t) layer.k[2 * t] = below;
        layer.v.assign(tokens * value_dim, 0.0f), layer.dout.assign(tokens * value_dim, 0.0f);
        layer.dfinal.assign(2 * value_dim, 0.0f);
        for (std::size_t j = 0; j < value_dim; ++j) layer.dfinal[j] = j % 2 == 0 ? above : -above;
        const Layer::Gradients got = layer.run();
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < got.dv.size(); ++i)
          wrong += got.dv[i] != (i % value_dim % 2 == 0 ? least : -least);
        CHECK(wrong == 0);
        CHECK(same(got.dstate, layer.dfinal));
      }
    }
  });
}

TEST_CASE("gradients of one token err by no more than rapt.h says") {
  using Real = long double;
  constexpr Real u = 0x1p-24L;
  Random random(7);
  double worst[6] = {};
  for (std::size_t round = 0; round < 400; ++round) {
    Layer layer;
    layer.q_heads = round % 3 == 0 ? 2 : 1;
    const std::size_t n = layer.key_dim = 1 + random.below(round % 10 == 0 ? 300 : 40);
    const std::size_t m = layer.value_dim = 1 + random.below(round % 10 == 1 ? 300 : 40), h = layer.q_heads;
    layer.scale = random.one_of({1.0, 0.25, -7.0});
    layer.draw(random, 1);
    layer.k = drawn(random, n, random.one_of({0.2, 4.0}));
    layer.state = drawn(random, n * m, 1), layer.dfinal = drawn(random, n * m, 1);
    if (random.one_in(2)) layer.beta = drawn(random, 1, 1);
    if (random.one_in(2)) layer.g = drawn(random, 1, 2);
    float a = 1;
    if (!layer.g.empty()) rapt_exp_f32(layer.g.data(), &a, 1);
    const Layer::Gradients got = layer.run();
    const Real c = (2 * static_cast<Real>(n) + static_cast<Real>(m) / 8 + static_cast<Real>(h) + 20) * u;
    const bool has_delta = !layer.beta.empty();
    const Real beta = has_delta ? layer.beta[0] : 1;
    std::vector<Real> dk(n), of_dk(n), dg(n), of_dg(n), dq(h * n), of_dq(h * n);
    Real dbeta = 0, of_dbeta = 0;
    const auto see = [&](std::size_t which, float result, Real wanted, Real bound) {
      const Real off = std::fabs(Real{result} - wanted);
      worst[which] = std::max(worst[which], static_cast<double>(off == 0 ? 0 : off / bound));
    };
    for (std::size_t j = 0; j < m; ++j) {
      Real r = 0, sum_of_r = 0, w = 0, most_w = 0;
      std::vector<Real> g(n), most(n);
      for (std::size_t i = 0; i < n; ++i) {
        const Real before = Real{a} * layer.state[i * m + j];
        r += layer.k[i] * before, sum_of_r += std::fabs(layer.k[i] * before);
        g[i] = layer.dfinal[i * m + j], most[i] = std::fabs(g[i]);
        for (std::size_t x = 0; x < h; ++x) {
          const Real p = static_cast<float>(layer.scale) * Real{layer.dout[x * m + j]};
          g[i] += layer.q[x * n + i] * p, most[i] += std::fabs(layer.q[x * n + i] * p);
        }
        w += layer.k[i] * g[i], most_w += std::fabs(layer.k[i]) * most[i];
      }
      const Real v = layer.v[j];
      if (!has_delta) r = sum_of_r = 0;
      const Real delta = beta * (v - r), most_u = std::fabs(beta) * (std::fabs(v) + sum_of_r);
      see(2, got.dv[j], beta * w, c * std::fabs(beta) * most_w);
      dbeta += w * (v - r), of_dbeta += most_w * (std::fabs(v) + sum_of_r);
      for (std::size_t i = 0; i < n; ++i) {
        const Real before = Real{a} * layer.state[i * m + j], k = layer.k[i];
        const Real state = before + k * delta, t = std::fabs(before) + std::fabs(k) * most_u;
        for (std::size_t x = 0; x < h; ++x) {
          const Real p = static_cast<float>(layer.scale) * Real{layer.dout[x * m + j]};
          dq[x * n + i] += state * p, of_dq[x * n + i] += t * std::fabs(p);
        }
        dk[i] += g[i] * delta, of_dk[i] += most[i] * most_u;
        Real later = g[i], most_later = most[i];
        if (has_delta) {
          dk[i] -= beta * w * before, of_dk[i] += std::fabs(beta * before) * most_w;
          later -= k * beta * w, most_later += std::fabs(k * beta) * most_w;
        }
        dg[i] += later * before, of_dg[i] += most_later * std::fabs(before);
        see(5, got.dstate[i * m + j], a * later, c * a * most_later);
      }
    }
    for (std::size_t i = 0; i < n; ++i) see(1, got.dk[i], dk[i], c * of_dk[i]);
    for (std::size_t i = 0; i < h * n; ++i) see(0, got.dq[i], dq[i], c * of_dq[i]);
    if (has_delta) see(4, got.dbeta[0], dbeta, c * of_dbeta);
    if (layer.g.empty()) continue;
    Real sum = 0, of_sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += dg[i], of_sum += of_dg[i];
    see(3, got.dg[0], sum, (c + (static_cast<Real>(n) / 16 + 6) * u) * of_sum);
  }
  std::printf("errors of one token's gradients, as shares of their bounds: %.3f %.3f %.3f %.3f %.3f %.3f\n",
              worst[0], worst[1], worst[2], worst[3], worst[4], worst[5]);
  for (const double share : worst) {
    CHECK(share <= 1);
    CHECK(share > 0.005);
  }
}

TEST_CASE("special values of gradients of the delta rule") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(),
                  infinity = std::numeric_limits<float>::infinity();
  constexpr std::size_t tokens = 40, n = 5, m = 20, at = 20;
  Random random(11);
  Layer layer;
  layer.tokens = tokens, layer.key_dim = n, layer.value_dim = m;
  layer.draw(random, 1);
  layer.beta = drawn(random, tokens, 1), layer.g = drawn(random, tokens, 1);
  layer.state = drawn(random, n * m, 1), layer.dfinal = drawn(random, n * m, 1);
  const auto from = [](const Floats &x, std::size_t first, std::size_t last) {
    return Floats(x.begin() + static_cast<std::ptrdiff_t>(first),
                  x.begin() + static_cast<std::ptrdiff_t>(last));
  };
  for_each_usable_isa([&](const std::string &isa) {
    CAPTURE(isa);
    const Layer::Gradients plain = layer.run();
    const auto same_rows = [&](const Layer::Gradients &got, std::size_t first, std::size_t last) {
      return same(from(got.dq, first * n, last * n), from(plain.dq, first * n, last * n)) &&
             same(from(got.dk, first * n, last * n), from(plain.dk, first * n, last * n)) &&
             same(from(got.dv, first * m, last * m), from(plain.dv, first * m, last * m)) &&
             same(from(got.dg, first, last), from(plain.dg, first, last)) &&
             same(from(got.dbeta, first, last), from(plain.dbeta, first, last));
    };
    for (const float bad : {nan, infinity}) {
      Layer with = layer;
      with.q[at * n + 1] = bad;
      Layer::Gradients got = with.run();
      CHECK(same_rows(got, at + 1, tokens));
      CHECK(!std::isfinite(got.dv[at * m]));
      with = layer;
      with.dout[at * m + 3] = bad;
      got = with.run();
      CHECK(same_rows(got, at + 1, tokens));
      CHECK(!std::isfinite(got.dq[at * n]));
      with = layer;
      with.v[at * m + 3] = bad;
      got = with.run();
      CHECK(same_rows(got, 0, at));
      CHECK(same(got.dv, plain.dv));
      CHECK(!std::isfinite(got.dbeta[at]));
    }
    Layer with = layer;
    with.g[at] = -infinity;
    const Layer::Gradients got = with.run();
    CHECK(got.dg[at] == 0);
    // Nothing of what comes later reaches tokens before it.
    Layer shorter = layer;
    shorter.tokens = at;
    shorter.q.resize(at * n), shorter.k.resize(at * n), shorter.v.resize(at * m), shorter.dout.resize(at * m);
    shorter.g.resize(at), shorter.beta.resize(at), shorter.dfinal.clear();
    CHECK(from(got.dv, 0, at * m) == shorter.run().dv);
  });
}

TEST_CASE("without tokens dstate is dfinal") {
  Layer layer;
  layer.tokens = 0, layer.key_dim = 3, layer.value_dim = 5;
  CHECK(same(layer.run().dstate, Floats(15, 0.0f)));
  Random random(8);
  layer.dfinal = drawn(random, 15, 1);
  layer.dfinal[4] = 0x1p-140f;
  CHECK(same(layer.run().dstate, layer.dfinal));
}

TEST_CASE("chunks of long sequences, and threads, have the bits of one call") {
  Random random(9);
  Layer layer;
  layer.tokens = 2100, layer.key_dim = 3, layer.value_dim = 5, layer.v_heads = 4,
  layer.q_heads = layer.k_heads = 2;
  layer.draw(random, 1);
  for (float &x : layer.k) x *= 0.3f;
  layer.g = drawn(random, layer.rows() * 4, 0.1), layer.beta = drawn(random, layer.rows() * 4, 1);
  for (float &x : layer.g) x = -std::fabs(x);
  const Layer::Gradients whole = layer.run();
  CHECK(layer.run(true) == whole);
  // Two calls, of the tokens before one and after it.
  Layer first = layer;
  constexpr std::size_t cut = 1000;
  const rapt_delta_rule_options o = layer.options();
  const auto rows = [&](const Floats &x, std::size_t heads, std::size_t row, std::size_t begin,
                        std::size_t end) {
    Floats made;
    for (std::size_t head = 0; head < heads; ++head) {
      const auto at = [&](std::size_t t) {
        return x.begin() + static_cast<std::ptrdiff_t>((head * layer.tokens + t) * row);
      };
      made.insert(made.end(), at(begin), at(end));
    }
    return made;
  };
  const auto part = [&](std::size_t begin, std::size_t end) {
    Layer made = layer;
    made.tokens = end - begin;
    made.q = rows(layer.q, 2, 3, begin, end), made.k = rows(layer.k, 2, 3, begin, end);
    made.v = rows(layer.v, 4, 5, begin, end), made.dout = rows(layer.dout, 4, 5, begin, end);
    made.g = rows(layer.g, 4, 1, begin, end), made.beta = rows(layer.beta, 4, 1, begin, end);
    return made;
  };
  first = part(0, cut);
  Layer second = part(cut, layer.tokens);
  second.state.resize(layer.states());
  rapt_delta_rule_options of_first = first.options();
  of_first.final_state = second.state.data();
  std::size_t bytes = 0;
  REQUIRE(rapt_delta_rule_workspace(&of_first, &bytes) == RAPT_OK);
  std::vector<unsigned char> workspace(bytes);
  Floats out(first.dout.size());
  REQUIRE(rapt_delta_rule(first.q.data(), first.k.data(), first.v.data(), out.data(), &of_first,
                          workspace.data(), bytes) == RAPT_OK);
  const Layer::Gradients later = second.run();
  first.dfinal = later.dstate;
  const Layer::Gradients sooner = first.run();
  CHECK(same(sooner.dstate, whole.dstate));
  CHECK(same(sooner.dk, rows(whole.dk, 2, 3, 0, cut)));
  CHECK(same(later.dq, rows(whole.dq, 2, 3, cut, layer.tokens)));
  CHECK(same(sooner.dg, rows(whole.dg, 4, 1, 0, cut)));

  Layer::Gradients made = whole;
  for (Floats *x : {&made.dq, &made.dk, &made.dv}) std::ranges::fill(*x, -7.0f);
  rapt_delta_rule_gradients d = RAPT_DELTA_RULE_GRADIENTS_INIT;
  d.dout = layer.dout.data();
  d.dq = made.dq.data(), d.dk = made.dk.data(), d.dv = made.dv.data();
  CHECK(rapt_parallel_delta_rule_backward(layer.q.data(), layer.k.data(), layer.v.data(), &o, &d, nullptr) ==
        RAPT_OK);
  CHECK(made == whole);
  for (Floats *x : {&made.dq, &made.dk, &made.dv}) std::ranges::fill(*x, -7.0f);
  const auto in_turn = [](std::size_t threads, const auto &work) {
    for (std::size_t i = 0; i < threads; ++i) work(i);
  };
  CHECK(rapt::parallel_delta_rule_backward(layer.q.data(), layer.k.data(), layer.v.data(), o, d, 3,
                                           in_turn) == RAPT_OK);
  CHECK(made == whole);
}

TEST_CASE("the workspace of gradients is as small as rapt.h says") {
  rapt_delta_rule_options o = RAPT_DELTA_RULE_OPTIONS_INIT;
  o.key_dim = 128;
  o.q_heads = 16;
  std::size_t bytes = 0, more = 0;
  o.tokens = 1024;
  REQUIRE(rapt_delta_rule_backward_workspace(&o, &bytes) == RAPT_OK);
  CHECK(bytes < 6'000'000);
  o.v_heads = 32;
  REQUIRE(rapt_delta_rule_backward_workspace(&o, &more) == RAPT_OK);
  CHECK(more == bytes + 2 * 1024 * 128 * sizeof(float));
  o.v_heads = 16;
  o.tokens = 4096;
  REQUIRE(rapt_delta_rule_backward_workspace(&o, &bytes) == RAPT_OK);
  CHECK(bytes < 12'000'000);
  o.tokens = std::size_t{1} << 40;
  o.key_dim = std::size_t{1} << 20;
  CHECK(rapt_delta_rule_backward_workspace(&o, &bytes) == RAPT_BAD_SIZE);
}

TEST_CASE("arguments of rapt_delta_rule_backward that no drawn call has") {
  Layer layer;
  layer.tokens = 2, layer.key_dim = 4, layer.value_dim = 4;
  Random random(1);
  layer.draw(random, 1);
  rapt_delta_rule_options o = layer.options();
  rapt_delta_rule_gradients d = RAPT_DELTA_RULE_GRADIENTS_INIT;
  Floats dq(8, -1.0f), dk(8, -1.0f), dv(8, -1.0f), state(48, -1.0f);
  std::vector<unsigned char> workspace(1 << 20);
  d.dout = layer.dout.data();
  d.dq = dq.data(), d.dk = dk.data(), d.dv = dv.data();
  const auto status = [&] {
    return rapt_delta_rule_backward(layer.q.data(), layer.k.data(), layer.v.data(), &o, &d, workspace.data(),
                                    workspace.size());
  };
  std::size_t number = 0;
  CHECK(rapt_delta_rule_backward_tasks(&o, nullptr) == RAPT_BAD_OUT);
  CHECK(rapt_delta_rule_backward_workspace(nullptr, &number) == RAPT_BAD_OPTIONS);
  CHECK(rapt_delta_rule_backward_run(layer.q.data(), layer.k.data(), layer.v.data(), &o, &d, 0, 2,
                                     workspace.data(), workspace.size()) == RAPT_BAD_TASKS);
  CHECK(rapt_delta_rule_backward(layer.q.data(), layer.k.data(), layer.v.data(), &o, nullptr,
                                 workspace.data(), workspace.size()) == RAPT_BAD_GRADIENTS);
  d.dstate = state.data();
  d.dstate_strides = {16, 16, 2, 3};
  CHECK(status() == RAPT_BAD_STATE_STRIDES);
  d.dstate_strides = {0, 0, 0, 0};
  d.dfinal = state.data();
  CHECK(status() == RAPT_BAD_OVERLAP);
  d.dfinal = nullptr;
  d.dv = dk.data();
  CHECK(status() == RAPT_BAD_OVERLAP);
  d.dv = dv.data();
  for (const Floats *x : {&dq, &dk, &dv, &state})
    CHECK(std::ranges::all_of(*x, [](float y) { return y == -1.0f; }));
  // The forward call's outputs have no effect.
  o.final_state = state.data();
  o.state_window = 3;
  o.out_strides = {8, 8, 4};
  CHECK(status() == RAPT_OK);
  CHECK(std::ranges::all_of(state, [](float y) { return y == -1.0f; }) == false);  // it is dstate
}
