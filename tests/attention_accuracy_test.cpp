// Tests that attention has the accuracy that rapt.h promises, compared with results in long double. Only the
// scalar level is measured, because all levels give the same bits.
#include "support/attention_accuracy.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/attention_oracle.hpp"
#include "support/effort.hpp"
#include "support/elements.hpp"
#include "support/worst_errors.hpp"

using namespace rapt::test;

namespace {

// If `any` is set, compares the errors with the bound for any input. With a sink, lse has only this bound.
template <class T>
void measure(const oracle::Attention<T> &a, const AttentionResults<T> &results, WorstErrors &worst, bool any,
             rapt_arithmetic arithmetic = RAPT_ARITHMETIC_F32) {
  for (std::size_t h = 0; h < a.q_heads; ++h) {
    for (std::size_t i = 0; i < a.q_len; ++i) {
      const std::size_t row = a.row({}, 0, h, i);
      const oracle::AttentionTruth truth = oracle::attention_truth(a, 0, h, i);
      REQUIRE(truth.is_finite);
      if (truth.is_empty) continue;
      const AttentionErrors errors =
          attention_errors<T>(truth, {results.out.data() + row * a.v_dim, a.v_dim}, results.lse[row]);
      const AttentionErrors underflow = attention_underflow<T>(a, truth, 0, h, i, arithmetic),
                            bounds = attention_bounds(a.qk_dim, truth, arithmetic) + underflow,
                            worst_bounds =
                                attention_worst_bounds(a.qk_dim, a.keys(0), truth, arithmetic) + underflow;
      worst.see("out", errors.out, any ? worst_bounds.out : bounds.out);
      worst.see("lse", errors.lse, any || !a.sinks.empty() ? worst_bounds.lse : bounds.lse);
    }
  }
}
template <class T>
void measure(const oracle::Attention<T> &a, WorstErrors &worst, bool any = false) {
  measure(a, run_forward(a), worst, any);
}

// Converts the arrays to bf16 and runs the call. Their numbers must be exact in bf16.
AttentionResults<float> run_as_bf16(const oracle::Attention<float> &a, rapt_arithmetic arithmetic) {
  const auto stored = [](const std::vector<float> &x) {
    std::vector<BF16> made;
    for (const float number : x) made.push_back(BF16(number));
    return made;
  };
  const std::vector<BF16> q = stored(a.q), k = stored(a.k), v = stored(a.v);
  AttentionResults<float> results;
  results.out.resize(a.rows({}) * a.v_dim);
  results.lse.resize(a.rows({}));
  rapt_attention_options o = options_of(a);
  o.q_type = RAPT_BF16;
  o.kv_type = RAPT_BF16;
  o.out_type = RAPT_F32;
  o.arithmetic = arithmetic;
  o.lse = results.lse.data();
  std::vector<unsigned char> workspace = workspace_for(o);
  REQUIRE(rapt_attention(q.data(), k.data(), v.data(), results.out.data(), &o, workspace.data(),
                         workspace.size()) == RAPT_OK);
  return results;
}

}  // namespace

TEST_CASE_TEMPLATE("ordinary attention", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  for (const std::size_t dim : Sizes{1, 8, 64, 128, 576}) {
    WorstErrors worst;
    for (const std::size_t keys : Sizes{1, 5, 64, 300, 512, 1300, 5000}) {
      if (emulated() && keys > 300) continue;
      for (const double sigma : {0.1, 1.0, 3.0}) {
        Random random(keys + dim);
        oracle::Attention<T> a = normal_attention<T>({keys < 1000 ? 6u : 2u, keys, dim, 16}, random, sigma);
        measure(a, worst);
        a.v = draw<T>(keys * 16, [&] { return 1 + random.uniform(); });  // nothing cancels
        measure(a, worst);
        a.q = draw<T>(a.q_len * dim, [&] { return 1e-3 * sigma * random.gaussian(); });  // equal weights
        measure(a, worst);
      }
    }
    worst.print<T>("qk_dim " + std::to_string(dim));
  }
}

