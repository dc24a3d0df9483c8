// rapt.h's special values of attention, on every usable level. Excluded keys are tried forwards and backwards
// at once.
#include "support/attention_special_values.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

using namespace rapt::test;

namespace {

template <class T>
std::vector<Exclusion<DenseAttention<T>>> attention_exclusions_of_all(std::size_t keys) {
  using Problem = DenseAttention<T>;
  const auto far = static_cast<std::ptrdiff_t>(keys);
  auto exclusions = exclusions_of_all<Problem>();
  exclusions.push_back({"no keys", true, [](Problem &call) { call.options.kv_len = 0; }});
  exclusions.push_back({"a window before the query", true, [=](Problem &call) {
                          set_causal_offset(call, far + 2);
                          call.options.window_left = 3;
                        }});
  exclusions.push_back({"a chunk of positions behind the keys", true, [=](Problem &call) {
                          set_causal_offset(call, far);
                          call.options.window_chunk = keys;
                        }});
  return exclusions;
}

}  // namespace

TEST_CASE_TEMPLATE("rows with nothing visible", T, float, double) {
  on_every_level([] {
    for (const std::size_t keys : key_counts()) {
      for (const bool has_sink : {false, true}) {
        for (const auto &exclusion : attention_exclusions_of_all<T>(keys)) {
          CAPTURE(keys);
          CAPTURE(std::string(exclusion.name));
          DenseAttention<T> call(3, keys, 9, 5);
          for (std::size_t j = 0; j < keys; ++j) call.spoil_key(j, j % 2 ? quiet_nan<T> : infinity<T>);
          if (has_sink) call.sinks = {T(-1.5)};
          exclusion.apply(call);
          call.run();
          CHECK(all_plus_zero(call.out));
          CHECK(all_are(call.lse, has_sink ? T(-1.5) : -infinity<T>));
          CHECK(all_plus_zero(call.dq));
          CHECK(all_plus_zero(call.dbias));
          CHECK(all_plus_zero(call.dsinks));
          for (std::size_t j = 0; j < call.options.kv_len; ++j) CHECK(call.key_gradient_is_zero(j));
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("no queries, no keys", T, float, double) {
  on_every_level([] {
    DenseAttention<T> call(2, 5, 4, 3);
    call.sinks = {T(1)};
    call.options.q_len = 0;
    call.run();
    for (const auto *results : {&call.out, &call.lse, &call.dq}) CHECK(all_are(*results, call.unwritten));
    for (const auto *results : {&call.dk, &call.dv, &call.dsinks}) CHECK(all_plus_zero(*results));
    std::size_t tasks = 99, length = 99;
    CHECK(rapt_attention_tasks(&call.options, &tasks) == RAPT_OK);
    CHECK(tasks == 0);
    CHECK(rapt_attention_partial_tasks(&call.options, &tasks, &length) == RAPT_OK);
    CHECK(tasks == 0);
    CHECK(length == 0);
    call.options.q_len = 2;
    call.options.kv_len = 0;
    call.run();
    CHECK(all_plus_zero(call.dq));
    CHECK(all_are(call.dk, call.unwritten));
  });
}

TEST_CASE_TEMPLATE("an excluded key is never read into a result, and has no gradient", T, float, double) {
  on_every_level([] {
    for_each_place(key_counts(), 1, [](std::size_t keys, std::size_t place) {
      if (keys == 1) return;
      using Problem = DenseAttention<T>;
      auto exclusions = exclusions_of<Problem>(place);
      exclusions.push_back({"a window", false, [=](Problem &call) {
                              set_causal_offset(call, static_cast<std::ptrdiff_t>(keys));
                              call.options.window_left = keys - place;
                            }});
      for (const T special : {quiet_nan<T>, infinity<T>, -infinity<T>, largest<T>}) {
        for (const auto &exclusion : exclusions) {
          Problem harmless(2, keys, 7, 9, keys), spoilt = harmless;
          spoilt.spoil_key(place, special);
          for (Problem *call : {&harmless, &spoilt}) {
            exclusion.apply(*call);
            call->run();
          }
          const std::size_t wrong = differences(spoilt, harmless);
          if (wrong != 0 || !spoilt.results_are_finite() || !spoilt.key_gradient_is_zero(place))
            FAIL_CHECK("excluded by " << std::string(exclusion.name) << ": " << wrong << " results differ");
        }
        if (keys > 300) break;  // the first special value is enough
      }
    });
  });
}

// A scale reaches only the results of its query, and only if the query sees a key.
TEST_CASE_TEMPLATE("a query whose scale is not finite", T, float, double) {
  on_every_level([] {
    for (const std::size_t keys : key_counts()) {
      for (const std::size_t queries : Sizes{3, 12, 40}) {  // few rows, and many
        for (const T special : {quiet_nan<T>, infinity<T>, -infinity<T>}) {
          CAPTURE(keys);
          CAPTURE(queries);
          DenseAttention<T> plain(queries, keys, 4, 5, keys), call = plain;
          plain.run_forward();
          call.query_scales.assign(queries, T(1));
          call.query_scales[1] = call.query_scales[2] = special;
          call.hide_all_from(1);
          call.run_forward();
          CHECK(all_plus_zero(call.out_of(1)));
          CHECK(call.lse[1] == -infinity<T>);
          if (std::isnan(special)) CHECK(call.row_is_nan(2));
          CHECK(differences(call.out_of(0), plain.out_of(0)) == 0);
        }
      }
    }
  });
}

// Its other scores are 0, so that its output is a mean.
TEST_CASE_TEMPLATE("a query scale of 0 and an infinite dot product", T, float, double) {
  on_every_level([] {
    for (const std::size_t queries : Sizes{3, 40}) {  // few rows, and many
      for (const T zero : {T(0), -T(0)}) {
        CAPTURE(queries);
        DenseAttention<T> call(queries, 5, 4, 3);
        std::fill_n(call.q.begin() + 4, 4, T(1));
        call.query_scales.assign(queries, T(1));
        call.query_scales[1] = zero;
        call.k[2 * 4] = -infinity<T>;
        DenseAttention<T> hidden = call;
        hidden.k[2 * 4] = 1;
        hidden.hide(1, 2);
        call.run_forward();
        hidden.run_forward();
        CHECK(differences(call.out_of(1), hidden.out_of(1)) == 0);
        CHECK(same_bits(call.lse[1], hidden.lse[1]));
        call.options.softcap = 5;
        call.run_forward();
        CHECK(call.row_is_nan(1));
        call.options.softcap = 0;
        call.k[2 * 4] = infinity<T>;
        call.run_forward();
        CHECK(call.row_is_nan(1));
      }
    }
  });
}

TEST_CASE_TEMPLATE("a visible NaN or +inf makes its own row NaN", T, float, double) {
  on_every_level([] {
    for_each_place(key_counts(), 1, [](std::size_t keys, std::size_t place) {
      // Query 1 of 3 does not see the key.
      DenseAttention<T> harmless(3, keys, 6, 4, place);
      harmless.hide(1, place);
      DenseAttention<T> by_key = harmless, by_bias = harmless, by_infinity = harmless, by_query = harmless,
                        by_value = harmless, with_bias = harmless;
      with_bias.bias.assign(3 * keys, T(0));
      by_bias.bias = with_bias.bias;
      harmless.run_forward();
      with_bias.run_forward();
      std::ranges::fill(by_key.key(place), quiet_nan<T>);
      for (const std::size_t i : Sizes{0, 2}) std::ranges::fill(by_infinity.query(i), T(1));
      std::ranges::fill(by_infinity.key(place), infinity<T>);
      by_bias.bias[place] = quiet_nan<T>;
      by_bias.bias[2 * keys + place] = infinity<T>;
      for (DenseAttention<T> *call : {&by_key, &by_bias, &by_infinity}) {
        call->run_forward();
        if (!call->row_is_nan(0) || !call->row_is_nan(2)) FAIL_CHECK("a NaN was lost");
        DenseAttention<T> &expected = call == &by_bias ? with_bias : harmless;
        if (differences(call->out_of(1), expected.out_of(1)) != 0) FAIL_CHECK("a NaN leaked");
      }
      // A query of NaN spoils only its row.
      by_query.q[0] = quiet_nan<T>;
      by_query.run_forward();
      if (!by_query.row_is_nan(0)) FAIL_CHECK("a NaN of a query was lost");
      for (const std::size_t i : Sizes{1, 2}) {
        if (differences(by_query.out_of(i), harmless.out_of(i)) != 0) FAIL_CHECK("a NaN of a query leaked");
      }
      // A value of NaN spoils only its dimension, where the key is seen.
      by_value.value(place)[2] = quiet_nan<T>;
      by_value.run_forward();
      for (const std::size_t i : Sizes{0, 2}) harmless.out_of(i)[2] = quiet_nan<T>;
      if (differences(by_value.out, harmless.out) != 0) FAIL_CHECK("a NaN of a value leaked, or was lost");
    });
  });
}

// A partial result's largest score ignores NaN, wherever in a block NaN is.
TEST_CASE_TEMPLATE("NaN is not a largest score", T, float, double) {
  on_every_level([] {
    for (const std::size_t queries : Sizes{1, 20}) {  // few rows, and many
      for (const bool has_mask : {false, true}) {
        for_each_place({64}, 1, [&](std::size_t keys, std::size_t place) {
          for (std::size_t apart = 1; apart < keys; apart *= 2) {
            DenseAttention<T> call(queries, keys, 1, 1);
            std::ranges::fill(call.q, T(1));
            std::ranges::fill(call.k, T(-1));
            call.k[place] = quiet_nan<T>;
            call.k[(place + apart) % keys] = T(5);
            if (has_mask) call.mask.assign(queries * keys, 1);
            call.bind_options();
            std::size_t tasks = 0, length = 0;
            REQUIRE(rapt_attention_partial_tasks(&call.options, &tasks, &length) == RAPT_OK);
            REQUIRE(length == queries * 3);
            std::vector<unsigned char> workspace = workspace_for(call.options);
            std::vector<T> partials(length);
            REQUIRE(rapt_attention_partial(call.q.data(), call.k.data(), call.v.data(), partials.data(),
                                           &call.options, 0, tasks, workspace.data(),
                                           workspace.size()) == RAPT_OK);
            for (std::size_t i = 0; i < queries; ++i) {
              CHECK(partials[3 * i] == T(5));
              CHECK(std::isnan(partials[3 * i + 1]));
            }
          }
        });
      }
    }
  });
}

TEST_CASE_TEMPLATE("a score of -inf has weight 0", T, float, double) {
  on_every_level([] {
    for_each_place(key_counts(), 1, [](std::size_t keys, std::size_t place) {
      if (keys == 1) return;
      DenseAttention<T> seen(2, keys, 3, 4, place);
      for (T &value : seen.q) value = T(0.5) + std::fabs(value);
      std::ranges::fill(seen.key(place), -infinity<T>);
      DenseAttention<T> excluded = seen;
      for (const std::size_t i : Sizes{0, 1}) excluded.hide(i, place);
      seen.run_forward();
      excluded.run_forward();
      CHECK(differences(seen, excluded) == 0);
    });
    // A row of only such scores is like a row with nothing visible.
    for (const std::size_t keys : key_counts()) {
      for (const bool has_sink : {false, true}) {
        DenseAttention<T> call(1, keys, 3, 4);
        std::ranges::fill(call.q, T(1));
        std::ranges::fill(call.k, -infinity<T>);
        if (has_sink) call.sinks = {T(2)};
        call.run_forward();
        CHECK(all_plus_zero(call.out));
        CHECK(same_bits(call.lse[0], has_sink ? T(2) : -infinity<T>));
      }
    }
  });
}

TEST_CASE_TEMPLATE("one visible key gives its values", T, float, double) {
  on_every_level([] {
    for_each_place(key_counts(), 1, [](std::size_t keys, std::size_t place) {
      if (keys > 513) return;
      for (const double scale : {0.0, 1.0, -3.0, 1e-30}) {
        for (const double softcap : {0.0, 20.0}) {
          DenseAttention<T> call(1, keys, 5, 6, place);
          for (std::size_t j = 0; j < keys; ++j) {
            if (j != place) call.spoil_key(j, quiet_nan<T>);
          }
          const std::span<T> value = call.value(place);
          value[0] = T(-0.0);
          value[1] = largest<T>;
          value[2] = least_subnormal<T>;
          call.mask.assign(keys, 0);
          call.mask[place] = 200;
          call.options.scale = scale;
          call.options.softcap = softcap;
          call.run_forward();
          value[0] = T(0);
          CHECK(differences(call.out_of(0), value) == 0);
        }
      }
    });
  });
}

TEST_CASE_TEMPLATE("no output is -0", T, float, double) {
  on_every_level([] {
    for (const std::size_t keys : key_counts()) {
      DenseAttention<T> call(3, keys, 4, 33);
      for (std::size_t i = 0; i < call.v.size(); ++i) call.v[i] = i % 3 == 0 ? T(0) : T(-0.0);
      // Products that underflow are zeros too.
      if (keys > 2) std::ranges::fill(call.value(keys - 2), -least_subnormal<T>);
      for (const bool with_sink : {false, true}) {
        if (with_sink) call.sinks = {T(200)};
        call.run_forward();
        CHECK(!any_minus_zero(call.out));
      }
    }
  });
}

TEST_CASE_TEMPLATE("sinks", T, float, double) {
  on_every_level([] {
    for (const std::size_t keys : Sizes{1, 3, 70, 600}) {
      DenseAttention<T> without(2, keys, 8, 8, keys);
      without.run_forward();
      const auto with_sink = [&](T sink) {
        DenseAttention<T> other = without;
        other.sinks = {sink};
        other.run_forward();
        return other;
      };
      CHECK(differences(with_sink(-infinity<T>), without) == 0);
      DenseAttention<T> one = with_sink(T(0)), large = with_sink(T(1e6));
      for (std::size_t i = 0; i < 2; ++i) {
        // A sink of 0 is softmax1: it adds 1 to the sum.
        const double sum = std::exp(double{without.lse[i]});
        for (std::size_t d = 0; d < 8; ++d) {
          const double expected = double{without.out_of(i)[d]} * sum / (1 + sum);
          CHECK(std::fabs(double{one.out_of(i)[d]} - expected) < 1e-5);
        }
        CHECK(std::fabs(double{one.lse[i]} - std::log1p(sum)) < 1e-5);
        // A sink that dominates leaves nothing.
        CHECK(all_plus_zero(large.out_of(i)));
        CHECK(same_bits(large.lse[i], T(1e6)));
        // The largest number overflows where it is multiplied by log2(e).
        for (const T special : {quiet_nan<T>, infinity<T>, largest<T>})
          CHECK(with_sink(special).row_is_nan(i));
      }
    }
  });
}

// A row with nothing visible has its sink for a log-sum-exp, whatever the number is.
TEST_CASE_TEMPLATE("a sink that is not finite, and rows with nothing visible", T, float, double) {
  on_every_level([] {
    for (const std::size_t queries : Sizes{3, 12, 40}) {  // few rows, and many
      for (const T sink : {quiet_nan<T>, infinity<T>, largest<T>}) {
        CAPTURE(queries);
        CAPTURE(sink);
        DenseAttention<T> call(queries, 70, 9, 5);
        call.hide_all_from(1);
        call.sinks = {sink};
        call.run_forward();
        for (const std::size_t i : Sizes{0, 2}) CHECK(call.row_is_nan(i));
        if (std::isnan(sink)) {
          CHECK(call.row_is_nan(1));
        } else {
          CHECK(all_plus_zero(call.out_of(1)));
          CHECK(same_bits(call.lse[1], sink));
        }
      }
    }
  });
}

// The weighted sum comes before the division by the sum of weights.
TEST_CASE_TEMPLATE("values near the largest number", T, float, double) {
  on_every_level([] {
    for (const std::size_t keys : key_counts()) {
      for (const std::size_t queries : Sizes{1, 20}) {
        CAPTURE(keys);
        CAPTURE(queries);
        DenseAttention<T> call(queries, keys, 4, 3);
        std::ranges::fill(call.q, T(0));  // all weights are 1
        const T most = largest<T> / static_cast<T>(keys) * T(0.999);
        std::ranges::fill(call.v, most);
        call.run_forward();
        for (const T value : call.out)
          CHECK(std::fabs(value / most - 1) < 512 * std::numeric_limits<T>::epsilon());
        if (keys == 1) continue;
        std::ranges::fill(call.v, largest<T>);
        call.run_forward();
        CHECK(all_are(call.out, infinity<T>));
      }
    }
  });
}
