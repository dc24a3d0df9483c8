// Checks numbers worked out by hand, which show how the scale 1/sqrt(d_k) affects attention.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <vector>

#include "rapt/rapt.h"
#include "support/attention_call.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

std::vector<float> softmax_of(const std::vector<float> &x, float scale = 1) {
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  options.scale = scale;
  std::vector<float> y(x.size());
  REQUIRE(rapt_softmax_f32(x.data(), 0, y.data(), 0, 1, x.size(), &options) == RAPT_OK);
  return y;
}

void check_rounded(const std::vector<float> &got, const std::vector<double> &expected, double half_unit) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CHECK(std::fabs(double{got[i]} - expected[i]) <= half_unit);
  }
}

}  // namespace

TEST_CASE("a dot product, and the same scaled by 1 / sqrt(4)") {
  on_every_level([] {
    const float q[] = {1, 0, 1, 0}, k[] = {0, 1, 1, 1};
    CHECK(rapt_dot_f32(q, k, 4) == 1.0f);
    float score = 0;
    rapt_dot_rows_f32(q, k, 4, 1, 4, 1 / std::sqrt(4.0f), &score);
    CHECK(score == 0.5f);
  });
}

TEST_CASE("softmax of small rows") {
  on_every_level([] {
    check_rounded(softmax_of({14, 10, 12}), {0.867, 0.016, 0.117}, 5e-4);
    const float eighth = 1 / std::sqrt(64.0f);
    const std::vector<float> scaled = softmax_of({14, 10, 12}, eighth);
    check_rounded(scaled, {0.419, 0.254, 0.326}, 5.1e-4);
    const std::vector<float> scaled_before = softmax_of({14 * eighth, 10 * eighth, 12 * eighth});
    for (std::size_t i = 0; i < 3; ++i) CHECK(bits_of(scaled[i]) == bits_of(scaled_before[i]));

    check_rounded(softmax_of({5, 1, 0.5}), {0.971, 0.018, 0.011}, 5.1e-4);

    // Probabilities far below the rounding error of 1 do not become 0, because they are normal numbers.
    const std::vector<float> extreme = softmax_of({50, 10, 5});
    CHECK(extreme[0] == 1.0f);
    CHECK(std::fabs(double{extreme[1]} - 4.2e-18) <= 0.05e-18);
    CHECK(std::fabs(double{extreme[2]} - 2.9e-20) <= 0.05e-20);
  });
}

// d_k is 4, so the scores are half of the dot products: 14, 10 and 12. Causality hides the last key from the
// first query.
TEST_CASE("attention over three keys") {
  on_every_level([] {
    const std::vector<float> q = {2, 0, 2, 4, 2, 0, 2, 4};
    const std::vector<float> k = {2, 9, 2, 5, 2, 9, 0, 4, 0, 9, 2, 5};  // dot products 28, 20, 24
    const std::vector<float> v = {1, 0, 100, 0, 1, 100, 0, 0, -200};
    rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
    options.q_len = 2;
    options.kv_len = 3;
    options.qk_dim = 4;
    options.v_dim = 3;
    options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
    AttentionResults<float> results;
    results.out.resize(6);
    results.lse.resize(2);
    run_attention(q, k, v, options, results);
    const std::vector<float> &out = results.out;
    // The second query sees all keys: weights 0.867, 0.016, 0.117, and 100 * (0.867 + 0.016) - 200 * 0.117 =
    // 64.8.
    check_rounded({out[3], out[4]}, {0.867, 0.016}, 5e-4);
    check_rounded({out[5]}, {64.8}, 0.1);
    // The first query sees two keys: 1 / (1 + e^-4) = 0.982.
    check_rounded({out[0], out[1], out[2]}, {0.98201, 0.01799, 100}, 5e-6);
    check_rounded(results.lse, {14 + 0.01815, 14 + 0.14293}, 2e-5);
  });
}

TEST_CASE("a query scale of 0") {
  on_every_level([] {
    const float zero[4] = {};
    const auto mean_of = [&](float key, auto option) {
      const std::vector<float> q = {2}, k = {key, 5, 7, 9}, v = {6, 2, 4, 8};
      rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
      options.q_len = 1;
      options.kv_len = 4;
      options.qk_dim = 1;
      options.query_scales = zero;
      option(options);
      AttentionResults<float> results;
      results.out.resize(1);
      results.lse.resize(1);
      run_attention(q, k, v, options, results);
      return results.out[0];
    };
    const auto plain = [](auto &) {};
    const auto bias = [&](auto &o) { o.bias = zero; };
    const auto slopes = [&](auto &o) { o.alibi_slopes = zero; };
    const auto softcap = [](auto &o) { o.softcap = 1; };
    constexpr float beyond = std::numeric_limits<float>::max(),
                    infinity = std::numeric_limits<float>::infinity();
    CHECK(mean_of(3, softcap) == 5);
    CHECK(std::isnan(mean_of(beyond, softcap)));  // the product with the query is infinite
    for (const float key : {3.0f, beyond, -beyond}) {
      CHECK(mean_of(key, plain) == 5);
      CHECK(mean_of(key, bias) == 5);
      CHECK(mean_of(key, slopes) == 5);
    }
    CHECK(std::isnan(mean_of(-infinity, plain)));
    CHECK(std::isnan(mean_of(-infinity, bias)));
    CHECK(std::isnan(mean_of(-infinity, slopes)));
  });
}

