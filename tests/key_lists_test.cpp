// Tests lists of keys: rows have the bits of the listed keys laid end to end, nothing else of a cache is read, and an
// entry of -1 is a key that a mask excludes.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/attention_problems.hpp"
#include "support/compare_kernels.hpp"
#include "support/effort.hpp"
#include "support/elements.hpp"
#include "support/every_level.hpp"
#include "support/options.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

// Layouts with lists, and with pages of any size, in each way of calling.
std::vector<Layout> listed_layouts(const Problem &problem) {
  Random random(problem.seed * 131 + problem.cols());
  std::vector<Layout> layouts;
  for (const std::size_t run : Sizes{1, 16, random.below(100) + 1}) {
    layouts.push_back(draw_attention_layout(random, sizeof(float)));
    layouts.back().attention.key_lists = run;
  }
  layouts.push_back(draw_attention_layout(random, sizeof(float)));
  layouts.back().attention.page_size = random.one_of<std::size_t>({1, 3, 24, 40, 100});
  layouts.back().attention.packed_keys = false;
  layouts.back().attention.left_padding = random.one_in(2) ? 0 : 48;
  return layouts;
}

// A problem of 3 query heads over each key/value head.
template <class KV>
struct Lists {
  static constexpr std::size_t batch = 2, kv_heads = 2, q_heads = 6, qk_dim = 32, v_dim = 64;
  using Q = std::conditional_t<std::is_same_v<KV, std::int8_t>, float, KV>;
  std::size_t queries, cache;
  std::vector<Q> q;
  std::vector<KV> k, v;
  std::vector<float> k_scales, v_scales;

  Lists(std::size_t q_len, std::size_t tokens, std::uint64_t seed) : queries(q_len), cache(tokens) {
    Random random(seed);
    const auto draw = [&](auto &values, std::size_t count, double size) {
      using E = typename std::remove_reference_t<decltype(values)>::value_type;
      for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<E>(random.gaussian() * size));
    };
    const double size = std::is_same_v<KV, std::int8_t> ? 30 : 1;
    draw(q, batch * q_heads * queries * qk_dim, 1);
    draw(k, batch * kv_heads * cache * qk_dim, size);
    draw(v, batch * kv_heads * cache * v_dim, size);
    if (!std::is_same_v<KV, std::int8_t>) return;
    for (std::size_t i = 0; i < batch * kv_heads * cache; ++i) {
      k_scales.push_back(.01f + .001f * static_cast<float>(random.below(30)));
      v_scales.push_back(.01f + .001f * static_cast<float>(random.below(30)));
    }
  }

  rapt_attention_options options(std::size_t kv_len) const {
    rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
    o.q_type = Api<Q>::type;
    o.kv_type = Api<KV>::type;
    o.out_type = RAPT_F32;
    o.batch = batch;
    o.q_heads = q_heads;
    o.kv_heads = kv_heads;
    o.q_len = queries;
    o.kv_len = kv_len;
    o.qk_dim = qk_dim;
    o.v_dim = v_dim;
    if (!k_scales.empty()) o.k_scales = k_scales.data(), o.v_scales = v_scales.data();
    if constexpr (std::is_same_v<KV, double>) o.out_type = RAPT_F64;
    return o;
  }
  using Out = std::conditional_t<std::is_same_v<KV, double>, double, float>;
  std::vector<Out> run(const rapt_attention_options &o) const {
    std::vector<Out> out(batch * q_heads * queries * v_dim, Out(-77));
    std::size_t bytes = 0;
    REQUIRE(rapt_attention_workspace(&o, &bytes) == RAPT_OK);
    std::vector<unsigned char> workspace(bytes);
    REQUIRE(rapt_attention(q.data(), k.data(), v.data(), out.data(), &o, workspace.data(), bytes) == RAPT_OK);
    return out;
  }
  // Returns this problem with the listed tokens laid end to end, zeros for -1. list(b, h, j) is a token.
  template <class List>
  Lists gathered(std::size_t kv_len, List list) const {
    Lists made = *this;
    made.cache = kv_len;
    made.k.assign(batch * kv_heads * kv_len * qk_dim, KV(0));
    made.v.assign(batch * kv_heads * kv_len * v_dim, KV(0));
    if (!k_scales.empty()) {
      made.k_scales.assign(batch * kv_heads * kv_len, 0);
      made.v_scales = made.k_scales;
    }
    for (std::size_t b = 0; b < batch; ++b) {
      for (std::size_t h = 0; h < kv_heads; ++h) {
        for (std::size_t j = 0; j < kv_len; ++j) {
          const std::int32_t token = list(b, h, j);
          if (token < 0) continue;
          const std::size_t from = (b * kv_heads + h) * cache + static_cast<std::size_t>(token),
                            to = (b * kv_heads + h) * kv_len + j;
          std::copy_n(&k[from * qk_dim], qk_dim, &made.k[to * qk_dim]);
          std::copy_n(&v[from * v_dim], v_dim, &made.v[to * v_dim]);
          if (k_scales.empty()) continue;
          made.k_scales[to] = k_scales[from];
          made.v_scales[to] = v_scales[from];
        }
      }
    }
    return made;
  }
};

