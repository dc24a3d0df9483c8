// What rapt.h says of attention's special values, its options one by one, and its memory; on every usable
// level.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "oracle/attention.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/fp_state.hpp"
#include "support/guarded_buffer.hpp"
#include "support/guarded_slot.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T quiet_nan = std::numeric_limits<T>::quiet_NaN();

template <class T>
bool is_plus_zero(T value) {
  return bits_of(value) == 0;
}

// One head over dense arrays.
template <class T>
struct Call {
  std::size_t queries, keys, qk_dim, v_dim;
  std::vector<T> q, k, v, out, lse;
  rapt_attention_options options = attention_options<T>();

  Call(std::size_t query_count, std::size_t key_count, std::size_t dim, std::size_t width,
       std::uint64_t seed = 1)
      : queries(query_count), keys(key_count), qk_dim(dim), v_dim(width) {
    Random random(seed);
    const auto draw = [&](std::size_t count) {
      std::vector<T> values(count);
      for (T &value : values) value = static_cast<T>(random.gaussian());
      return values;
    };
    q = draw(queries * qk_dim);
    k = draw(keys * qk_dim);
    v = draw(keys * v_dim);
    options.q_len = queries;
    options.kv_len = keys;
    options.qk_dim = qk_dim;
    options.v_dim = v_dim;
  }

  rapt_status run() {
    out.assign(queries * v_dim, T(-77));
    lse.assign(queries, T(-77));
    options.lse = lse.data();
    std::size_t bytes = 0;
    REQUIRE(rapt_attention_workspace(&options, &bytes) == RAPT_OK);
    std::vector<unsigned char> workspace(bytes, canary);
    return rapt_attention(q.data(), k.data(), v.data(), out.data(), &options, workspace.data(), bytes);
  }
  void compute() { REQUIRE(run() == RAPT_OK); }

  T *key(std::size_t j) { return k.data() + j * qk_dim; }
  T *value(std::size_t j) { return v.data() + j * v_dim; }
  const T *row(std::size_t i) const { return out.data() + i * v_dim; }
  void spoil(std::size_t j, T with) {
    std::fill_n(key(j), qk_dim, with);
    std::fill_n(value(j), v_dim, with);
  }
  bool row_is_nan(std::size_t i) const {
    std::size_t count = std::isnan(lse[i]);
    for (std::size_t d = 0; d < v_dim; ++d) count += std::isnan(row(i)[d]);
    return count == v_dim + 1;
  }
  bool row_is_zero(std::size_t i) const {
    std::size_t count = 0;
    for (std::size_t d = 0; d < v_dim; ++d) count += is_plus_zero(row(i)[d]);
    return count == v_dim;
  }
};

template <class T>
std::size_t differences(const Call<T> &a, const Call<T> &b) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < a.out.size(); ++i) wrong += !same_bits(a.out[i], b.out[i]);
  for (std::size_t i = 0; i < a.lse.size(); ++i) wrong += !same_bits(a.lse[i], b.lse[i]);
  return wrong;
}

const std::vector<std::size_t> key_counts = native_or_emulated<std::vector<std::size_t>>(
    {1, 2, 7, 16, 33, 64, 65, 100, 130, 513, 600}, {1, 7, 65, 130});

std::vector<std::size_t> places(std::size_t keys) {
  std::vector<std::size_t> made;
  const std::size_t step = native_or_emulated<std::size_t>(keys < 70 ? 1 : 17, keys < 70 ? 13 : 61);
  for (std::size_t j = 0; j < keys; j += step) made.push_back(j);
  if (made.back() != keys - 1) made.push_back(keys - 1);
  return made;
}

}  // namespace

