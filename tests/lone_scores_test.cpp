// Tests rows in which one score, or the sink, is all that counts: it is the log-sum-exp, and its
// log-probability is 0.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "rapt/rapt.h"
#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

// ---- rows

enum class Others { none, masked, minus_infinity, far_below, past_the_length, later };
constexpr Others all_others[] = {Others::none,      Others::masked,          Others::minus_infinity,
                                 Others::far_below, Others::past_the_length, Others::later};
enum class Sink { none, minus_infinity, far_below, far_above };
constexpr Sink all_sinks[] = {Sink::none, Sink::minus_infinity, Sink::far_below, Sink::far_above};

// Counts the results that differ from the score, for rows of n elements.
template <class T>
std::size_t wrong_rows(std::size_t n, double scale, Others others, Sink sink, Random &random) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const bool is_first = others == Others::past_the_length || others == Others::later;
  const std::size_t lone = is_first ? 0 : random.below(n);
  const auto value = static_cast<T>(random.gaussian() * (random.one_in(3) ? 3000 : 4));
  const auto rest = static_cast<T>(value - std::copysign(5000, scale));
  std::vector<T> x(n,
                   others == Others::minus_infinity ? static_cast<T>(std::copysign(infinity, -scale)) : rest);
  x[lone] = value;
  const T score = static_cast<T>(scale * double{value});
  std::vector<std::uint8_t> mask(n);
  mask[lone] = 1;
  const std::size_t length = 1;
  const T given_sink =
      sink == Sink::minus_infinity ? -infinity : score + (sink == Sink::far_below ? -T(900) : T(900));
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  options.scale = scale;
  if (others == Others::masked) options.mask = mask.data();
  if (others == Others::past_the_length) options.row_lengths = &length;
  if (others == Others::later) options.causal = RAPT_CAUSAL_TOP_LEFT;
  if (sink != Sink::none) options.sinks = &given_sink;

  T lse = 0;
  std::vector<T> logarithm(n);
  const auto stride = static_cast<std::ptrdiff_t>(n);
  REQUIRE(Api<T>::logsumexp(x.data(), stride, &lse, 1, n, &options) == RAPT_OK);
  REQUIRE(Api<T>::log_softmax(x.data(), stride, logarithm.data(), stride, 1, n, &options) == RAPT_OK);
  if (sink == Sink::far_above) return !same_bits(lse, given_sink);
  return !same_bits(lse, score) + !same_bits(logarithm[lone], T(0));
}