template <class T>
bool same(const std::vector<T> &a, const std::vector<T> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](T x, T y) { return same_bits(x, y); });
}

}  // namespace

// A layout does not change the outcome that is expected: that of keys laid end to end.
TEST_CASE("keys in lists and small pages have the bits of keys that follow each other") {
  const std::vector<Problem> problems =
      draw_attention_problems(native_or_emulated<std::size_t>(60, 6), 2027, 20000);
  compare_kernels(
      "lists of keys", [](const KernelTraits &traits) { return traits.family == Family::attention; },
      [&](const KernelCase &) { return problems; }, listed_layouts);
}

// Each query, or block of queries, has its own list for each head, with entries of -1 and tokens listed twice. A call
// that sees only these queries, over the listed tokens laid end to end and a mask, must have the same bits.
TEST_CASE_TEMPLATE("lists of queries", KV, float, double, F16, BF16, std::int8_t) {
  on_every_level([] {
    for (const std::size_t entries :
         native_or_emulated<std::vector<std::size_t>>({1, 17, 64, 150, 600}, {17, 150})) {
      for (const std::size_t queries : native_or_emulated<std::vector<std::size_t>>({1, 5, 40}, {1, 17})) {
        for (const std::size_t per_list : native_or_emulated<std::vector<std::size_t>>({1, 3, 30}, {3})) {
          CAPTURE(entries);
          CAPTURE(queries);
          CAPTURE(per_list);
          using Problem = Lists<KV>;
          const Problem all(queries, 200, entries + queries);
          const std::size_t lists = (queries + per_list - 1) / per_list, heads = Problem::kv_heads;
          Random random(entries * 7 + per_list);
          std::vector<std::int32_t> list(Problem::batch * heads * lists * entries),
              lengths(Problem::batch * heads * lists);
          for (auto &length : lengths) length = static_cast<std::int32_t>(random.below(entries + 1));
          for (std::size_t i = 0; i < list.size(); ++i) {
            const bool in_run = i > 0 && !random.one_in(40) && list[i - 1] < 199;
            list[i] = random.one_in(60) ? -1
                      : in_run          ? list[i - 1] + 1
                                        : static_cast<std::int32_t>(random.below(200));
          }
          rapt_attention_options o = all.options(entries);
          o.key_lists = list.data();
          o.key_list_lengths = lengths.data();
          o.queries_per_list = per_list;
          o.cache_len = all.cache;
          const auto got = all.run(o);

          std::vector<typename Problem::Out> expected(got.size());
          for (std::size_t l = 0; l < lists; ++l) {
            const auto at = [&](std::size_t b, std::size_t h) { return (b * heads + h) * lists + l; };
            const Problem some = all.gathered(entries, [&](std::size_t b, std::size_t h, std::size_t j) {
              return list[at(b, h) * entries + j];
            });
            std::vector<std::uint8_t> mask(Problem::batch * Problem::q_heads * entries);
            for (std::size_t row = 0; row < Problem::batch * Problem::q_heads; ++row) {
              const std::size_t b = row / Problem::q_heads, h = row % Problem::q_heads / 3;
              for (std::size_t j = 0; j < entries; ++j) {
                mask[row * entries + j] =
                    static_cast<std::int32_t>(j) < lengths[at(b, h)] && list[at(b, h) * entries + j] >= 0;
              }
            }
            rapt_attention_options plain = some.options(entries);
            plain.mask = mask.data();
            const auto head = static_cast<std::ptrdiff_t>(entries);
            plain.mask_strides = {head * static_cast<std::ptrdiff_t>(Problem::q_heads), head, RAPT_REPEAT};
            const auto of_list = some.run(plain);
            for (std::size_t row = 0; row < Problem::batch * Problem::q_heads; ++row) {
              for (std::size_t i = l * per_list; i < std::min(queries, (l + 1) * per_list); ++i) {
                const std::size_t first = (row * queries + i) * Problem::v_dim;
                std::copy_n(&of_list[first], Problem::v_dim, &expected[first]);
              }
            }
          }
          CHECK(same(got, expected));
        }
      }
    }
  });
}