TEST_CASE_TEMPLATE("rows with nothing visible", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t keys : key_counts) {
      for (const bool has_sink : {false, true}) {
        const T sink = T(-1.5);
        const std::vector<std::uint8_t> mask(3 * keys, 0);
        const std::vector<T> bias(3 * keys, -infinity<T>);
        const std::int32_t no_keys = 0;
        for (int kind = 0; kind < 7; ++kind) {
          CAPTURE(keys);
          CAPTURE(kind);
          Call<T> call(3, keys, 9, 5);
          for (std::size_t j = 0; j < keys; ++j) call.spoil(j, j % 2 ? quiet_nan<T> : infinity<T>);
          if (has_sink) call.options.sinks = &sink;
          if (kind == 0) call.options.mask = mask.data();
          if (kind == 1) call.options.bias = bias.data();
          if (kind == 2) call.options.kv_lengths = &no_keys;
          if (kind == 3) call.options.kv_len = 0;
          if (kind == 4) call.options.causal = RAPT_CAUSAL_OFFSET, call.options.causal_offset = -3;
          if (kind == 5) {
            call.options.window_left = 3;
            call.options.causal = RAPT_CAUSAL_OFFSET;
            call.options.causal_offset = static_cast<std::ptrdiff_t>(keys) + 2;
          }
          // A chunk of positions behind the keys.
          if (kind == 6) {
            call.options.window_chunk = keys;
            call.options.causal = RAPT_CAUSAL_OFFSET;
            call.options.causal_offset = static_cast<std::ptrdiff_t>(keys);
          }
          call.compute();
          for (std::size_t i = 0; i < 3; ++i) {
            const bool sees_nothing = kind != 6 || i < keys;
            if (!sees_nothing) continue;
            CHECK(call.row_is_zero(i));
            CHECK(same_bits(call.lse[i], has_sink ? sink : -infinity<T>));
          }
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("a query whose scale is not finite", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t keys : key_counts) {
      for (const std::size_t queries : Sizes{3, 20}) {  // few rows, and many
        CAPTURE(keys);
        CAPTURE(queries);
        for (const T special : {quiet_nan<T>, infinity<T>, -infinity<T>}) {
          Call<T> call(queries, keys, 4, 5, keys);
          call.compute();
          const Call<T> plain = call;
          std::vector<T> scales(queries, T(1));
          scales[1] = scales[2] = special;
          std::vector<std::uint8_t> mask(queries * keys, 1);
          std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(keys), keys, std::uint8_t{0});
          call.options.query_scales = scales.data();
          call.options.query_scale_strides.token = 1;
          call.options.mask = mask.data();
          call.compute();
          // It reaches its own query alone, and only if that sees anything.
          CHECK(call.row_is_zero(1));
          CHECK(call.lse[1] == -infinity<T>);
          if (std::isnan(special)) CHECK(call.row_is_nan(2));
          for (std::size_t d = 0; d < 5; ++d) CHECK(same_bits(call.row(0)[d], plain.row(0)[d]));
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("no queries", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    Call<T> call(2, 5, 4, 4);
    call.options.q_len = 0;
    call.compute();
    for (const T value : call.out) CHECK(value == T(-77));
    for (const T value : call.lse) CHECK(value == T(-77));
    std::size_t tasks = 99, length = 99;
    CHECK(rapt_attention_tasks(&call.options, &tasks) == RAPT_OK);
    CHECK(tasks == 0);
    CHECK(rapt_attention_partial_tasks(&call.options, &tasks, &length) == RAPT_OK);
    CHECK(tasks == 0);
    CHECK(length == 0);
  });
}

TEST_CASE_TEMPLATE("what is excluded never leaks", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t keys : key_counts) {
      if (keys == 1) continue;
      for (const std::size_t place : places(keys)) {
        for (const T special : {quiet_nan<T>, infinity<T>, -infinity<T>, std::numeric_limits<T>::max()}) {
          CAPTURE(keys);
          CAPTURE(place);
          Call<T> harmless(2, keys, 7, 9, keys);
          Call<T> spoilt = harmless;
          spoilt.spoil(place, special);
          const auto check = [&](const char *what, auto &&exclude) {
            Call<T> expected = harmless, got = spoilt;
            exclude(expected.options);
            exclude(got.options);
            expected.compute();
            got.compute();
            std::size_t wrong = differences(got, expected);
            for (const T value : got.out) wrong += !std::isfinite(value);
            if (wrong != 0)
              FAIL_CHECK("excluded by " << std::string(what) << ": " << wrong << " results differ");
          };
          std::vector<std::uint8_t> mask(2 * keys, 1);
          mask[place] = mask[keys + place] = 0;
          check("a mask", [&](auto &options) { options.mask = mask.data(); });
          std::vector<T> bias(2 * keys, T(0.25));
          bias[place] = bias[keys + place] = -infinity<T>;
          check("a bias", [&](auto &options) { options.bias = bias.data(); });
          check("a bias behind a softcap", [&](auto &options) {
            options.bias = bias.data();
            options.softcap = 3;
          });
          const auto length = static_cast<std::int32_t>(place);
          check("a length", [&](auto &options) { options.kv_lengths = &length; });
          check("causality", [&](auto &options) {
            options.causal = RAPT_CAUSAL_OFFSET;
            options.causal_offset = static_cast<std::ptrdiff_t>(place) - 2;
          });
          check("a window", [&](auto &options) {
            options.causal = RAPT_CAUSAL_OFFSET;
            options.causal_offset = static_cast<std::ptrdiff_t>(keys);
            options.window_left = keys - place;
          });
          if (keys > 300) break;  // the first special value is enough
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("NaN or +inf that is visible makes its own row NaN", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t keys : key_counts) {
      for (const std::size_t place : places(keys)) {
        CAPTURE(keys);
        CAPTURE(place);
        // Query 1 of 3 does not see the key.
        std::vector<std::uint8_t> mask(3 * keys, 1);
        mask[keys + place] = 0;
        Call<T> harmless(3, keys, 6, 4, place);
        harmless.options.mask = mask.data();
        Call<T> by_key = harmless, by_bias = harmless, by_infinity = harmless;
        harmless.compute();
        std::fill_n(by_key.key(place), 6, quiet_nan<T>);
        by_key.compute();
        for (std::size_t i = 0; i < 6; ++i) by_infinity.q[i] = by_infinity.q[12 + i] = T(1);
        std::fill_n(by_infinity.key(place), 6, infinity<T>);
        by_infinity.compute();
        std::vector<T> bias(3 * keys, T(0));
        bias[place] = quiet_nan<T>;
        bias[2 * keys + place] = infinity<T>;
        by_bias.options.bias = bias.data();
        by_bias.compute();
        for (const Call<T> *call : {&by_key, &by_bias, &by_infinity}) {
          if (!call->row_is_nan(0) || !call->row_is_nan(2)) FAIL_CHECK("a NaN was lost");
          for (std::size_t d = 0; d < 4; ++d) {
            if (call != &by_bias && !same_bits(call->row(1)[d], harmless.row(1)[d]))
              FAIL_CHECK("a NaN leaked");
            if (std::isnan(call->row(1)[d])) FAIL_CHECK("a NaN leaked");
          }
        }
        // A query of NaN spoils its own row alone.
        Call<T> by_query = harmless;
        by_query.q[0] = quiet_nan<T>;
        by_query.compute();
        if (!by_query.row_is_nan(0) && keys > 0) FAIL_CHECK("a NaN of a query was lost");
        for (std::size_t d = 4; d < 12; ++d) {
          if (!same_bits(by_query.out[d], harmless.out[d])) FAIL_CHECK("a NaN of a query leaked");
        }
        // A value of NaN spoils its own dimension, where the key is seen.
        Call<T> by_value = harmless;
        by_value.value(place)[2] = quiet_nan<T>;
        by_value.compute();
        for (std::size_t i = 0; i < 3; ++i) {
          for (std::size_t d = 0; d < 4; ++d) {
            const bool spoilt = i != 1 && d == 2;
            const bool right =
                spoilt ? std::isnan(by_value.row(i)[d]) : same_bits(by_value.row(i)[d], harmless.row(i)[d]);
            if (!right) FAIL_CHECK("a NaN of a value: query " << i << ", dimension " << d);
          }
        }
      }
    }
  });
}

// A partial result's largest score is that of the scores that are numbers, wherever in a block a NaN lies.
TEST_CASE_TEMPLATE("NaN is not a largest score", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    constexpr std::size_t keys = 64;
    for (const std::size_t queries : Sizes{1, 20}) {  // few rows, and many
      for (const bool has_mask : {false, true}) {
        const std::vector<std::uint8_t> mask(queries * keys, 1);
        for (const std::size_t place : places(keys)) {
          for (std::size_t apart = 1; apart < keys; apart *= 2) {
            const std::size_t largest = (place + apart) % keys;
            Call<T> call(queries, keys, 1, 1);
            std::fill(call.q.begin(), call.q.end(), T(1));
            std::fill(call.k.begin(), call.k.end(), T(-1));
            call.k[place] = quiet_nan<T>;
            call.k[largest] = T(5);
            if (has_mask) call.options.mask = mask.data();
            std::size_t bytes = 0, tasks = 0, length = 0;
            REQUIRE(rapt_attention_workspace(&call.options, &bytes) == RAPT_OK);
            REQUIRE(rapt_attention_partial_tasks(&call.options, &tasks, &length) == RAPT_OK);
            REQUIRE(length == queries * 3);
            std::vector<unsigned char> workspace(bytes);
            std::vector<T> partials(length);
            REQUIRE(rapt_attention_partial(call.q.data(), call.k.data(), call.v.data(), partials.data(),
                                           &call.options, 0, tasks, workspace.data(), bytes) == RAPT_OK);
            for (std::size_t i = 0; i < queries; ++i) {
              CHECK(partials[3 * i] == T(5));
              CHECK(std::isnan(partials[3 * i + 1]));
            }
          }
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("a score of -inf has weight 0", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t keys : key_counts) {
      if (keys == 1) continue;
      for (const std::size_t place : places(keys)) {
        CAPTURE(keys);
        CAPTURE(place);
        Call<T> seen(2, keys, 3, 4, place);
        for (T &value : seen.q) value = T(0.5) + std::fabs(value);
        Call<T> excluded = seen;
        std::fill_n(seen.key(place), 3, -infinity<T>);
        seen.compute();
        std::vector<std::uint8_t> mask(2 * keys, 1);
        mask[place] = mask[keys + place] = 0;
        excluded.options.mask = mask.data();
        excluded.compute();
        CHECK(differences(seen, excluded) == 0);
      }
    }
    // Nothing but such scores is nothing.
    for (const std::size_t keys : key_counts) {
      Call<T> call(1, keys, 3, 4);
      for (T &value : call.q) value = T(1);
      for (T &value : call.k) value = -infinity<T>;
      call.compute();
      CHECK(call.row_is_zero(0));
      CHECK(call.lse[0] == -infinity<T>);
      const T sink = T(2);
      call.options.sinks = &sink;
      call.compute();
      CHECK(call.row_is_zero(0));
      CHECK(same_bits(call.lse[0], sink));
    }
  });
}

TEST_CASE_TEMPLATE("one visible key gives its values", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t keys : key_counts) {
      for (const std::size_t place : places(keys)) {
        for (const double scale : {0.0, 1.0, -3.0, 1e-30}) {
          for (const double softcap : {0.0, 20.0}) {
            Call<T> call(1, keys, 5, 6, place);
            for (std::size_t j = 0; j < keys; ++j) {
              if (j != place) call.spoil(j, quiet_nan<T>);
            }
            call.value(place)[0] = T(-0.0);
            call.value(place)[1] = std::numeric_limits<T>::max();
            call.value(place)[2] = std::numeric_limits<T>::denorm_min();
            std::vector<std::uint8_t> mask(keys, 0);
            mask[place] = 200;
            call.options.mask = mask.data();
            call.options.scale = scale;
            call.options.softcap = softcap;
            call.compute();
            CHECK(is_plus_zero(call.out[0]));
            for (std::size_t d = 1; d < 6; ++d) CHECK(same_bits(call.out[d], call.value(place)[d]));
          }
        }
      }
      if (keys > 300) break;
    }
  });
}

TEST_CASE_TEMPLATE("no output is -0", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t keys : key_counts) {
      Call<T> call(3, keys, 4, 33);
      for (std::size_t i = 0; i < call.v.size(); ++i) call.v[i] = i % 3 == 0 ? T(0) : T(-0.0);
      // Products that vanish are zeros too.
      if (keys > 2) std::fill_n(call.value(keys - 2), 33, -std::numeric_limits<T>::denorm_min());
      for (const bool with_sink : {false, true}) {
        const T sink = T(200);
        call.options.sinks = with_sink ? &sink : nullptr;
        call.compute();
        std::size_t negative = 0;
        for (const T value : call.out) negative += value == 0 && std::signbit(value);
        CHECK(negative == 0);
      }
    }
  });
}

