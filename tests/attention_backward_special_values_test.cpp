// What rapt.h says of the special values of attention's gradient, of what it writes, and of its memory; on
// every usable level.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/guarded_buffer.hpp"
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

// One sequence over dense arrays, of one key/value head.
template <class T>
struct Call {
  std::size_t queries, keys, qk_dim, v_dim, heads;
  std::vector<T> q, k, v, dout, out, lse, dq, dk, dv, dbias, dsinks;
  rapt_attention_options options = attention_options<T>();

  Call(std::size_t query_count, std::size_t key_count, std::size_t dim, std::size_t width,
       std::uint64_t seed = 1, std::size_t head_count = 1)
      : queries(query_count), keys(key_count), qk_dim(dim), v_dim(width), heads(head_count) {
    Random random(seed);
    const auto draw = [&](std::size_t count) {
      std::vector<T> values(count);
      for (T &value : values) value = static_cast<T>(random.gaussian());
      return values;
    };
    q = draw(heads * queries * qk_dim);
    k = draw(keys * qk_dim);
    v = draw(keys * v_dim);
    dout = draw(heads * queries * v_dim);
    options.q_heads = heads;
    options.kv_heads = 1;
    options.q_len = queries;
    options.kv_len = keys;
    options.qk_dim = qk_dim;
    options.v_dim = v_dim;
  }

  void compute() {
    out.assign(heads * queries * v_dim, T(-77));
    lse.assign(heads * queries, T(-77));
    options.lse = lse.data();
    std::size_t bytes = 0, more = 0;
    REQUIRE(rapt_attention_workspace(&options, &bytes) == RAPT_OK);
    REQUIRE(rapt_attention_backward_workspace(&options, &more) == RAPT_OK);
    std::vector<unsigned char> workspace(std::max(bytes, more), canary);
    REQUIRE(rapt_attention(q.data(), k.data(), v.data(), out.data(), &options, workspace.data(), bytes) ==
            RAPT_OK);
    dq.assign(q.size(), T(-77));
    dk.assign(k.size(), T(-77));
    dv.assign(v.size(), T(-77));
    dbias.assign(heads * queries * keys, T(-77));
    dsinks.assign(heads, T(-77));
    rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
    g.out = out.data();
    g.dout = dout.data();
    g.dq = dq.data();
    g.dk = dk.data();
    g.dv = dv.data();
    if (options.bias) g.dbias = dbias.data();
    if (options.sinks) g.dsinks = dsinks.data();
    REQUIRE(rapt_attention_backward(q.data(), k.data(), v.data(), &options, &g, workspace.data(), more) ==
            RAPT_OK);
  }

  void spoil_key(std::size_t j, T with) {
    std::fill_n(k.begin() + static_cast<std::ptrdiff_t>(j * qk_dim), qk_dim, with);
    std::fill_n(v.begin() + static_cast<std::ptrdiff_t>(j * v_dim), v_dim, with);
  }
  void spoil_row(std::size_t i, T with) {
    std::fill_n(q.begin() + static_cast<std::ptrdiff_t>(i * qk_dim), qk_dim, with);
    std::fill_n(dout.begin() + static_cast<std::ptrdiff_t>(i * v_dim), v_dim, with);
  }
  bool row_is_zero(std::size_t i) const { return is_zero(dq, i * qk_dim, qk_dim); }
  bool key_is_zero(std::size_t j) const {
    return is_zero(dk, j * qk_dim, qk_dim) && is_zero(dv, j * v_dim, v_dim);
  }

 private:
  static bool is_zero(const std::vector<T> &values, std::size_t from, std::size_t count) {
    std::size_t zeros = 0;
    for (std::size_t i = from; i < from + count; ++i) zeros += is_plus_zero(values[i]);
    return zeros == count;
  }
};