// Tokens that no list names may hold anything, and an entry of -1 adds nothing even if queries are infinite.
TEST_CASE_TEMPLATE("what is not listed is not read into a result", KV, float, double, F16, BF16) {
  on_every_level([] {
    for (const std::size_t queries : Sizes{1, 40}) {
      Lists<KV> all(queries, 300, 5), spoilt = all;
      std::vector<std::int32_t> list(Lists<KV>::batch * 100);
      std::vector<bool> listed(300);
      for (std::size_t j = 0; j < list.size(); ++j) {
        list[j] = j % 7 == 3 ? -1 : static_cast<std::int32_t>(j * 17 % 150 * 2);
        if (list[j] >= 0) listed[static_cast<std::size_t>(list[j])] = true;
      }
      for (std::size_t row = 0; row < Lists<KV>::batch * Lists<KV>::kv_heads * 300; ++row) {
        if (listed[row % 300]) continue;
        std::fill_n(&spoilt.k[row * all.qk_dim], all.qk_dim, KV(std::numeric_limits<float>::quiet_NaN()));
        std::fill_n(&spoilt.v[row * all.v_dim], all.v_dim, KV(std::numeric_limits<float>::infinity()));
      }
      rapt_attention_options o = all.options(100);
      o.key_lists = list.data();
      o.key_list_strides = {100, RAPT_REPEAT, RAPT_REPEAT};
      o.cache_len = 300;
      o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
      CHECK(same(all.run(o), spoilt.run(o)));
      std::fill(list.begin(), list.end(), -1);
      const auto nothing = spoilt.run(o);
      CHECK(std::all_of(nothing.begin(), nothing.end(), [](auto x) { return same_bits(x, decltype(x)(0)); }));
    }
  });
}

TEST_CASE("a bad entry is found before anything is written, by the calls that read it") {
  Lists<float> all(2, 50, 1);
  std::vector<std::int32_t> list(Lists<float>::batch * 2 * 700, 3);
  rapt_attention_options o = all.options(700);
  o.key_lists = list.data();
  o.key_list_strides = {1400, RAPT_REPEAT, 700};
  o.queries_per_list = 1;
  o.cache_len = 50;
  list[700 + 600] = 50;  // the second query of the first sequence, its second chunk
  std::size_t bytes = 0, tasks = 0, parts = 0, length = 0;
  REQUIRE(rapt_attention_workspace(&o, &bytes) == RAPT_OK);
  REQUIRE(rapt_attention_tasks(&o, &tasks) == RAPT_OK);
  REQUIRE(rapt_attention_partial_tasks(&o, &parts, &length) == RAPT_OK);
  CHECK(tasks == 8);
  std::vector<unsigned char> workspace(bytes);
  std::vector<float> out(all.q.size() * 2, -77), partials(length, -77);
  const auto untouched = [](const std::vector<float> &x) {
    return std::all_of(x.begin(), x.end(), [](float e) { return e == -77; });
  };
  CHECK(rapt_attention(all.q.data(), all.k.data(), all.v.data(), out.data(), &o, workspace.data(), bytes) ==
        RAPT_BAD_KEY_LISTS);
  for (std::size_t task = 0; task < parts; ++task) {
    // Tasks of a chunk follow each other: both key/value heads, and for each of them both queries.
    const bool is_bad = task == 8 + 1 || task == 8 + 3;
    if (task < tasks && (task == 1 || task == 3)) {
      CHECK(rapt_attention_run(all.q.data(), all.k.data(), all.v.data(), out.data(), &o, task, task + 1,
                               workspace.data(), bytes) == RAPT_BAD_KEY_LISTS);
    }
    if (!is_bad) continue;
    CHECK(rapt_attention_partial(all.q.data(), all.k.data(), all.v.data(), partials.data(), &o, task,
                                 task + 1, workspace.data(), bytes) == RAPT_BAD_KEY_LISTS);
  }
  CHECK(untouched(out));
  CHECK(untouched(partials));
  CHECK(rapt_attention_run(all.q.data(), all.k.data(), all.v.data(), out.data(), &o, 0, 1, workspace.data(),
                           bytes) == RAPT_OK);
  CHECK(rapt_attention_partial(all.q.data(), all.k.data(), all.v.data(), partials.data(), &o, 1, 2,
                               workspace.data(), bytes) == RAPT_OK);
}