TEST_CASE_TEMPLATE("sinks", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t keys : Sizes{1, 3, 70, 600}) {
      Call<T> call(2, keys, 8, 8, keys);
      call.compute();
      const Call<T> without = call;
      const auto with_sink = [&](T sink) {
        Call<T> other = without;
        other.options.sinks = &sink;
        other.compute();
        return other;
      };
      CHECK(differences(with_sink(-infinity<T>), without) == 0);
      // One of 0 is softmax1: it adds 1 to the sum.
      const Call<T> one = with_sink(T(0));
      for (std::size_t i = 0; i < 2; ++i) {
        const double sum = std::exp(double{without.lse[i]});
        for (std::size_t d = 0; d < 8; ++d) {
          CHECK(std::fabs(double{one.row(i)[d]} - double{without.row(i)[d]} * sum / (1 + sum)) < 1e-5);
        }
        CHECK(std::fabs(double{one.lse[i]} - std::log1p(sum)) < 1e-5);
      }
      // One that dominates leaves nothing; NaN, +inf and one that overflows by log2(e) spoil every row.
      const Call<T> large = with_sink(T(1e6));
      for (std::size_t i = 0; i < 2; ++i) {
        CHECK(large.row_is_zero(i));
        CHECK(same_bits(large.lse[i], T(1e6)));
        CHECK(with_sink(quiet_nan<T>).row_is_nan(i));
        CHECK(with_sink(infinity<T>).row_is_nan(i));
        CHECK(with_sink(std::numeric_limits<T>::max()).row_is_nan(i));
      }
    }
  });
}

