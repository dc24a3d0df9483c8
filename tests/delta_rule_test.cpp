// Tests what the drawn calls of tests/calls do not see of rapt_delta_rule: results that CPUs flush in different ways,
// the errors of one token that rapt.h states, windows of states, and special values.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
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

constexpr float infinity = std::numeric_limits<float>::infinity();

// A head, or several, of one sequence. Empty arrays are not handed over.
struct Head {
  std::size_t tokens, key_dim, value_dim;
  std::vector<float> q, k, v, g, beta, state;
  bool columns_are_contiguous = false;
  std::size_t window = 1;
  double scale = 1;

  struct Result {
    std::vector<float> out, states;  // [window][key_dim][value_dim]
  };
  rapt_state_strides strides() const {
    const auto keys = static_cast<std::ptrdiff_t>(key_dim), values = static_cast<std::ptrdiff_t>(value_dim);
    if (columns_are_contiguous) return {keys * values, keys * values, 1, keys};
    return {keys * values, keys * values, values, 1};
  }
  // Puts a state into the order of memory, or back.
  std::vector<float> ordered(const std::vector<float> &from, bool back) const {
    if (!columns_are_contiguous) return from;
    std::vector<float> to(from.size());
    for (std::size_t first = 0; first < from.size(); first += key_dim * value_dim) {
      for (std::size_t i = 0; i < key_dim; ++i) {
        for (std::size_t j = 0; j < value_dim; ++j) {
          const std::size_t row = first + i * value_dim + j, column = first + j * key_dim + i;
          back ? to[row] = from[column] : to[column] = from[row];
        }
      }
    }
    return to;
  }
  rapt_delta_rule_options options() const {
    rapt_delta_rule_options o = RAPT_DELTA_RULE_OPTIONS_INIT;
    o.tokens = tokens;
    o.key_dim = key_dim;
    o.value_dim = value_dim;
    o.scale = scale;
    if (!g.empty()) o.g = g.data();
    if (!beta.empty()) o.beta = beta.data();
    return o;
  }
  Result run() const {
    rapt_delta_rule_options o = options();
    Result made;
    made.out.resize(tokens * value_dim, -7.0f);
    std::vector<float> after(window * key_dim * value_dim, -7.0f);
    const std::vector<float> before = ordered(state, false);
    if (!state.empty()) o.state = before.data(), o.state_strides = strides();
    o.final_state = after.data();
    o.final_strides = strides();
    if (window > 1) {
      o.state_window = window;
      o.window_stride = static_cast<std::ptrdiff_t>(key_dim * value_dim);
    }
    std::size_t bytes = 0;
    REQUIRE(rapt_delta_rule_workspace(&o, &bytes) == RAPT_OK);
    std::vector<unsigned char> workspace(bytes, 0xff);
    REQUIRE(rapt_delta_rule(q.data(), k.data(), v.data(), made.out.data(), &o, workspace.data(), bytes) ==
            RAPT_OK);
    made.states = ordered(after, true);
    return made;
  }
};

std::vector<float> drawn(Random &random, std::size_t n, double size) {
  std::vector<float> made(n);
  for (float &x : made) x = static_cast<float>(size * (2 * random.uniform() - 1));
  return made;
}

bool same(const std::vector<float> &a, const std::vector<float> &b) {
  return std::ranges::equal(
      a, b, {}, [](float x) { return canonical_bits(x); }, [](float x) { return canonical_bits(x); });
}

}  // namespace

// The product of both is tiny, but rounds up to the smallest normal number. Arm flushes it before it rounds.
TEST_CASE("sums that round up to the smallest normal number stay") {
  constexpr float below = 0x1.fffp-1f, above = 0x1.0008p-126f, least = 0x1p-126f;
  for_each_usable_isa([&](const std::string &isa) {
    INFO(isa);
    for (const std::size_t tokens : {1u, 2u, 70u}) {
      for (const std::size_t value_dim : {1u, 7u, 16u, 40u, 128u}) {
        for (const bool columns : {false, true}) {
          Head head{tokens, 3, value_dim, {}, {}, {}, {}, {}, {}, columns};
          head.q.assign(tokens * 3, 0.0f);
          head.k.assign(tokens * 3, 0.0f);
          for (std::size_t t = 0; t < tokens; ++t) head.q[3 * t + 1] = below;
          head.v.assign(tokens * value_dim, 0.0f);
          head.state.assign(3 * value_dim, 0.0f);
          for (std::size_t j = 0; j < value_dim; ++j) head.state[value_dim + j] = j % 2 == 0 ? above : -above;
          const Head::Result got = head.run();
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < got.out.size(); ++i)
            wrong += got.out[i] != (i % value_dim % 2 == 0 ? least : -least);
          CHECK(wrong == 0);
          CHECK(same(got.states, head.state));
        }
      }
    }
  });
}