template <class T>
std::size_t differences(const std::vector<T> &a, const std::vector<T> &b, std::size_t from = 0,
                        std::size_t count = SIZE_MAX) {
  std::size_t wrong = 0;
  for (std::size_t i = from; i < a.size() && i - from < count; ++i) wrong += !same_bits(a[i], b[i]);
  return wrong;
}
template <class T>
std::size_t differences(const Call<T> &a, const Call<T> &b) {
  return differences(a.dq, b.dq) + differences(a.dk, b.dk) + differences(a.dv, b.dv) +
         (a.options.bias ? differences(a.dbias, b.dbias) : 0) + differences(a.dsinks, b.dsinks);
}
template <class T>
std::size_t not_finite(const Call<T> &call) {
  std::size_t count = 0;
  for (const auto *values : {&call.dq, &call.dk, &call.dv}) {
    for (const T value : *values) count += !std::isfinite(value);
  }
  return count;
}

const std::vector<std::size_t> key_counts =
    native_or_emulated<std::vector<std::size_t>>({1, 2, 7, 33, 64, 65, 130}, {1, 7, 65});

std::vector<std::size_t> places(std::size_t keys) {
  std::vector<std::size_t> made;
  const std::size_t step = native_or_emulated<std::size_t>(keys < 70 ? 3 : 17, keys < 70 ? 13 : 61);
  for (std::size_t j = 0; j < keys; j += step) made.push_back(j);
  if (made.back() != keys - 1) made.push_back(keys - 1);
  return made;
}

}  // namespace