TEST_CASE_TEMPLATE("out does not depend on whether lse is asked for", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    Call<T> call(70, 130, 16, 24);
    call.compute();
    std::vector<T> out(call.out.size());
    call.options.lse = nullptr;
    std::size_t bytes = 0;
    REQUIRE(rapt_attention_workspace(&call.options, &bytes) == RAPT_OK);
    std::vector<unsigned char> workspace(bytes);
    REQUIRE(rapt_attention(call.q.data(), call.k.data(), call.v.data(), out.data(), &call.options,
                           workspace.data(), bytes) == RAPT_OK);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < out.size(); ++i) wrong += !same_bits(out[i], call.out[i]);
    CHECK(wrong == 0);
  });
}

TEST_CASE_TEMPLATE("RAPT_REPEAT repeats queries, keys and values", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    Call<T> call(5, 40, 6, 6);
    std::copy_n(call.q.begin(), 6, call.q.begin() + 6);  // queries 0 and 1 are one
    call.compute();
    Call<T> repeated = call;
    repeated.options.q_strides = {1000, RAPT_REPEAT, RAPT_REPEAT};  // all queries are the first
    repeated.compute();
    for (std::size_t i = 0; i < 5; ++i) {
      for (std::size_t d = 0; d < 6; ++d) CHECK(same_bits(repeated.row(i)[d], call.row(0)[d]));
    }
    // All keys are one, and so are all values: an average of equal values.
    repeated.options.k_strides = repeated.options.v_strides = {RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
    for (std::size_t d = 0; d < 6; ++d) repeated.v[d] = T(0.5) * static_cast<T>(d);
    repeated.compute();
    for (std::size_t d = 0; d < 6; ++d) CHECK(same_bits(repeated.row(3)[d], T(0.5) * static_cast<T>(d)));
  });
}