TEST_CASE("subnormal operands count as zeros, and tiny results become zeros of their sign") {
  constexpr float subnormal = 0x1p-127f, least = 0x1p-126f;
  for_each_usable_isa([&](const std::string &isa) {
    INFO(isa);
    for (const bool columns : {false, true}) {
      // Of a subnormal state nothing is left.
      Head head{1, 1, 2, {1}, {0}, {0, 0}, {}, {}, {subnormal, -subnormal}, columns};
      Head::Result got = head.run();
      CHECK(got.out[0] == 0);
      CHECK(got.states[0] == 0);
      CHECK(got.states[1] == 0);
      // A decay of half makes tiny numbers.
      head.state = {least, -least};
      head.g = {-0.6931472f};
      got = head.run();
      CHECK(same(got.states, {0.0f, 0.0f}));  // +0 + k u
      // Subnormal factors.
      head = {1, 1, 1, {subnormal}, {1}, {0x1p100f}, {}, {}, {0x1p100f}, columns};
      CHECK(head.run().out[0] == 0);
      head = {1, 1, 1, {1}, {subnormal}, {0x1p100f}, {}, {}, {2}, columns};
      CHECK(head.run().states[0] == 2);
      head = {1, 1, 1, {1}, {1}, {subnormal}, {}, {}, {0}, columns};
      CHECK(head.run().states[0] == 0);
      head = {1, 1, 1, {1}, {1}, {0x1p100f}, {}, {subnormal}, {0}, columns};
      CHECK(head.run().states[0] == 0);
      // exp(-88) is subnormal.
      head = {1, 1, 1, {1}, {0}, {0}, {-88}, {}, {0x1p100f}, columns};
      CHECK(head.run().states[0] == 0);
      // The scale flushes too, and keeps the sign.
      head = {1, 1, 2, {1}, {0}, {0, 0}, {}, {}, {least, -least}, columns};
      head.scale = 0.25;
      got = head.run();
      CHECK(same(got.out, {0.0f, -0.0f}));
    }
  });
}

// States near the smallest normal number, in which most operations flush something.
TEST_CASE("tiny states have the same bits on every level, in any chunks") {
  Random random(5);
  for (std::size_t round = 0; round < 30; ++round) {
    const std::size_t key_dim = 1 + random.below(20), value_dim = 1 + random.below(70),
                      tokens = 1 + random.below(6);
    Head head{tokens, key_dim, value_dim, {}, {}, {}, {}, {}, {}, random.one_in(2)};
    head.q = drawn(random, tokens * key_dim, 2);
    head.k = drawn(random, tokens * key_dim, 2);
    head.v = drawn(random, tokens * value_dim, 0x1p-124);
    head.state = drawn(random, key_dim * value_dim, 0x1p-123);
    if (random.one_in(2)) head.beta = drawn(random, tokens, 1);
    if (random.one_in(2)) head.g = drawn(random, tokens, 1);
    head.window = tokens;
    Head::Result expected;
    for_each_usable_isa([&](const std::string &isa) {
      INFO(isa);
      const Head::Result got = head.run();
      if (expected.out.empty()) expected = got;
      CHECK(same(got.out, expected.out));
      CHECK(same(got.states, expected.states));
    });
  }
}