TEST_CASE_TEMPLATE("a row with nothing visible has no gradient and adds to nothing", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t keys : key_counts) {
      for (const std::size_t queries : Sizes{3, 20, 70}) {
        for (const T special : {quiet_nan<T>, infinity<T>, T(2)}) {
          CAPTURE(keys);
          CAPTURE(queries);
          Call<T> call(queries, keys, 9, 5);
          std::vector<std::uint8_t> mask(queries * keys, 1);
          std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(keys), keys, std::uint8_t{0});
          std::vector<T> bias(queries * keys, T(0.5));
          call.options.mask = mask.data();
          call.options.bias = bias.data();
          call.compute();
          const Call<T> plain = call;
          call.spoil_row(1, special);
          call.compute();
          CHECK(call.row_is_zero(1));
          CHECK(differences(call.dk, plain.dk) == 0);
          CHECK(differences(call.dv, plain.dv) == 0);
          CHECK(differences(call.dq, plain.dq) == 0);
          CHECK(differences(call.dbias, plain.dbias) == 0);
          for (std::size_t j = 0; j < keys; ++j) CHECK(is_plus_zero(call.dbias[keys + j]));
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("nothing to see at all", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t keys : key_counts) {
      const std::vector<std::uint8_t> mask(3 * keys, 0);
      const std::vector<T> bias(3 * keys, -infinity<T>);
      const std::int32_t no_keys = 0;
      for (int kind = 0; kind < 4; ++kind) {
        CAPTURE(kind);
        Call<T> call(3, keys, 9, 5);
        const T sink = T(0.5);
        for (std::size_t j = 0; j < keys; ++j) call.spoil_key(j, j % 2 ? quiet_nan<T> : infinity<T>);
        call.options.sinks = &sink;
        if (kind == 0) call.options.mask = mask.data();
        if (kind == 1) call.options.bias = bias.data();
        if (kind == 2) call.options.kv_lengths = &no_keys;
        if (kind == 3) call.options.causal = RAPT_CAUSAL_OFFSET, call.options.causal_offset = -3;
        call.compute();
        for (std::size_t i = 0; i < 3; ++i) CHECK(call.row_is_zero(i));
        for (std::size_t j = 0; j < keys; ++j) CHECK(call.key_is_zero(j));
        CHECK(is_plus_zero(call.dsinks[0]));
        if (kind == 1) {
          for (const T value : call.dbias) CHECK(is_plus_zero(value));
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("no queries, no keys", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    Call<T> call(2, 5, 4, 3);
    const T sink = 1;
    call.options.sinks = &sink;
    call.options.q_len = 0;
    call.compute();
    for (std::size_t j = 0; j < 5; ++j) CHECK(call.key_is_zero(j));
    for (const T value : call.dq) CHECK(value == T(-77));
    CHECK(is_plus_zero(call.dsinks[0]));
    call.options.q_len = 2;
    call.options.kv_len = 0;
    call.compute();
    for (std::size_t i = 0; i < 2; ++i) CHECK(call.row_is_zero(i));
    for (const T value : call.dk) CHECK(value == T(-77));
  });
}

TEST_CASE_TEMPLATE("what is excluded never leaks, and has no gradient", T, float, double) {
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
          spoilt.spoil_key(place, special);
          const auto check = [&](const char *what, auto &&exclude) {
            Call<T> expected = harmless, got = spoilt;
            exclude(expected.options);
            exclude(got.options);
            expected.compute();
            got.compute();
            const std::size_t wrong = differences(got, expected) + not_finite(got) + !got.key_is_zero(place);
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
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("what is not finite reaches who sees it alone", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t keys : key_counts) {
      if (keys < 3) continue;
      for (const std::size_t place : places(keys)) {
        for (const T special : {quiet_nan<T>, infinity<T>}) {
          CAPTURE(keys);
          CAPTURE(place);
          // Query 1 of 3 does not see the key; query 2 sees nothing else.
          std::vector<std::uint8_t> mask(3 * keys, 1);
          mask[keys + place] = 0;
          std::fill_n(mask.begin() + static_cast<std::ptrdiff_t>(2 * keys), keys, std::uint8_t{0});
          mask[2 * keys + place] = 1;
          Call<T> plain(3, keys, 6, 4, place);
          plain.options.mask = mask.data();
          plain.compute();
          Call<T> by_key = plain, by_row = plain, by_dout = plain;
          by_key.spoil_key(place, special);
          by_key.compute();
          CHECK(differences(by_key.dq, plain.dq, 6, 6) == 0);
          for (std::size_t d = 0; d < 6; ++d) CHECK(std::isnan(by_key.dq[d]));
          // What query 2 does not see keeps its gradients.
          by_row.spoil_row(2, special);
          by_row.compute();
          CHECK(differences(by_row.dq, plain.dq, 0, 12) == 0);
          std::size_t wrong = 0;
          for (std::size_t j = 0; j < keys; ++j) {
            const std::size_t differ =
                differences(by_row.dk, plain.dk, j * 6, 6) + differences(by_row.dv, plain.dv, j * 4, 4);
            wrong += j == place ? differ == 0 : differ;
          }
          CHECK(wrong == 0);
          // One element of dout reaches that element of dv, and every ds of its row.
          by_dout.dout[2] = special;
          by_dout.compute();
          for (std::size_t j = 0; j < keys; ++j) {
            for (std::size_t d = 0; d < 4; ++d) {
              const T got = by_dout.dv[j * 4 + d];
              const bool right = d == 2 ? !std::isfinite(got) : same_bits(got, plain.dv[j * 4 + d]);
              if (!right && plain.dv[j * 4 + d] != 0) FAIL_CHECK("dout: key " << j << ", dimension " << d);
            }
          }
          CHECK(differences(by_dout.dq, plain.dq, 6, 12) == 0);
        }
      }
    }
  });
}

// 0 times a scale that is not finite would be NaN.
TEST_CASE_TEMPLATE("a query's scale reaches only what the query sees", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t queries : Sizes{3, 20}) {
      for (const T special : {quiet_nan<T>, infinity<T>, -infinity<T>}) {
        constexpr std::size_t keys = 70;
        Call<T> call(queries, keys, 4, 5);
        std::vector<T> scales(queries, T(1));
        std::vector<std::uint8_t> mask(queries * keys, 1);
        for (std::size_t j = 1; j < keys; ++j) mask[keys + j] = 0;
        call.options.query_scales = scales.data();
        call.options.query_scale_strides.token = 1;
        call.options.mask = mask.data();
        call.compute();
        const Call<T> plain = call;
        scales[1] = special;
        call.compute();
        CHECK(differences(call.dk, plain.dk, 4) == 0);
        CHECK(differences(call.dv, plain.dv, 5) == 0);
        CHECK(differences(call.dq, plain.dq, 0, 4) == 0);
        CHECK(differences(call.dq, plain.dq, 8) == 0);
      }
    }
  });
}