// The weighted sum comes before the division by the sum of weights.
TEST_CASE_TEMPLATE("values near the largest number", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t keys : key_counts) {
      for (const std::size_t queries : {std::size_t{1}, std::size_t{20}}) {
        CAPTURE(keys);
        CAPTURE(queries);
        Call<T> call(queries, keys, 4, 3);
        std::fill(call.q.begin(), call.q.end(), T(0));  // all weights are 1
        const T largest = std::numeric_limits<T>::max() / static_cast<T>(keys) * T(0.999);
        std::fill(call.v.begin(), call.v.end(), largest);
        call.compute();
        for (const T value : call.out)
          CHECK(std::fabs(value / largest - 1) < 512 * std::numeric_limits<T>::epsilon());
        if (keys == 1) continue;
        std::fill(call.v.begin(), call.v.end(), std::numeric_limits<T>::max());
        call.compute();
        for (const T value : call.out) CHECK(value == infinity<T>);
      }
    }
  });
}

// Windows and chunks of any length, at positions as far away as there are.
TEST_CASE_TEMPLATE("windows at far positions", T, float, double) {
  constexpr std::size_t farthest = std::size_t{1} << 60;
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    const auto keys_seen = [](std::ptrdiff_t offset, std::size_t left, std::size_t right, std::size_t chunk) {
      Call<T> call(1, 40, 4, 1);
      std::fill(call.q.begin(), call.q.end(), T(0));
      call.options.causal = offset == 0 ? RAPT_CAUSAL_TOP_LEFT : RAPT_CAUSAL_OFFSET;
      call.options.causal_offset = offset;
      call.options.window_left = left;
      call.options.window_right = right;
      call.options.window_chunk = chunk;
      call.compute();
      return std::lround(std::exp(double{call.lse[0]}));
    };
    constexpr auto far = static_cast<std::ptrdiff_t>(farthest);
    CHECK(keys_seen(far, 0, 0, 0) == 40);
    CHECK(keys_seen(-far, 0, 0, 0) == 0);
    CHECK(keys_seen(far, farthest, 0, 0) == 39);  // the position itself is the last of the window
    CHECK(keys_seen(far, farthest - 10, 0, 0) == 29);
    CHECK(keys_seen(far, farthest + 1, 0, 0) == 40);
    CHECK(keys_seen(far, farthest - 40, 0, 0) == 0);
    CHECK(keys_seen(far, SIZE_MAX, SIZE_MAX, SIZE_MAX) == 40);
    CHECK(keys_seen(far, SIZE_MAX, 1, 0) == 40);
    CHECK(keys_seen(far, 0, 0, farthest) == 0);  // chunk 1
    CHECK(keys_seen(far, 0, 0, farthest + 1) == 40);
    CHECK(keys_seen(0, 0, 1, 0) == 1);
    CHECK(keys_seen(5, 3, 0, 0) == 3);
    CHECK(keys_seen(30, SIZE_MAX - 1, 0, 0) == 31);
    CHECK(keys_seen(30, 0, 0, 16) == 15);
  });
}