TEST_CASE_TEMPLATE("a row whose sum is one exponential", T, float, double) {
  on_every_level([] {
    Random random(5);
    for (const std::size_t n : Sizes{1, 2, 17, 64, 300, 2200, 140000}) {
      if (emulated() && n > 300) continue;
      const std::size_t draws = n > 2200 ? 1 : n > 300 ? 5 : native_or_emulated<std::size_t>(40, 15);
      for (const Others others : all_others) {
        if (others == Others::none && n > 1) continue;
        for (const Sink sink : all_sinks) {
          for (const double scale : {1.0, 0.3, -0.3, 0.125, -7.1}) {
            CAPTURE(n);
            CAPTURE(static_cast<int>(others));
            CAPTURE(static_cast<int>(sink));
            CAPTURE(scale);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < draws; ++i) wrong += wrong_rows<T>(n, scale, others, sink, random);
            CHECK(wrong == 0);
          }
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("one visible element with a bias, a softcap or 16 bits", E, float, double, F16, BF16) {
  using A = Number<E>;
  on_every_level([] {
    Random random(6);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < 200; ++i) {
      const E x(i % 8 == 0 ? -A(0) : static_cast<A>(4 * random.gaussian()));
      const auto bias = static_cast<A>(random.gaussian());
      E y(A(1));
      rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
      if (i % 2) options.bias = &bias;
      if (i % 3) options.softcap = 3;
      REQUIRE(Api<E>::log_softmax(&x, 0, &y, 0, 1, 1, &options) == RAPT_OK);
      wrong += !same_bits(y, E(A(0)));
      if constexpr (sizeof(E) > 2) {
        if (i % 3) continue;
        A lse = 0;
        REQUIRE(Api<E>::logsumexp(&x, 0, &lse, 1, 1, &options) == RAPT_OK);
        wrong += !same_bits(lse, (i % 2 ? x + bias : x) + A(0));
      }
    }
    CHECK(wrong == 0);
  });
}

// ---- attention

template <class Q, class KV>
struct Call {
  using A = Number<Q>;
  static constexpr std::size_t rows = 40, keys = 1100, dim = 24;

  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  std::vector<Q> q;
  std::vector<KV> k, v;
  std::vector<float> scales = std::vector<float>(keys, 0.0371f);

  explicit Call(int arithmetic) {
    Random random(7);
    const auto draw = [&](auto &to, std::size_t count, double size) {
      for (std::size_t i = 0; i < count; ++i) {
        to.push_back(
            typename std::decay_t<decltype(to)>::value_type(static_cast<A>(size * random.gaussian())));
      }
    };
    draw(q, rows * dim, 1);
    draw(k, keys * dim, sizeof(KV) == 1 ? 40 : 1);
    draw(v, keys * dim, sizeof(KV) == 1 ? 40 : 1);
    options.q_type = options.out_type = Api<Q>::type;
    options.kv_type = sizeof(KV) == 1 ? RAPT_I8 : Api<Q>::type;
    options.arithmetic = arithmetic;
    options.q_len = rows;
    options.kv_len = keys;
    options.qk_dim = dim;
    if (sizeof(KV) == 1) options.k_scales = options.v_scales = scales.data();
  }

  // Compares the log-sum-exp of every row, of a call and of the merge of its chunks, with the largest score of
  // the partial results times `f`, or with the sink if there is one. Returns how many differ.
  std::size_t wrong(double f, const A *expected_sink = nullptr) {
    const std::size_t queries = options.q_len;
    std::vector<A> lse(queries), merged(queries);
    std::vector<Q> out(queries * dim);
    std::vector<unsigned char> workspace = workspace_for(options);
    std::size_t tasks = 0, partial_tasks = 0, length = 0;
    REQUIRE(rapt_attention_tasks(&options, &tasks) == RAPT_OK);
    REQUIRE(rapt_attention_partial_tasks(&options, &partial_tasks, &length) == RAPT_OK);
    std::vector<A> partials(length);
    options.lse = lse.data();
    REQUIRE(rapt_attention(q.data(), k.data(), v.data(), out.data(), &options, workspace.data(),
                           workspace.size()) == RAPT_OK);
    options.lse = merged.data();
    REQUIRE(rapt_attention_partial(q.data(), k.data(), v.data(), partials.data(), &options, 0, partial_tasks,
                                   workspace.data(), workspace.size()) == RAPT_OK);
    REQUIRE(rapt_attention_merge(partials.data(), out.data(), &options, 0, tasks, workspace.data(),
                                 workspace.size()) == RAPT_OK);
    const std::size_t chunks = length / queries / (dim + 2);
    std::size_t count = 0;
    for (std::size_t r = 0; r < queries; ++r) {
      A score = -std::numeric_limits<A>::infinity();
      for (std::size_t c = 0; c < chunks; ++c)
        score = std::max(score, partials[(r * chunks + c) * (dim + 2)]);
      const A expected = expected_sink ? *expected_sink : static_cast<A>(f * double{score});
      count += !same_bits(lse[r], expected) + !same_bits(merged[r], expected);
    }
    return count;
  }
};

template <class Q, class KV>
void check_attention(int arithmetic) {
  using A = Number<Q>;
  constexpr A infinity = std::numeric_limits<A>::infinity();
  Random random(8);
  for (const double scale : {0.2041241452319315, -3.0, 1.0, 60000.7}) {
    CAPTURE(scale);
    Call<Q, KV> call(arithmetic);
    const std::size_t rows = call.rows, keys = call.keys;
    call.options.scale = scale;
    const A sinks[] = {-infinity, A(-1e30), A(1e30)};
    const double f = std::fabs(scale);
    const auto check = [&](double factor) {
      for (const std::size_t q_len : {std::size_t{1}, rows}) {  // the ways of few and of many rows
        CAPTURE(q_len);
        call.options.q_len = q_len;
        CHECK(call.wrong(factor) == 0);
        for (const A &sink : sinks) {
          CAPTURE(sink);
          call.options.sinks = &sink;
          CHECK(call.wrong(factor, sink > 0 ? &sink : nullptr) == 0);
        }
        call.options.sinks = nullptr;
      }
    };
    std::vector<std::uint8_t> mask(rows * keys);
    for (std::size_t r = 0; r < rows; ++r) mask[r * keys + random.below(keys)] = 1;
    call.options.mask = mask.data();
    check(f);
    const A slope = A(0.37);
    call.options.alibi_slopes = &slope;
    check(f);
    call.options.softcap = 5;
    check(1);
    call.options = Call<Q, KV>(arithmetic).options;
    call.options.scale = scale;
    call.options.kv_len = 1;
    if (sizeof(KV) == 1) call.options.k_scales = call.options.v_scales = call.scales.data();
    check(f);
  }
}

TEST_CASE("attention of one visible key") {
  on_every_level([] {
    check_attention<float, float>(RAPT_ARITHMETIC_F32);
    check_attention<double, double>(RAPT_ARITHMETIC_DEFAULT);
    check_attention<F16, F16>(RAPT_ARITHMETIC_F32);
    check_attention<BF16, BF16>(RAPT_ARITHMETIC_F32);
    check_attention<BF16, BF16>(RAPT_ARITHMETIC_BF16);
    check_attention<float, std::int8_t>(RAPT_ARITHMETIC_DEFAULT);
  });
}

}  // namespace
}  // namespace rapt::test