TEST_CASE_TEMPLATE("options that scores are made of", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  for (const ScoreOption<T> &option : score_options<T>) {
    WorstErrors worst;
    for (const std::size_t keys : Sizes{7, 64, 700}) {
      Random random(keys);
      oracle::Attention<T> a = normal_attention<T>({8, keys, 24, 8, 4, 2}, random);
      option.set(a, random);
      measure(a, worst);
    }
    worst.print<T>(option.name);
  }
}

// The partial sums are all rounded in the same direction, so their errors add up.
TEST_CASE_TEMPLATE("sums that are made to lose", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  WorstErrors equal, growing, one_large;
  for (const std::size_t keys : Sizes{64, 500, 512, 1024, 5000, 20000}) {
    if (emulated() && keys > 512) continue;
    Random random(keys);
    oracle::Attention<T> a = normal_attention<T>({1, keys, 1, 40}, random);
    a.q = {T(0)};
    a.k.assign(keys, T(1));
    const std::vector<T> column = draw<T>(40, [&] { return 1 + random.uniform(); });
    for (std::size_t i = 0; i < a.v.size(); ++i) a.v[i] = column[i % 40];
    measure(a, equal, true);
    // The first key has weight 1, and each other weight is just below half a unit of 1.
    oracle::Attention<T> large = a;
    large.q = {T(1)};
    large.k.assign(keys, static_cast<T>(std::log(0.99 * (std::numeric_limits<T>::epsilon() / 2))));
    large.k[0] = 0;
    large.v.assign(large.v.size(), T(1));
    measure(large, one_large, true);
    // Every block of keys has a larger maximum than the block before.
    for (std::size_t j = 0; j < keys; ++j) a.k[j] = static_cast<T>(j) / static_cast<T>(keys);
    a.q = {T(8)};
    measure(a, growing, true);
  }
  equal.print<T>("equal weights and values");
  growing.print<T>("growing scores");
  one_large.print<T>("one large weight before small ones");
}

// Values and scores have few distinct numbers, as in 4-bit models.
TEST_CASE_TEMPLATE("few distinct numbers", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  WorstErrors equal, few;
  for (const std::size_t keys : Sizes{120, 512, 5000, 40000}) {
    if (emulated() && keys > 512) continue;
    Random random(keys);
    oracle::Attention<T> a = normal_attention<T>({1, keys, 1, 40}, random);
    a.q = {T(1)};
    a.k.assign(keys, T(0));
    a.v = draw<T>(a.v.size(), [] { return in_f64<T> ? 0x1.1f8ec3a6b7c8dp+0 : 0x1.1f8ecp+0; });
    measure(a, equal, true);
    a.v = draw<T>(a.v.size(), [&] { return 0.0371 * static_cast<double>(random.below(16)); });
    measure(a, few, true);
    for (const double score : {0.1, 0.4, 1.3}) {
      a.k = draw<T>(keys, [&] { return random.one_in(3) ? 0 : -score; });
      measure(a, few, true);
    }
    // Every chunk of 512 keys has a slightly larger maximum, so every merge of two chunks rescales sums.
    for (std::size_t j = 0; j < keys; ++j) a.k[j] = static_cast<T>(0.01L * static_cast<long double>(j / 512));
    measure(a, few, true);
  }
  equal.print<T>("equal scores and values");
  few.print<T>("few distinct scores and values");
}

// A sink far above the scores is rounded when it is multiplied by log2(e), and again in the log-sum-exp.
TEST_CASE_TEMPLATE("sinks that dominate", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  WorstErrors worst;
  Random random(3);
  for (std::size_t i = 0; i < native_or_emulated<std::size_t>(300, 20); ++i) {
    oracle::Attention<T> a = normal_attention<T>({1, 20, 1, 2}, random, 0.01);
    a.sinks = {static_cast<T>(i % 2 == 0 ? 88.72 + random.uniform() : 40 * random.gaussian())};
    measure(a, worst);
  }
  worst.print<T>("sinks that dominate");
}