// Keys, values, bias and mask end at pages that cannot be touched, behind the sequence's last key.
TEST_CASE_TEMPLATE("nothing past a length is read", T, float, double) {
  constexpr std::size_t kv_len = 700, dim = 9;
  GuardedSlot k_slot(kv_len * dim * sizeof(T)), v_slot(kv_len * dim * sizeof(T)),
      bias_slot(kv_len * sizeof(T)), mask_slot(kv_len);
  for_each_usable_isa([&](const std::string &isa) {
    CAPTURE(isa);
    for (const std::int32_t length : {0, 1, 15, 16, 17, 63, 64, 70, 512, 513, 699}) {
      for (const std::size_t queries : {std::size_t{1}, std::size_t{20}}) {
        const auto keys = static_cast<std::size_t>(length);
        Call<T> whole(queries, keys, dim, dim, 3), call = whole;
        std::vector<T> bias(keys, T(0.25));
        std::vector<std::uint8_t> mask(keys, 1);
        if (keys > 2) mask[1] = 0;
        const rapt_strides repeat{RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
        if (keys > 0) {
          whole.options.bias = bias.data();
          whole.options.mask = mask.data();
          whole.options.bias_strides = whole.options.mask_strides = repeat;
        }
        whole.compute();
        const auto place = [](GuardedSlot &slot, const auto &values) {
          using U = std::remove_cvref_t<decltype(values[0])>;
          auto *at =
              reinterpret_cast<U *>(slot.place(values.size() * sizeof(U), Placement::ends_at_guard, 0));
          std::copy(values.begin(), values.end(), at);
          return at;
        };
        call.options.kv_len = kv_len;
        call.options.kv_lengths = &length;
        call.options.bias = place(bias_slot, bias);
        call.options.mask = place(mask_slot, mask);
        call.options.bias_strides = call.options.mask_strides = repeat;
        call.out.assign(queries * dim, T(-77));
        std::size_t bytes = 0;
        REQUIRE(rapt_attention_workspace(&call.options, &bytes) == RAPT_OK);
        std::vector<unsigned char> workspace(bytes, canary);
        REQUIRE(rapt_attention(call.q.data(), place(k_slot, call.k), place(v_slot, call.v), call.out.data(),
                               &call.options, workspace.data(), bytes) == RAPT_OK);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < call.out.size(); ++i) wrong += !same_bits(call.out[i], whole.out[i]);
        CHECK(wrong == 0);
      }
    }
  });
}