TEST_CASE_TEMPLATE("no gradient is -0", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    const T tiny = std::numeric_limits<T>::denorm_min();
    for (const std::size_t keys : key_counts) {
      for (int kind = 0; kind < 3; ++kind) {
        Call<T> call(5, keys, 4, 33, keys);
        const T sink = T(-0.5);
        const std::vector<T> bias(5 * keys, T(0));
        call.options.sinks = &sink;
        call.options.bias = bias.data();
        if (kind == 0) {
          for (std::size_t i = 0; i < call.v.size(); ++i) call.v[i] = i % 3 == 0 ? T(0) : T(-0.0);
        } else if (kind == 1) {  // products that vanish are zeros too
          for (T &value : call.dout) value = value < 0 ? -tiny : tiny;
        } else {
          for (T &value : call.v) value = value < 0 ? -tiny : tiny;
          for (T &value : call.dout) value = T(0.75);
        }
        call.compute();
        std::size_t negative = 0;
        for (const auto *values : {&call.dq, &call.dk, &call.dv, &call.dbias, &call.dsinks}) {
          for (const T value : *values) negative += value == 0 && std::signbit(value);
        }
        CHECK(negative == 0);
      }
    }
    // The sink's gradient alone: -1/2 of the smallest number.
    Call<T> call(1, 1, 1, 1);
    const T sink = 0;
    call.options.sinks = &sink;
    call.q[0] = 0;
    call.v[0] = 4 * tiny;
    call.dout[0] = T(0.5);
    call.compute();
    CHECK(is_plus_zero(call.dsinks[0]));
  });
}

// Their log-sum-exp is rounded by more than 1, but no weight is above 1.
TEST_CASE_TEMPLATE("scores beyond all precision", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const double scale : {1e12, 1e20, 1e28}) {
      Call<T> call(9, 70, 4, 3);
      call.options.scale = scale;
      call.compute();
      CHECK(not_finite(call) == 0);
      double most = 0, all = 0;
      for (const T value : call.dv) most = std::max(most, std::fabs(double{value}));
      for (const T value : call.dout) all += std::fabs(double{value});
      CHECK(most <= all);
    }
  });
}

TEST_CASE_TEMPLATE("a bias that repeats has the sum of the gradients", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    constexpr std::size_t heads = 3, queries = 30, keys = 75;
    Call<T> each(queries, keys, 8, 8, 3, heads);
    std::vector<T> one(keys);
    for (std::size_t j = 0; j < keys; ++j) one[j] = j == 7 ? -infinity<T> : static_cast<T>(j % 5) / T(4);
    std::vector<T> all;
    for (std::size_t r = 0; r < heads * queries; ++r) all.insert(all.end(), one.begin(), one.end());
    each.options.bias = all.data();
    each.compute();
    for (int repeats = 1; repeats < 4; ++repeats) {
      CAPTURE(repeats);
      Call<T> summed(queries, keys, 8, 8, 3, heads);
      summed.options.bias = all.data();
      rapt_strides &strides = summed.options.bias_strides;
      const bool by_head = repeats & 1, by_token = repeats & 2;
      strides = {0, by_head ? RAPT_REPEAT : static_cast<std::ptrdiff_t>((by_token ? 1 : queries) * keys),
                 by_token ? RAPT_REPEAT : static_cast<std::ptrdiff_t>(keys)};
      summed.compute();
      CHECK(differences(summed.dq, each.dq) + differences(summed.dk, each.dk) +
                differences(summed.dv, each.dv) ==
            0);
      for (std::size_t h = 0; h < (by_head ? 1 : heads); ++h) {
        for (std::size_t i = 0; i < (by_token ? 1 : queries); ++i) {
          for (std::size_t j = 0; j < keys; ++j) {
            // The chain that rapt.h tells: token by token, and within a token head by head.
            T sum = 0;
            for (std::size_t token = i; token < (by_token ? queries : i + 1); ++token) {
              for (std::size_t head = h; head < (by_head ? heads : h + 1); ++head) {
                sum = sum + each.dbias[(head * queries + token) * keys + j];
              }
            }
            const T got = summed.dbias[(by_head ? 0 : h * (by_token ? 1 : queries) + i) * keys +
                                       (by_head && !by_token ? i * keys : 0) + j];
            if (!same_bits(got, sum)) FAIL_CHECK("head " << h << " query " << i << " key " << j);
            if (j == 7) CHECK(is_plus_zero(got));
          }
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("a head's sinks", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    Call<T> call(40, 33, 8, 8, 3, 3);
    const T sinks[] = {-infinity<T>, T(1), T(1e6)};
    call.options.sinks = sinks;
    call.compute();
    CHECK(is_plus_zero(call.dsinks[0]));
    // One that leaves nothing to the keys has nothing to give.
    CHECK(is_plus_zero(call.dsinks[2]));
    double expected = 0;
    for (std::size_t i = 40; i < 80; ++i) {
      double mean = 0;
      for (std::size_t d = 0; d < 8; ++d) mean += double{call.dout[i * 8 + d]} * double{call.out[i * 8 + d]};
      expected -= std::exp(1 - double{call.lse[i]}) * mean;
    }
    CHECK(std::fabs(expected - double{call.dsinks[1]}) < (sizeof(T) == 4 ? 1e-5 : 1e-13));
  });
}

// Such a row's sink has a weight of 1, and what it multiplies is NaN times the output of 0.
TEST_CASE_TEMPLATE("a dout that is not finite, of a row with nothing visible, reaches its sink alone", T,
                   float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    Call<T> call(3, 5, 4, 3);
    const T sink = T(0.5);
    std::vector<std::uint8_t> mask(15, 1);
    std::fill_n(mask.begin() + 5, 5, std::uint8_t{0});
    call.options.mask = mask.data();
    call.options.sinks = &sink;
    call.compute();
    const Call<T> plain = call;
    call.dout[3] = infinity<T>;
    call.compute();
    CHECK(std::isnan(call.dsinks[0]));
    CHECK(differences(call.dq, plain.dq) + differences(call.dk, plain.dk) + differences(call.dv, plain.dv) ==
          0);
  });
}