TEST_CASE("a constant added to all logits changes nothing") {
  on_every_level([] {
    const std::vector<float> far = softmax_of({100, 102, 103}), near = softmax_of({-3, -1, 0});
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(std::fabs(double{far[i]} - double{near[i]}) <= 12 * 0x1p-24 * double{near[i]});
    }
    check_rounded(softmax_of({100, 102, 103}, 0.1f), {0.280, 0.342, 0.378}, 5.1e-4);
  });
}

TEST_CASE("scaling keeps softmax from being one-hot") {
  on_every_level([] {
    check_rounded(softmax_of({-20, 3, 25, -15}), {0, 0, 1, 0}, 3e-10);
    check_rounded(softmax_of({-20, 3, 25, -15}, 0.125f), {0.0034, 0.0595, 0.9309, 0.0063}, 5.1e-5);
  });
}

TEST_CASE("the variance of a dot product is d_k, and 1 after scaling by 1 / sqrt(d_k)") {
  on_every_level([] {
    const std::size_t samples = native_or_emulated<std::size_t>(2000, 400);
    for (std::size_t d_k = 4; d_k <= 1024; d_k *= 4) {
      CAPTURE(d_k);
      Random random(d_k);
      const double d = static_cast<double>(d_k);
      const float factors[] = {1, static_cast<float>(1 / std::sqrt(d)), static_cast<float>(1 / d)};
      const double expected[] = {d, 1, 1 / d};
      double sum[3] = {}, sum_of_squares[3] = {};
      std::vector<float> q(d_k), k(d_k);
      for (std::size_t s = 0; s < samples; ++s) {
        for (float &value : q) value = static_cast<float>(random.gaussian());
        for (float &value : k) value = static_cast<float>(random.gaussian());
        for (int f = 0; f < 3; ++f) {
          float score = 0;
          rapt_dot_rows_f32(q.data(), k.data(), 0, 1, d_k, factors[f], &score);
          sum[f] += double{score};
          sum_of_squares[f] += double{score} * double{score};
        }
      }
      const double count = static_cast<double>(samples);
      for (int f = 0; f < 3; ++f) {
        const double mean = sum[f] / count;
        const double variance = sum_of_squares[f] / count - mean * mean;
        // This is the relative standard error of the sample variance of a sum of d products.
        const double standard_error = std::sqrt((2 + 6 / d) / count);
        CHECK(std::fabs(variance / expected[f] - 1) <= 4.5 * standard_error);
      }
    }
  });
}

TEST_CASE("unscaled scores of d_k = 512 leave no gradient") {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    constexpr std::size_t d_k = 512, keys = 64;
    const std::size_t queries = native_or_emulated<std::size_t>(200, 40);
    Random random(512);
    std::vector<double> unscaled, scaled;
    std::vector<float> q(d_k), k(d_k * keys), scores(keys), y(keys), dy(keys), dx(keys);
    for (std::size_t query = 0; query < queries; ++query) {
      for (float &value : q) value = static_cast<float>(random.gaussian());
      for (float &value : k) value = static_cast<float>(random.gaussian());
      for (float &value : dy) value = static_cast<float>(random.gaussian());
      rapt_dot_rows_f32(q.data(), k.data(), d_k, keys, d_k, 1.0f, scores.data());
      for (const bool is_scaled : {false, true}) {
        y = softmax_of(scores, is_scaled ? 1 / std::sqrt(512.0f) : 1.0f);
        REQUIRE(rapt_softmax_backward_f32(y.data(), 0, dy.data(), 0, dx.data(), 0, 1, keys, 1.0f) == RAPT_OK);
        for (const float value : dx) (is_scaled ? scaled : unscaled).push_back(std::fabs(double{value}));
      }
    }
    const auto median = [](std::vector<double> values) {
      std::sort(values.begin(), values.end());
      return values[values.size() / 2];
    };
    std::printf("%-8s median magnitude of a score's gradient: %.3g unscaled, %.3g scaled\n", isa.c_str(),
                median(unscaled), median(scaled));
    CHECK(median(unscaled) < median(scaled) * 1e-6);
  });
}