TEST_CASE("the workspace has the size that rapt.h tells") {
  for (const std::size_t qk_dim : Sizes{1, 8, 64, 192, 576}) {
    for (const std::size_t v_dim : Sizes{1, 64, 128, 512}) {
      rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
      options.qk_dim = qk_dim;
      options.v_dim = v_dim;
      options.q_len = options.kv_len = qk_dim * 7;
      std::size_t bytes = 0;
      CHECK(rapt_attention_workspace(&options, &bytes) == RAPT_OK);
      CHECK(bytes == 4 * (64 * qk_dim + 128 * v_dim + 8192) + 64);
      options.q_type = RAPT_F64;
      CHECK(rapt_attention_workspace(&options, &bytes) == RAPT_OK);
      CHECK(bytes == 8 * (64 * qk_dim + 128 * v_dim + 8192) + 64);
    }
  }
}

TEST_CASE_TEMPLATE("packed keys lie where rapt.h says", T, float, double) {
  constexpr std::size_t dim = 5, tokens = 150, stride = 7;
  std::vector<T> k(tokens * stride), packed(3 * 64 * dim, T(-9));
  rapt_attention_options options = attention_options<T>();
  options.qk_dim = dim;
  for (std::size_t i = 0; i < k.size(); ++i) k[i] = static_cast<T>(i);
  REQUIRE(rapt_attention_pack_keys(k.data(), stride, 20, 130, &options, packed.data()) == RAPT_OK);
  std::size_t wrong = 0;
  for (std::size_t t = 0; t < 192; ++t) {
    for (std::size_t d = 0; d < dim; ++d) {
      const T got = packed[(t / 64) * 64 * dim + d * 64 + t % 64];
      wrong += got != (t < 20 || t >= 150 ? T(-9) : k[(t - 20) * stride + d]);
    }
  }
  CHECK(wrong == 0);
  CHECK(rapt_attention_pack_keys(nullptr, stride, 0, 0, &options, nullptr) == RAPT_OK);
  CHECK(rapt_attention_pack_keys(nullptr, stride, 0, 1, &options, packed.data()) == RAPT_BAD_K);
  CHECK(rapt_attention_pack_keys(k.data(), stride, 0, 1, &options, nullptr) == RAPT_BAD_OUT);
  CHECK(rapt_attention_pack_keys(k.data(), -1, 0, 2, &options, packed.data()) == RAPT_BAD_K_STRIDES);
  CHECK(rapt_attention_pack_keys(k.data(), PTRDIFF_MAX, 0, 9, &options, packed.data()) == RAPT_BAD_SIZE);
  CHECK(rapt_attention_pack_keys(k.data(), stride, SIZE_MAX, 1, &options, packed.data()) == RAPT_BAD_SIZE);
  CHECK(rapt_attention_pack_keys(k.data(), stride, SIZE_MAX - 70, 1, &options, packed.data()) ==
        RAPT_BAD_SIZE);
  CHECK(rapt_attention_pack_keys(k.data(), stride, 0, 1, &options, k.data() + 2) == RAPT_BAD_OVERLAP);
}
