// Tests that partial results have the format that rapt.h describes: the position and meaning of each number.
// A merge in plain loops must give the bits of rapt_attention_merge.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "contract/attention.hpp"
#include "contract/log.hpp"
#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/elements.hpp"
#include "support/every_level.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

constexpr std::size_t batch = 2, q_heads = 4, kv_heads = 2, q_len = 3, kv_len = 1100, qk_dim = 24, v_dim = 8;
constexpr std::size_t chunks = 3, chunk = 512, rows = batch * q_heads * q_len;

// Holds a call whose queries and keys are small integers, so that every dot product is exact.
template <class Q, class KV>
struct Call {
  using A = Number<Q>;

  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  std::vector<Q> q;
  std::vector<KV> k, v;
  std::vector<A> bias, slopes, sinks, query_scales;
  std::vector<float> k_scales, v_scales;
  std::vector<std::uint8_t> mask;

  Call() {
    Random random(33);
    const auto integers = [&](auto &to, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i)
        to.push_back(static_cast<typename std::decay_t<decltype(to)>::value_type>(
            static_cast<float>(static_cast<int>(random.below(9)) - 4)));
    };
    integers(q, rows * qk_dim);
    integers(k, batch * kv_heads * kv_len * qk_dim);
    integers(v, batch * kv_heads * kv_len * v_dim);
    options.q_type = options.out_type = Api<Q>::type;
    options.kv_type = sizeof(KV) == 1 ? RAPT_I8 : Api<Q>::type;
    options.batch = batch;
    options.q_heads = q_heads;
    options.kv_heads = kv_heads;
    options.q_len = q_len;
    options.kv_len = kv_len;
    options.qk_dim = qk_dim;
    options.v_dim = v_dim;
    if (sizeof(KV) == 1) {
      k_scales.assign(batch * kv_heads * kv_len, 0.5f);
      v_scales.assign(batch * kv_heads * kv_len, 0.25f);
      options.k_scales = k_scales.data();
      options.v_scales = v_scales.data();
    }
  }

  // Computes every chunk in a separate call. keep(c) returns the keys and values for chunk c.
  template <class Keep>
  std::vector<A> partials(Keep keep) {
    std::size_t tasks = 0, length = 0;
    REQUIRE(rapt_attention_partial_tasks(&options, &tasks, &length) == RAPT_OK);
    REQUIRE(tasks % chunks == 0);
    REQUIRE(length == rows * chunks * (v_dim + 2));
    std::vector<A> numbers(length, A(77));
    std::vector<unsigned char> workspace = workspace_for(options);
    for (std::size_t c = chunks; c-- > 0;) {
      const auto [keys, values] = keep(c);
      REQUIRE(rapt_attention_partial(q.data(), keys.data(), values.data(), numbers.data(), &options,
                                     c * (tasks / chunks), (c + 1) * (tasks / chunks), workspace.data(),
                                     workspace.size()) == RAPT_OK);
    }
    return numbers;
  }
  std::vector<A> partials() {
    return partials([&](std::size_t) { return std::pair(k, v); });
  }
};

// ---- the merge that rapt.h describes

template <class A>
struct Row {
  A f;  // factor of the scores
  A sink = -std::numeric_limits<A>::infinity();
};

template <class A>
A w(A x, A t) {
  using C = AttentionContract<A>;
  if (std::isnan(x)) return x;
  if (x <= C::lowest_log2 / t) return 0;
  const A n = std::fma(x, t, C::round_magic) - C::round_magic, r = std::fma(x, t, -n);
  A p = C::c[C::coefficient_count - 1];
  for (std::size_t i = C::coefficient_count - 1; i-- > 0;) p = std::fma(p, r, C::c[i]);
  return std::ldexp(std::fma(p, r, A(1)), static_cast<int>(n));
}

template <class A>
struct Merged {
  A out[v_dim], lse;
};

// Merges the chunks of a row. `numbers` is [chunks][v_dim + 2].
template <class A>
Merged<A> merge(const A *numbers, const Row<A> &row) {
  constexpr double log2_e = 1.4426950408889634;
  constexpr A infinity = std::numeric_limits<A>::infinity();
  const A t = static_cast<A>(double{row.f} * log2_e);
  A M = -infinity, S = 0, V[v_dim] = {};
  for (std::size_t c = 0; c < chunks; ++c, numbers += v_dim + 2) {
    const A m = numbers[0], top = std::max(M, m), reference = top == -infinity ? A(0) : top;
    const A a = w(M - reference, t), b = w(m - reference, t);
    S = std::fma(numbers[1], b, S * a);
    for (std::size_t d = 0; d < v_dim; ++d) V[d] = std::fma(numbers[2 + d], b, V[d] * a);
    M = top;
  }
  Merged<A> result{};
  if (M == -infinity && S == 0) {
    result.lse = row.sink;
    return result;
  }
  A g = 1;
  double base = double{row.f} * double{M};
  // Scores of a few thousand have weights of 1 in bf16 arithmetic too (lone_scores_test.cpp has larger ones).
  if (row.sink != -infinity) {
    const A y = static_cast<A>(double{row.sink} * log2_e), top = std::max(M * t, y);
    g = w(M * t - top, A(1));
    S = std::fma(S, g, w(y - top, A(1)));
    if (y > M * t) base = double{row.sink};
  }
  for (std::size_t d = 0; d < v_dim; ++d) result.out[d] = V[d] * (g / S) + A(0);
  const bool finite = std::isfinite(S) && std::isfinite(base);
  result.lse = finite ? static_cast<A>(base + log_of_sum(double{S})) : std::numeric_limits<A>::quiet_NaN();
  return result;
}

// ---- the tests

