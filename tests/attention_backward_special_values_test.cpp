// The special values that only attention's gradient has, and its sums over heads and sequences, on every usable
// level. (Excluded keys: attention_special_values_test.cpp.)
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/attention_special_values.hpp"

using namespace rapt::test;

TEST_CASE_TEMPLATE("a row with nothing visible has no gradient and adds to nothing", T, float, double) {
  on_every_level([] {
    for (const std::size_t keys : gradient_key_counts()) {
      for (const std::size_t queries : Sizes{3, 20, 70}) {
        for (const T special : {quiet_nan<T>, infinity<T>, T(2)}) {
          CAPTURE(keys);
          CAPTURE(queries);
          DenseAttention<T> plain(queries, keys, 9, 5);
          plain.hide_all_from(1);
          plain.bias.assign(queries * keys, T(0.5));
          DenseAttention<T> call = plain;
          plain.run();
          call.spoil_query(1, special);
          call.run();
          CHECK(differences(call, plain) == 0);
          CHECK(all_plus_zero(call.dq_of(1)));
          CHECK(all_plus_zero(std::span(call.dbias).subspan(keys, keys)));
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("a value that is not finite reaches only the rows and keys that see it", T, float,
                   double) {
  on_every_level([] {
    for_each_place(gradient_key_counts(), 3, [](std::size_t keys, std::size_t place) {
      if (keys < 3) return;
      for (const T special : {quiet_nan<T>, infinity<T>}) {
        // Query 1 of 3 does not see the key; query 2 sees nothing else.
        DenseAttention<T> plain(3, keys, 6, 4, place);
        plain.hide(1, place);
        for (std::size_t j = 0; j < keys; ++j) {
          if (j != place) plain.hide(2, j);
        }
        DenseAttention<T> by_key = plain, by_query = plain, by_dout = plain;
        plain.run();
        by_key.spoil_key(place, special);
        by_key.run();
        CHECK(differences(by_key.dq_of(1), plain.dq_of(1)) == 0);
        CHECK(all_nan(by_key.dq_of(0)));
        // Keys that query 2 does not see keep their gradients.
        by_query.spoil_query(2, special);
        by_query.run();
        for (const std::size_t i : Sizes{0, 1}) CHECK(differences(by_query.dq_of(i), plain.dq_of(i)) == 0);
        std::size_t wrong = 0;
        for (std::size_t j = 0; j < keys; ++j) {
          const std::size_t differ =
              differences(by_query.dk_of(j), plain.dk_of(j)) + differences(by_query.dv_of(j), plain.dv_of(j));
          wrong += j == place ? differ == 0 : differ;
        }
        CHECK(wrong == 0);
        // One element of dout reaches that element of dv, and every ds of its row.
        by_dout.dout[2] = special;
        by_dout.run();
        for (std::size_t j = 0; j < keys; ++j) {
          for (std::size_t d = 0; d < 4; ++d) {
            const T got = by_dout.dv_of(j)[d], expected = plain.dv_of(j)[d];
            const bool right = d == 2 ? !std::isfinite(got) : same_bits(got, expected);
            if (!right && expected != 0) FAIL_CHECK("dout: key " << j << ", dimension " << d);
          }
        }
        for (const std::size_t i : Sizes{1, 2}) CHECK(differences(by_dout.dq_of(i), plain.dq_of(i)) == 0);
      }
    });
  });
}

// A product of 0 and a scale that is not finite would be NaN.
TEST_CASE_TEMPLATE("a query's scale reaches only the keys that the query sees", T, float, double) {
  on_every_level([] {
    for (const std::size_t queries : Sizes{3, 20}) {
      for (const T special : {quiet_nan<T>, infinity<T>, -infinity<T>}) {
        constexpr std::size_t keys = 70;
        DenseAttention<T> plain(queries, keys, 4, 5);
        plain.query_scales.assign(queries, T(1));
        for (std::size_t j = 1; j < keys; ++j) plain.hide(1, j);
        DenseAttention<T> call = plain;
        plain.run();
        call.query_scales[1] = special;
        call.run();
        for (std::size_t j = 1; j < keys; ++j) {
          CHECK(differences(call.dk_of(j), plain.dk_of(j)) == 0);
          CHECK(differences(call.dv_of(j), plain.dv_of(j)) == 0);
        }
        for (std::size_t i = 0; i < queries; ++i) {
          if (i != 1) CHECK(differences(call.dq_of(i), plain.dq_of(i)) == 0);
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("no gradient is -0", T, float, double) {
  on_every_level([] {
    const auto make_tiny = [](std::vector<T> &values) {
      for (T &value : values) value = value < 0 ? -least_subnormal<T> : least_subnormal<T>;
    };
    for (const std::size_t keys : gradient_key_counts()) {
      DenseAttention<T> plain(5, keys, 4, 33, keys);
      plain.sinks = {T(-0.5)};
      plain.bias.assign(5 * keys, T(0));
      // Products that underflow are zeros too.
      DenseAttention<T> zero_values = plain, tiny_dout = plain, tiny_values = plain;
      for (std::size_t i = 0; i < plain.v.size(); ++i) zero_values.v[i] = i % 3 == 0 ? T(0) : T(-0.0);
      make_tiny(tiny_dout.dout);
      make_tiny(tiny_values.v);
      std::ranges::fill(tiny_values.dout, T(0.75));
      for (DenseAttention<T> *call : {&zero_values, &tiny_dout, &tiny_values}) {
        call->run();
        for (const auto *values : {&call->dq, &call->dk, &call->dv, &call->dbias, &call->dsinks})
          CHECK(!any_minus_zero(*values));
      }
    }
    // Only the sink's gradient: -1/2 of the smallest number.
    DenseAttention<T> call(1, 1, 1, 1);
    call.sinks = {T(0)};
    call.q[0] = 0;
    call.v[0] = 4 * least_subnormal<T>;
    call.dout[0] = T(0.5);
    call.run();
    CHECK(all_plus_zero(call.dsinks));
  });
}

// The log-sum-exp of such scores is rounded by more than 1, but no weight is above 1.
TEST_CASE_TEMPLATE("scores beyond all precision", T, float, double) {
  on_every_level([] {
    for (const double scale : {1e12, 1e20, 1e28}) {
      DenseAttention<T> call(9, 70, 4, 3);
      call.options.scale = scale;
      call.run();
      CHECK(call.results_are_finite());
      double most = 0, sum = 0;
      for (const T value : call.dv) most = std::max(most, std::fabs(double{value}));
      for (const T value : call.dout) sum += std::fabs(double{value});
      CHECK(most <= sum);
    }
  });
}

TEST_CASE_TEMPLATE("a bias that repeats has the sum of the gradients", T, float, double) {
  on_every_level([] {
    constexpr std::size_t heads = 3, queries = 30, keys = 75;
    DenseAttention<T> each(queries, keys, 8, 8, 3, heads);
    for (std::size_t i = 0; i < heads * queries * keys; ++i) {
      const std::size_t j = i % keys;
      each.bias.push_back(j == 7 ? -infinity<T> : static_cast<T>(j % 5) / T(4));
    }
    DenseAttention<T> summed = each;
    each.run();
    for (int repeats = 1; repeats < 4; ++repeats) {
      CAPTURE(repeats);
      const bool by_head = repeats & 1, by_token = repeats & 2;
      constexpr auto row = static_cast<std::ptrdiff_t>(keys);
      const std::ptrdiff_t of_head = by_token ? row : row * static_cast<std::ptrdiff_t>(queries);
      summed.options.bias_strides = {0, by_head ? RAPT_REPEAT : of_head, by_token ? RAPT_REPEAT : row};
      summed.run();
      CHECK(differences(summed.dq, each.dq) + differences(summed.dk, each.dk) +
                differences(summed.dv, each.dv) ==
            0);
      for (std::size_t h = 0; h < (by_head ? 1 : heads); ++h) {
        for (std::size_t i = 0; i < (by_token ? 1 : queries); ++i) {
          for (std::size_t j = 0; j < keys; ++j) {
            // This is the chain that rapt.h describes: token by token, and within a token head by head.
            T sum = 0;
            for (std::size_t token = i; token < (by_token ? queries : i + 1); ++token) {
              for (std::size_t head = h; head < (by_head ? heads : h + 1); ++head)
                sum = sum + each.dbias[(head * queries + token) * keys + j];
            }
            const T got = summed.dbias[(h * (by_token ? 1 : queries) + i) * keys + j];
            if (!same_bits(got, sum)) FAIL_CHECK("head " << h << " query " << i << " key " << j);
            if (j == 7) CHECK(is_plus_zero(got));
          }
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("a head's sinks", T, float, double) {
  on_every_level([] {
    DenseAttention<T> call(40, 33, 8, 8, 3, 3);
    call.sinks = {-infinity<T>, T(1), T(1e6)};
    call.run();
    DenseAttention<T> small = call;  // weights just below the least one, and above it
    const T least = T(std::log(2.0)) * T(sizeof(T) == 4 ? -125 : -1021);
    small.sinks = {least - T(30), least + T(30), T(0)};
    small.run();
    CHECK(is_plus_zero(small.dsinks[0]));
    CHECK(small.dsinks[1] != T(0));
    CHECK(is_plus_zero(call.dsinks[0]));
    // A sink that leaves nothing to the keys has no gradient.
    CHECK(is_plus_zero(call.dsinks[2]));
    double expected = 0;
    for (std::size_t i = 40; i < 80; ++i) {
      double mean = 0;
      for (std::size_t d = 0; d < 8; ++d) mean += double{call.dout_of(i)[d]} * double{call.out_of(i)[d]};
      expected -= std::exp(1 - double{call.lse[i]}) * mean;
    }
    CHECK(std::fabs(expected - double{call.dsinks[1]}) < (sizeof(T) == 4 ? 1e-5 : 1e-13));
  });
}

// Such a row's sink has a weight of 1, and its gradient is NaN times the output of 0.
TEST_CASE_TEMPLATE("a dout that is not finite, of a row with nothing visible, reaches its sink alone", T,
                   float, double) {
  on_every_level([] {
    DenseAttention<T> plain(3, 5, 4, 3);
    plain.sinks = {T(0.5)};
    plain.hide_all_from(1);
    DenseAttention<T> call = plain;
    plain.run();
    call.dout_of(1)[0] = infinity<T>;
    call.run();
    CHECK(std::isnan(call.dsinks[0]));
    CHECK(differences(call.dq, plain.dq) + differences(call.dk, plain.dk) + differences(call.dv, plain.dv) ==
          0);
  });
}