TEST_CASE("the workspace has the size that rapt.h tells, and tasks their number") {
  for (const std::size_t qk_dim : Sizes{1, 8, 64, 192, 576}) {
    for (const std::size_t v_dim : Sizes{1, 64, 128, 512}) {
      rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
      options.qk_dim = qk_dim;
      options.v_dim = v_dim;
      options.q_len = options.kv_len = qk_dim * 7;
      std::size_t bytes = 0;
      CHECK(rapt_attention_backward_workspace(&options, &bytes) == RAPT_OK);
      CHECK(bytes == 4 * (128 * qk_dim + 128 * v_dim + 12800) + 64);
      options.q_type = RAPT_F64;
      CHECK(rapt_attention_backward_workspace(&options, &bytes) == RAPT_OK);
      CHECK(bytes == 8 * (128 * qk_dim + 128 * v_dim + 12800) + 64);
    }
  }
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
  o.batch = 3;
  o.q_heads = 8;
  o.kv_heads = 4;
  o.q_len = o.kv_len = 200;
  o.qk_dim = 8;
  float number = 0;
  o.bias = &number;
  o.sinks = &number;
  rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
  const auto tasks = [&](bool dbias, bool dsinks, rapt_strides bias_strides) {
    g.dbias = dbias ? &number : nullptr;
    g.dsinks = dsinks ? &number : nullptr;
    o.bias_strides = bias_strides;
    std::size_t count = 0;
    REQUIRE(rapt_attention_backward_tasks(&o, &g, &count) == RAPT_OK);
    return count;
  };
  CHECK(tasks(false, false, {0, 0, 0}) == 12);
  constexpr std::ptrdiff_t repeat = RAPT_REPEAT;
  CHECK(tasks(true, false, {0, 0, 0}) == 12);
  CHECK(tasks(true, false, {9, 8, repeat}) == 12);
  CHECK(tasks(false, true, {0, 0, 0}) == 4);
  CHECK(tasks(true, false, {repeat, 8, repeat}) == 4);
  CHECK(tasks(true, false, {9, repeat, 7}) == 3);
  CHECK(tasks(true, true, {9, repeat, 7}) == 1);
  CHECK(tasks(true, false, {repeat, repeat, repeat}) == 1);
}