TEST_CASE_TEMPLATE("what underflow takes from scores and values", T, float, double) {
  if (!measurable<T>) return;
  const ForcedIsa forced("scalar");
  WorstErrors worst;
  constexpr int least = std::numeric_limits<T>::min_exponent;
  for (const std::size_t keys : Sizes{1, 70, 600}) {
    Random random(keys);
    for (const int exponent : {least - 20, least - 3, least + 3, least + 10}) {
      oracle::Attention<T> a = normal_attention<T>({3, keys, 16, 8}, random, 3);
      for (T &x : a.v) x = std::ldexp(x, exponent);
      measure(a, worst, true);
    }
    for (const int exponent : {least - 16, least, least + 12}) {
      oracle::Attention<T> a = normal_attention<T>({3, keys, 16, 8}, random);
      for (T &x : a.q) x = std::ldexp(x, exponent / 2);
      for (T &x : a.k) x = std::ldexp(x, exponent - exponent / 2);
      a.scale = std::ldexp(1.0, -least - 4);
      measure(a, worst, true);
    }
  }
  worst.print<T>("products that underflow");
}

TEST_CASE("what underflow takes from bf16") {
  const ForcedIsa forced("scalar");
  WorstErrors in_f32, in_bf16;
  Random random(5);
  const auto draw_around = [&](std::size_t count, double magnitude) {
    return draw<float>(count, [&] { return double{float{BF16(magnitude * (1 + random.uniform()))}}; });
  };
  for (const std::size_t keys : Sizes{1, 40, 600}) {
    for (const double magnitude : {2e-38, 1e-37, 1e-36, 1e-34}) {
      oracle::Attention<float> a = normal_attention<float>({3, keys, 8, 8}, random);
      a.q = draw_around(a.q.size(), 1);
      a.k = draw<float>(a.k.size(), [&] { return double{float{BF16(3 * random.gaussian())}}; });
      a.v = draw_around(a.v.size(), magnitude);
      measure(a, run_as_bf16(a, RAPT_ARITHMETIC_F32), in_f32, true);
      measure(a, run_as_bf16(a, RAPT_ARITHMETIC_BF16), in_bf16, true, RAPT_ARITHMETIC_BF16);
    }
    for (const double key : {6e-19, 1e-19, 1e-18}) {
      oracle::Attention<float> a = normal_attention<float>({3, keys, 40, 8}, random);
      a.q = draw_around(a.q.size(), 1e-19);
      a.k = draw_around(a.k.size(), key);
      a.v = draw_around(a.v.size(), 1);
      for (std::size_t i = 0; i < a.v.size(); i += 3) a.v[i] = -a.v[i];
      a.scale = 1e37;
      measure(a, run_as_bf16(a, RAPT_ARITHMETIC_BF16), in_bf16, true, RAPT_ARITHMETIC_BF16);
    }
  }
  in_f32.print<BF16>("bf16 that underflows, in F32");
  in_bf16.print<BF16>("bf16 that underflows, in BF16");
}

// The gradient computes its weights from the given log-sum-exp, so the weights have the log-sum-exp's error.
TEST_CASE("gradients after a forward call in bf16 arithmetic are off by what its log-sum-exp is") {
  const ForcedIsa forced("scalar");
  Random random(9);
  constexpr std::size_t keys = 100, dim = 16;
  oracle::Attention<float> a = normal_attention<float>({1, keys, dim, dim}, random);
  for (auto *array : {&a.q, &a.k, &a.v}) {
    for (float &x : *array) x = float{BF16(x)};
  }
  rapt_attention_options o = options_of(a);
  const auto gradient = [&](rapt_arithmetic arithmetic) {
    AttentionResults<float> results = run_as_bf16(a, arithmetic);
    o.lse = results.lse.data();
    run_attention_backward(a.q, a.k, a.v, std::vector<float>(dim, 1.0f), o, 0.0f, results);
    return results.dv;
  };
  const std::vector<float> in_f32 = gradient(RAPT_ARITHMETIC_F32), in_bf16 = gradient(RAPT_ARITHMETIC_BF16);
  for (std::size_t i = 0; i < in_f32.size(); ++i) {
    const double off = std::fabs(double{in_bf16[i]} / double{in_f32[i]} - 1);
    CHECK(off <= std::expm1(0x1p-8 + 0x1p-13) + 100 * unit_of<float>);
    CHECK(off > 1000 * unit_of<float>);
  }
}