TEST_CASE("a window has the state after each of the last tokens") {
  Random random(6);
  for_each_usable_isa([&](const std::string &isa) {
    INFO(isa);
    for (const std::size_t tokens : {1u, 2u, 5u, 66u, 130u}) {
      for (const std::size_t window : {1u, 2u, 4u}) {
        constexpr std::size_t key_dim = 9, value_dim = 66, size = key_dim * value_dim;
        Head head{tokens, key_dim, value_dim, {}, {}, {}, {}, {}, {}, window == 2};
        head.q = drawn(random, tokens * key_dim, 0.5);
        head.k = drawn(random, tokens * key_dim, 0.5);
        head.v = drawn(random, tokens * value_dim, 1);
        head.beta = drawn(random, tokens, 1);
        head.state = drawn(random, size, 1);
        head.window = window;
        const Head::Result got = head.run();
        for (std::size_t s = 0; s < window; ++s) {
          const auto first = got.states.begin() + static_cast<std::ptrdiff_t>(s * size);
          const std::vector<float> slot(first, first + size);
          if (s >= tokens) {
            CHECK(std::ranges::all_of(slot, [](float x) { return x == -7.0f; }));
            continue;
          }
          Head shorter = head;
          shorter.tokens = tokens - s;
          shorter.window = 1;
          CHECK(same(slot, shorter.run().states));
        }
      }
    }
  });
}

TEST_CASE("one token errs by no more than rapt.h says") {
  using Real = long double;
  constexpr Real u = 0x1p-24L, f = 0x1p-126L;
  Random random(7);
  double worst_state = 0, worst_out = 0;
  for (std::size_t round = 0; round < 400; ++round) {
    const std::size_t n = 1 + random.below(round % 10 == 0 ? 300 : 40), m = 3;
    Head head{1, n, m, {}, {}, {}, {}, {}, {}};
    const double size = random.one_of({1.0, 0x1p-60, 0x1p-110, 0x1p40});
    head.q = drawn(random, n, 1);
    head.k = drawn(random, n, random.one_of({0.2, 4.0}));
    head.v = drawn(random, m, size);
    head.state = drawn(random, n * m, size);
    head.scale = random.one_of({1.0, 0.3, -7.0});
    if (random.one_in(2)) head.beta = drawn(random, 1, 1);
    if (random.one_in(2)) head.g = drawn(random, 1, 2);
    float a = 1;
    if (!head.g.empty()) rapt_exp_f32(head.g.data(), &a, 1);
    const Head::Result got = head.run();
    const Real scale = static_cast<float>(head.scale), count = static_cast<Real>(n);
    for (std::size_t j = 0; j < m; ++j) {
      Real r = 0, sum_of_r = 0, keys = 0, v = head.v[j];
      for (std::size_t i = 0; i < n; ++i) {
        const Real product = Real{head.k[i]} * a * head.state[i * m + j];
        r += product, sum_of_r += std::fabs(product), keys += std::fabs(Real{head.k[i]});
      }
      Real delta = v, most = std::fabs(v), flushes = 0;
      if (!head.beta.empty()) {
        const Real beta = head.beta[0];
        delta = beta * (v - r), most = std::fabs(beta) * (std::fabs(v) + sum_of_r);
        flushes = std::fabs(beta) * (count + 1 + keys) * f + f;
      }
      Real o = 0, terms = 0, tiny = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const Real k = head.k[i], q = head.q[i], before = Real{a} * head.state[i * m + j];
        const Real state = before + k * delta, t = std::fabs(before) + std::fabs(k) * most;
        const Real of_flushes = std::fabs(k) * flushes + 2 * f;
        const Real bound = (count + 5) * u * t + of_flushes * (1 + count * u);
        worst_state =
            std::max(worst_state, static_cast<double>(std::fabs(got.states[i * m + j] - state) / bound));
        o += q * state, terms += std::fabs(q) * t, tiny += std::fabs(q) * of_flushes;
      }
      const Real bound = std::fabs(scale) * (2 * count + 7) * u * terms +
                         (std::fabs(scale) * (tiny + count * f) + f) * (1 + 3 * count * u);
      worst_out = std::max(worst_out, static_cast<double>(std::fabs(got.out[j] - scale * o) / bound));
    }
  }
  std::printf("errors of one token: %.3f of the state's bound, %.3f of an output's\n", worst_state,
              worst_out);
  CHECK(worst_state <= 1);
  CHECK(worst_out <= 1);
  CHECK(worst_state > 0.05);
}

