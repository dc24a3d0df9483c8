// Attention's accuracy, as rapt.h states it, against the truth in long double. The scalar level alone is
// measured, as all levels give its bits.
#include "support/attention_accuracy.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/attention_oracle.hpp"
#include "support/effort.hpp"
#include "support/worst_errors.hpp"

using namespace rapt::test;

namespace {

template <class T>
void measure(const oracle::Attention<T> &a, WorstErrors &worst, bool any_terms = false) {
  const AttentionResults<T> results = run_forward(a);
  for (std::size_t h = 0; h < a.q_heads; ++h) {
    for (std::size_t i = 0; i < a.q_len; ++i) {
      const std::size_t row = a.row({}, 0, h, i);
      const oracle::AttentionTruth truth = oracle::attention_truth(a, 0, h, i);
      REQUIRE(truth.is_finite);
      if (truth.is_empty) continue;
      const AttentionErrors errors =
          attention_errors<T>(truth, {results.out.data() + row * a.v_dim, a.v_dim}, results.lse[row]);
      const AttentionErrors bounds =
          any_terms ? attention_worst_bounds(a.qk_dim, a.keys(0), truth) : attention_bounds(a.qk_dim, truth);
      worst.see("out", errors.out, bounds.out);
      worst.see("lse", errors.lse, bounds.lse);
    }
  }
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

// Among them equal weights and values, whose sums round the same way over and over.
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
    // The first key outweighs the others, each of which is just below half a unit of its value.
    oracle::Attention<T> large = a;
    large.q = {T(1)};
    large.k.assign(keys, static_cast<T>(std::log(0.99 * (std::numeric_limits<T>::epsilon() / 2))));
    large.k[0] = 0;
    large.v.assign(large.v.size(), T(1));
    measure(large, one_large, true);
    // Every block has a larger maximum.
    for (std::size_t j = 0; j < keys; ++j) a.k[j] = static_cast<T>(j) / static_cast<T>(keys);
    a.q = {T(8)};
    measure(a, growing, true);
  }
  equal.print<T>("equal weights and values");
  growing.print<T>("growing scores");
  one_large.print<T>("one large weight before small ones");
}