template <class A, class Call>
Row<A> row_of(const Call &call, std::size_t row, double scale, bool capped) {
  if (!call.query_scales.empty()) scale *= double{call.query_scales[row]};
  Row<A> of{capped ? A(1) : static_cast<A>(std::max(std::fabs(scale), 0x1p-64))};
  if (!call.sinks.empty()) of.sink = call.sinks[row / q_len % q_heads];
  return of;
}

template <class Q, class KV>
void check_merge(Call<Q, KV> &call, bool capped = false) {
  using A = Number<Q>;
  const std::vector<A> numbers = call.partials();
  rapt_attention_options o = call.options;
  o.out_type = Api<A>::type;
  std::vector<A> out(rows * v_dim), lse(rows);
  o.lse = lse.data();
  std::size_t tasks = 0;
  REQUIRE(rapt_attention_tasks(&o, &tasks) == RAPT_OK);
  std::vector<unsigned char> workspace = workspace_for(o);
  REQUIRE(rapt_attention_merge(numbers.data(), out.data(), &o, 0, tasks, workspace.data(),
                               workspace.size()) == RAPT_OK);
  std::size_t outputs = 0, sums = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const Merged<A> expected = merge(&numbers[r * chunks * (v_dim + 2)], row_of<A>(call, r, o.scale, capped));
    for (std::size_t d = 0; d < v_dim; ++d) outputs += same_bits(out[r * v_dim + d], expected.out[d]);
    sums += same_bits(lse[r], expected.lse);
  }
  CHECK(outputs == rows * v_dim);
  CHECK(sums == rows);
}

template <class Q, class KV>
void check_merges(int arithmetic) {
  using A = Number<Q>;
  const auto check = [&](const char *what, bool capped, auto change) {
    CAPTURE(std::string(what));
    Call<Q, KV> call;
    call.options.arithmetic = arithmetic;
    call.options.scale = 0.25;  // exact in A, so Row::f is not rounded
    change(call);
    check_merge(call, capped);
  };
  Random random(9);
  const auto draw = [&](std::vector<A> &to, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) to.push_back(static_cast<A>(random.gaussian()));
    return to.data();
  };
  check("scale", false, [](auto &) {});
  check("negative scale", false, [](auto &call) { call.options.scale = -0.125; });
  check("large scores", false, [](auto &call) { call.options.scale = 8; });
  check("sinks", false, [&](auto &call) {
    call.options.sinks = draw(call.sinks, q_heads);
    call.sinks[1] = -std::numeric_limits<A>::infinity();
    call.sinks[2] = 50;
  });
  check("softcap", true, [](auto &call) { call.options.softcap = 3; });
  check("slopes and sinks", false, [&](auto &call) {
    call.options.alibi_slopes = draw(call.slopes, q_heads);
    call.options.sinks = draw(call.sinks, q_heads);
  });
  check("bias", false, [&](auto &call) {
    call.options.bias = draw(call.bias, kv_len);
    call.options.bias_strides = {RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
  });
  // The query scales are powers of 2, so that scale * query_scale is exact in A, or 0, which makes all
  // weights 1.
  check("query scales", false, [&](auto &call) {
    for (std::size_t r = 0; r < rows; ++r) call.query_scales.push_back(r % 7 == 3 ? A(0) : A(1 << r % 3));
    call.options.query_scales = call.query_scales.data();
  });
  check("empty chunks", false, [](auto &call) {
    call.mask.assign(rows * kv_len, 1);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t j = 0; j < kv_len; ++j) call.mask[r * kv_len + j] = r % 8 >> (j / chunk) & 1;
    }
    call.options.mask = call.mask.data();
  });
  check("NaN among the scores", false, [](auto &call) {
    if constexpr (std::is_same_v<Q, KV>) call.k[600 * qk_dim] = std::numeric_limits<KV>::quiet_NaN();
  });
}

TEST_CASE("a merge by the text has the bits of rapt_attention_merge") {
  on_every_level([] {
    check_merges<float, float>(RAPT_ARITHMETIC_F32);
    check_merges<double, double>(RAPT_ARITHMETIC_DEFAULT);
    check_merges<F16, F16>(RAPT_ARITHMETIC_F32);
    check_merges<BF16, BF16>(RAPT_ARITHMETIC_F32);
    check_merges<BF16, BF16>(RAPT_ARITHMETIC_BF16);
    check_merges<float, std::int8_t>(RAPT_ARITHMETIC_DEFAULT);
    check_merges<BF16, std::int8_t>(RAPT_ARITHMETIC_DEFAULT);
  });
}

// A call for one chunk must not read keys and values of other chunks. Here they are NaN.
template <class Q, class KV>
void check_chunks_alone(int arithmetic) {
  Call<Q, KV> call;
  call.options.arithmetic = arithmetic;
  const auto whole = call.partials();
  const auto alone = call.partials([&](std::size_t c) {
    auto keys = call.k, values = call.v;
    for (std::size_t i = 0; i < batch * kv_heads * kv_len; ++i) {
      if (i % kv_len / chunk == c) continue;
      std::fill_n(&keys[i * qk_dim], qk_dim, std::numeric_limits<KV>::quiet_NaN());
      std::fill_n(&values[i * v_dim], v_dim, std::numeric_limits<KV>::quiet_NaN());
    }
    return std::pair(keys, values);
  });
  CHECK(std::memcmp(whole.data(), alone.data(), whole.size() * sizeof whole[0]) == 0);
}

TEST_CASE("the tasks of a chunk read that chunk alone") {
  on_every_level([] {
    check_chunks_alone<float, float>(RAPT_ARITHMETIC_F32);
    check_chunks_alone<double, double>(RAPT_ARITHMETIC_DEFAULT);
    check_chunks_alone<BF16, BF16>(RAPT_ARITHMETIC_BF16);
  });
}

}  // namespace
}  // namespace rapt::test