TEST_CASE("special values of the delta rule") {
  for_each_usable_isa([&](const std::string &isa) {
    INFO(isa);
    const std::size_t m = 20;
    Head head{2,      2, m, {1, 1, 1, 1}, {1, 0, 0, 1}, std::vector<float>(2 * m, 1.0f), {-infinity, 0},
              {1, 1}, {}};
    head.state.assign(2 * m, 3.0f);
    head.state[5] = infinity;
    head.v[7] = std::numeric_limits<float>::quiet_NaN();
    const Head::Result got = head.run();
    for (std::size_t j = 0; j < m; ++j) {
      CAPTURE(j);
      const bool is_bad = j == 5 || j == 7;
      CHECK(std::isnan(got.out[j]) == is_bad);  // 0 times infinity
      CHECK(std::isnan(got.states[j]) == is_bad);
      if (!is_bad) CHECK(got.states[j] == 1);  // nothing of the state is left
    }
  });
}

TEST_CASE("threads have the bits of one call") {
  constexpr std::size_t heads = 3, tokens = 5, dim = 130;
  Random random(9);
  const std::vector<float> q = drawn(random, heads * tokens * dim, 0.1), k = drawn(random, q.size(), 0.1),
                           v = drawn(random, q.size(), 1);
  rapt_delta_rule_options o = RAPT_DELTA_RULE_OPTIONS_INIT;
  o.tokens = tokens;
  o.q_heads = heads;
  o.key_dim = dim;
  std::size_t bytes = 0;
  REQUIRE(rapt_delta_rule_workspace(&o, &bytes) == RAPT_OK);
  std::vector<unsigned char> workspace(bytes);
  std::vector<float> out(q.size()), by_pool(q.size()), by_threads(q.size());
  REQUIRE(rapt_delta_rule(q.data(), k.data(), v.data(), out.data(), &o, workspace.data(), bytes) == RAPT_OK);
  CHECK(rapt_parallel_delta_rule(q.data(), k.data(), v.data(), by_pool.data(), &o, nullptr) == RAPT_OK);
  CHECK(same(by_pool, out));
  const auto in_turn = [](std::size_t threads, const auto &work) {
    for (std::size_t i = 0; i < threads; ++i) work(i);
  };
  CHECK(rapt::parallel_delta_rule(q.data(), k.data(), v.data(), by_threads.data(), o, 3, in_turn) == RAPT_OK);
  CHECK(same(by_threads, out));
}

TEST_CASE("without tokens the state is copied") {
  for (const bool columns : {false, true}) {
    Head head{0, 3, 5, {}, {}, {}, {}, {}, {}, columns};
    Random random(8);
    head.state = drawn(random, 15, 1);
    head.state[4] = 0x1p-140f;
    CHECK(same(head.run().states, head.state));
    head.state.clear();
    CHECK(same(head.run().states, std::vector<float>(15, 0.0f)));
  }
}

TEST_CASE("arguments of rapt_delta_rule that no drawn call has") {
  Head head{2,  4,  4, std::vector<float>(8, 0.5f), std::vector<float>(8, 0.5f), std::vector<float>(8, 1.0f),
            {}, {}, {}};
  rapt_delta_rule_options o = head.options();
  std::vector<float> out(8, -1.0f), state(48, -1.0f);
  std::vector<unsigned char> workspace(1 << 20);
  const auto status = [&] {
    return rapt_delta_rule(head.q.data(), head.k.data(), head.v.data(), out.data(), &o, workspace.data(),
                           workspace.size());
  };
  std::size_t number = 0;
  CHECK(rapt_delta_rule_tasks(&o, nullptr) == RAPT_BAD_OUT);
  CHECK(rapt_delta_rule_workspace(nullptr, &number) == RAPT_BAD_OPTIONS);
  CHECK(rapt_delta_rule_run(head.q.data(), head.k.data(), head.v.data(), out.data(), &o, 0, 2,
                            workspace.data(), workspace.size()) == RAPT_BAD_TASKS);
  o.final_state = state.data();
  o.state_window = 3;
  o.window_stride = 15;  // states of 16 would overlap
  CHECK(status() == RAPT_BAD_STATE_STRIDES);
  o.window_stride = 0;
  o.final_strides = {16, 16, 4, 1};
  CHECK(status() == RAPT_BAD_STATE_WINDOW);
  o.state = state.data();  // in place only without a window
  o.final_strides = {0, 0, 0, 0};
  CHECK(status() == RAPT_BAD_OVERLAP);
  o.state = nullptr;
  CHECK(std::ranges::all_of(out, [](float x) { return x == -1.0f; }));
  CHECK(std::ranges::all_of(state, [](float x) { return x == -1.0f; }));
  CHECK(status() == RAPT_OK);
}
