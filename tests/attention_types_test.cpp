// Tests keys and values that are dequantized: blocks of files, 4 bits with scales, and keys of another type than
// values. Results have the bits of a call with the numbers of f32.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "rapt/rapt.h"
#include "support/attention_blocks.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

constexpr rapt_type float_types[] = {RAPT_F32, RAPT_F16, RAPT_BF16};

bool is_float(rapt_type type) {
  return std::find(std::begin(float_types), std::end(float_types), type) != std::end(float_types);
}

// Keys or values in memory, and their numbers.
struct Rows {
  std::vector<float> numbers;
  BlockRows in_memory;
  rapt_type type;

  Rows(rapt_type of, std::size_t count, std::size_t dim, Random &random, std::size_t scale_group = 0)
      : numbers(drawn(count * dim, random)),
        in_memory(encode_rows(numbers, dim, of, random.next(), scale_group)),
        type(of) {}
  const std::vector<std::uint8_t> &bytes() const { return in_memory.bytes; }
  static std::vector<float> drawn(std::size_t count, Random &random) {
    std::vector<float> made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(static_cast<float>(random.gaussian()));
    return made;
  }
  // Returns the scales with as many after each row's as belong to `gap` bytes.
  std::vector<float> spread_scales(std::size_t gap) const {
    std::vector<float> made;
    const std::size_t row = in_memory.scales_per_row();
    for (std::size_t at = 0; at < in_memory.scales.size(); at += row) {
      const auto first = in_memory.scales.begin() + static_cast<std::ptrdiff_t>(at);
      made.insert(made.end(), first, first + static_cast<std::ptrdiff_t>(row));
      made.insert(made.end(), gap / in_memory.unit(), -77);
    }
    return made;
  }
  // Returns a gap that the type may have.
  std::size_t gap(std::size_t of_blocks) const {
    return in_memory.group != 0 ? in_memory.unit() * 2 : of_blocks;
  }
  // Returns these rows with `gap` bytes after each one.
  std::vector<unsigned char> spread(std::size_t gap) const {
    std::vector<unsigned char> made;
    const std::size_t row = in_memory.row_bytes;
    for (std::size_t at = 0; at < bytes().size(); at += row) {
      made.insert(made.end(), bytes().begin() + static_cast<std::ptrdiff_t>(at),
                  bytes().begin() + static_cast<std::ptrdiff_t>(at + row));
      made.insert(made.end(), gap, static_cast<unsigned char>(0xfe));
    }
    return made;
  }
  std::ptrdiff_t stride(std::size_t gap) const {
    return in_memory.stride(static_cast<std::ptrdiff_t>(in_memory.row_bytes + gap));
  }
};

std::vector<float> run(const float *q, const void *k, const void *v, const rapt_attention_options &o) {
  std::vector<float> out(o.batch * o.q_heads * o.q_len * o.v_dim, -77);
  std::size_t bytes = 0;
  REQUIRE(rapt_attention_workspace(&o, &bytes) == RAPT_OK);
  std::vector<unsigned char> workspace(bytes);
  REQUIRE(rapt_attention(q, k, v, out.data(), &o, workspace.data(), bytes) == RAPT_OK);
  return out;
}

bool same(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Runs a call with rows of `k` and `v`, a gap of bytes after each one, compared with a call with their numbers.
struct Pair {
  static constexpr std::size_t batch = 2, kv_heads = 2, q_heads = 6;
  std::size_t queries, keys;
  Rows k, v;
  std::size_t group;  // of the scales
  std::vector<float> q;
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;

  Pair(rapt_type k_type, rapt_type v_type, std::size_t qk_dim, std::size_t v_dim, std::size_t q_len,
       std::size_t kv_len, Random &random, std::size_t scale_group = 0)
      : queries(q_len),
        keys(kv_len),
        k(k_type, batch * kv_heads * kv_len, qk_dim, random, scale_group),
        v(v_type, batch * kv_heads * kv_len, v_dim, random, scale_group),
        group(k_type == RAPT_I4 || v_type == RAPT_I4 ? scale_group : 0) {
    for (std::size_t i = 0; i < batch * q_heads * queries * qk_dim; ++i)
      q.push_back(static_cast<float>(random.gaussian()));
    o.batch = batch, o.q_heads = q_heads, o.kv_heads = kv_heads;
    o.q_len = queries, o.kv_len = keys, o.qk_dim = qk_dim, o.v_dim = v_dim;
  }
  template <class Change>
  bool is_same(std::size_t gap, Change change) const {
    rapt_attention_options plain = o, own = o;
    change(plain);
    change(own);
    own.kv_type = k.type, own.v_type = v.type;
    const std::size_t k_gap = gap == 0 ? 0 : k.gap(gap), v_gap = gap == 0 ? 0 : v.gap(gap);
    const std::vector<float> k_scales = k.spread_scales(k_gap), v_scales = v.spread_scales(v_gap);
    if (k.type == RAPT_I4) own.k_scales = k_scales.data();
    if (v.type == RAPT_I4) own.v_scales = v_scales.data();
    own.scale_group = group;
    const auto all = [&](rapt_strides &strides, std::ptrdiff_t token, std::size_t tokens) {
      const auto head = token * static_cast<std::ptrdiff_t>(tokens);
      strides = {head * static_cast<std::ptrdiff_t>(kv_heads), head, token};
    };
    const std::size_t tokens = own.block_table ? own.page_size : own.cache_len != 0 ? own.cache_len : keys;
    all(own.k_strides, k.stride(k_gap), tokens);
    all(own.v_strides, v.stride(v_gap), tokens);
    if (gap == 0 && !own.kv_offsets) own.k_strides = own.v_strides = {0, 0, 0};
    const std::vector<unsigned char> k_memory = k.spread(k_gap), v_memory = v.spread(v_gap);
    return same(run(q.data(), k_memory.data(), v_memory.data(), own),
                run(q.data(), k.numbers.data(), v.numbers.data(), plain));
  }
};

// Returns the status of a call over the rows of `pair`. A refused call leaves `out` at -77.
rapt_status status_of(const Pair &pair, const rapt_attention_options &o, std::vector<float> &out,
                      std::vector<unsigned char> &workspace) {
  const rapt_status got = rapt_attention(pair.q.data(), pair.k.bytes().data(), pair.v.bytes().data(),
                                         out.data(), &o, workspace.data(), workspace.size());
  if (got != RAPT_OK) CHECK(std::all_of(out.begin(), out.end(), [](float x) { return x == -77; }));
  return got;
}

}  // namespace

// Keys and values are dequantized apart, so that a type needs only some others next to it.
TEST_CASE("every type of keys, and every type of values") {
  std::vector<rapt_type> types(std::begin(float_types), std::end(float_types));
  types.push_back(RAPT_I4);
  for (int type = RAPT_Q8_0; type <= RAPT_NVFP4; ++type) types.push_back(static_cast<rapt_type>(type));
  on_every_level([&] {
    Random random(53);
    for (const rapt_type k_type : types) {
      for (const rapt_type v_type : types) {
        const bool is_drawn = random.one_in(native_or_emulated<std::size_t>(6, 20));
        if (!is_drawn && (emulated() || (k_type != RAPT_Q8_0 && v_type != RAPT_Q8_0))) continue;
        CAPTURE(static_cast<int>(k_type));
        CAPTURE(static_cast<int>(v_type));
        for (const std::size_t queries : {std::size_t{1}, std::size_t{4}, std::size_t{11}}) {
          CAPTURE(queries);
          constexpr std::size_t groups[] = {0, 32, 64, 128};
          const Pair pair(k_type, v_type, 256, 256, queries,
                          1 + random.below(native_or_emulated<std::size_t>(70, 20)), random,
                          groups[random.below(4)]);
          CHECK(pair.is_same(random.one_in(2) ? 0 : 8,
                             [](rapt_attention_options &o) { o.causal = RAPT_CAUSAL_BOTTOM_RIGHT; }));
        }
      }
    }
  });
}

TEST_CASE("blocks in pages, lists, sequences and parts of a head") {
  constexpr rapt_type pairs[][2] = {{RAPT_Q8_0, RAPT_Q8_0}, {RAPT_Q4_0, RAPT_Q5_1}, {RAPT_F16, RAPT_Q4_1},
                                    {RAPT_Q5_0, RAPT_BF16}, {RAPT_F32, RAPT_F16},   {RAPT_MXFP4, RAPT_IQ4_NL},
                                    {RAPT_I4, RAPT_I4},     {RAPT_I4, RAPT_F16},    {RAPT_Q8_0, RAPT_I4}};
  on_every_level([&] {
    Random random(7);
    for (const auto &[k_type, v_type] : pairs) {
      for (const std::size_t queries : native_or_emulated<std::vector<std::size_t>>({1, 2, 7, 30}, {2, 12})) {
        CAPTURE(static_cast<int>(k_type));
        CAPTURE(static_cast<int>(v_type));
        CAPTURE(queries);
        const std::size_t keys = 96;
        const Pair pair(k_type, v_type, 96, 64, queries, keys, random, random.one_in(2) ? 32 : 0);
        // A gap of an odd number of bytes is possible where both are blocks.
        const std::size_t gap = is_float(k_type) || is_float(v_type) ? 12 : 3;
        const auto check = [&](const char *name, const auto &change) {
          CAPTURE(name);
          CHECK(pair.is_same(0, change));
          CHECK(pair.is_same(gap, change));
        };
        check("plain", [](rapt_attention_options &) {});
        check("window, softcap and lengths", [&](rapt_attention_options &o) {
          static constexpr std::int32_t lengths[] = {96, 41};
          o.kv_lengths = lengths, o.window_left = 30, o.causal = RAPT_CAUSAL_BOTTOM_RIGHT, o.softcap = 3;
        });
        check("left padding", [&](rapt_attention_options &o) {
          static constexpr std::int32_t starts[] = {0, 33};
          o.kv_starts = starts, o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
        });
        for (const std::size_t page : {std::size_t{6}, std::size_t{16}}) {
          std::vector<std::int32_t> table;
          for (std::size_t i = 0; i < Pair::batch * keys / page; ++i)
            table.push_back(static_cast<std::int32_t>((i * 5 + 1) % (Pair::batch * keys / page)));
          check("pages",
                [&](rapt_attention_options &o) { o.block_table = table.data(), o.page_size = page; });
        }
        std::vector<std::int32_t> list;
        for (std::size_t i = 0; i < Pair::batch * 150; ++i)
          list.push_back(i % 9 == 4 ? -1 : static_cast<std::int32_t>(random.below(keys)));
        check("lists", [&](rapt_attention_options &o) {
          o.key_lists = list.data(), o.key_list_strides = {150, RAPT_REPEAT, RAPT_REPEAT};
          o.kv_len = 150, o.cache_len = keys;
        });
      }
    }
  });
}

TEST_CASE("sequences of blocks end to end, and values that are the keys' first dimensions") {
  on_every_level([&] {
    Random random(3);
    const Rows k(RAPT_Q4_0, 120, 64, random);
    std::vector<float> q;
    for (std::size_t i = 0; i < 2 * 3 * 64; ++i) q.push_back(static_cast<float>(random.gaussian()));
    constexpr std::int32_t offsets[] = {3, 50, 120};
    rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT, plain;
    o.batch = 2, o.q_len = 3, o.kv_len = 70, o.qk_dim = 64, o.v_dim = 32;
    o.kv_offsets = offsets;
    o.k_strides = o.v_strides = {0, 0, 64};
    plain = o;
    o.kv_type = RAPT_Q4_0;
    o.k_strides = o.v_strides = {0, 0, 36};
    CHECK(same(run(q.data(), k.bytes().data(), k.bytes().data(), o),
               run(q.data(), k.numbers.data(), k.numbers.data(), plain)));
  });
}

TEST_CASE("values of 4 bits that are the keys' first dimensions") {
  on_every_level([&] {
    Random random(4);
    for (const std::size_t group : {0, 32}) {
      const Rows k(RAPT_I4, 70, 96, random, group);
      const std::vector<float> q = Rows::drawn(3 * 96, random);
      rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT, plain;
      o.q_len = 3, o.kv_len = 70, o.qk_dim = 96, o.v_dim = 32;
      o.k_strides = o.v_strides = {0, 0, 96};
      plain = o;
      o.kv_type = RAPT_I4, o.scale_group = group, o.k_scales = o.v_scales = k.in_memory.scales.data();
      CHECK(same(run(q.data(), k.bytes().data(), k.bytes().data(), o),
                 run(q.data(), k.numbers.data(), k.numbers.data(), plain)));
    }
  });
}

TEST_CASE("queries and results of 16 bits, and each way to call") {
  on_every_level([&] {
    Random random(9);
    const Pair pair(RAPT_Q8_0, RAPT_Q5_0, 64, 96, 5, native_or_emulated<std::size_t>(1100, 600), random);
    std::vector<std::uint16_t> q(pair.q.size());
    rapt_convert_f32_to_bf16(pair.q.data(), q.data(), q.size());
    const auto of = [&](const void *k, const void *v, rapt_type k_type, rapt_type v_type, bool split) {
      rapt_attention_options o = pair.o;
      o.q_type = RAPT_BF16, o.out_type = RAPT_F16, o.kv_type = k_type, o.v_type = v_type;
      o.arithmetic = RAPT_ARITHMETIC_F32;
      std::vector<std::uint16_t> out(o.batch * o.q_heads * o.q_len * o.v_dim, 7);
      std::vector<float> lse(o.batch * o.q_heads * o.q_len);
      o.lse = lse.data();
      std::size_t bytes = 0, tasks = 0, parts = 0, length = 0;
      REQUIRE(rapt_attention_workspace(&o, &bytes) == RAPT_OK);
      REQUIRE(rapt_attention_tasks(&o, &tasks) == RAPT_OK);
      REQUIRE(rapt_attention_partial_tasks(&o, &parts, &length) == RAPT_OK);
      std::vector<unsigned char> workspace(bytes);
      std::vector<float> partials(length);
      for (std::size_t task = split ? parts : tasks; task-- > 0;) {
        REQUIRE((split ? rapt_attention_partial(q.data(), k, v, partials.data(), &o, task, task + 1,
                                                workspace.data(), bytes)
                       : rapt_attention_run(q.data(), k, v, out.data(), &o, task, task + 1, workspace.data(),
                                            bytes)) == RAPT_OK);
      }
      if (split) {
        REQUIRE(rapt_attention_merge(partials.data(), out.data(), &o, 0, tasks, workspace.data(), bytes) ==
                RAPT_OK);
      }
      for (const float one : lse) {
        std::uint32_t bits;
        std::memcpy(&bits, &one, sizeof bits);
        out.push_back(static_cast<std::uint16_t>(bits));
        out.push_back(static_cast<std::uint16_t>(bits >> 16));
      }
      return out;
    };
    const auto expected = of(pair.k.numbers.data(), pair.v.numbers.data(), RAPT_F32, RAPT_F32, false);
    for (const bool split : {false, true})
      CHECK(of(pair.k.bytes().data(), pair.v.bytes().data(), RAPT_Q8_0, RAPT_Q5_0, split) == expected);
  });
}

TEST_CASE("what rapt.h refuses") {
  Random random(1);
  const Pair pair(RAPT_Q8_0, RAPT_Q8_0, 64, 64, 2, 5, random);
  std::vector<float> out(pair.q.size(), -77);
  std::vector<unsigned char> workspace(1 << 20);
  const auto status = [&](const auto &change) {
    rapt_attention_options o = pair.o;
    o.kv_type = RAPT_Q8_0;
    change(o);
    return status_of(pair, o, out, workspace);
  };
  using O = rapt_attention_options;
  CHECK(status([](O &o) { o.qk_dim = 40; }) == RAPT_BAD_DIM);
  CHECK(status([](O &o) { o.v_dim = 40; }) == RAPT_BAD_DIM);
  CHECK(status([](O &o) { o.kv_type = RAPT_Q4_K; }) == RAPT_BAD_DIM);
  CHECK(status([](O &o) { o.v_type = RAPT_Q4_K; }) == RAPT_BAD_DIM);
  CHECK(status([](O &o) { o.packed_keys = 1; }) == RAPT_BAD_PACKED_KEYS);
  CHECK(status([](O &o) { o.kv_type = RAPT_F16, o.v_type = RAPT_F32, o.packed_keys = 1; }) ==
        RAPT_BAD_PACKED_KEYS);
  for (const rapt_type type : {RAPT_I8, RAPT_F64, RAPT_U4, RAPT_F8_E4M3, RAPT_U8}) {
    CHECK(status([&](O &o) { o.v_type = type; }) == RAPT_BAD_TYPE);
    CHECK(status([&](O &o) { o.kv_type = type, o.v_type = RAPT_Q8_0; }) == RAPT_BAD_TYPE);
  }
  CHECK(status([](O &o) { o.q_type = RAPT_Q8_0; }) == RAPT_BAD_TYPE);
  CHECK(status([](O &o) { o.q_type = RAPT_I4; }) == RAPT_BAD_TYPE);
  CHECK(status([](O &o) { o.out_type = RAPT_I4; }) == RAPT_BAD_TYPE);
  CHECK(status([](O &o) { o.out_type = RAPT_Q8_0; }) == RAPT_BAD_TYPE);
  CHECK(status([](O &o) { o.q_type = RAPT_F64; }) == RAPT_BAD_TYPE);
  CHECK(status([](O &o) { o.scale_group = 32; }) == RAPT_BAD_KV_SCALES);
  CHECK(status([](O &o) { o.arithmetic = RAPT_ARITHMETIC_BF16; }) == RAPT_BAD_ARITHMETIC);
  CHECK(status([](O &o) {
          o.q_type = o.kv_type = RAPT_BF16, o.v_type = RAPT_F16, o.arithmetic = RAPT_ARITHMETIC_BF16;
        }) == RAPT_BAD_ARITHMETIC);
  CHECK(status([](O &o) { o.k_strides = {-1, 0, 0}; }) == RAPT_BAD_K_STRIDES);

  rapt_attention_options o = pair.o;
  o.kv_type = RAPT_Q8_0;
  CHECK(rapt_attention_pack_keys(pair.k.bytes().data(), 0, 0, 5, &o, workspace.data()) ==
        RAPT_BAD_PACKED_KEYS);
  rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
  std::size_t tasks = 0;
  CHECK(rapt_attention_backward_tasks(&o, &g, &tasks) == RAPT_BAD_TYPE);
  o.kv_type = RAPT_F16, o.v_type = RAPT_F32;
  CHECK(rapt_attention_backward_tasks(&o, &g, &tasks) == RAPT_BAD_TYPE);
  o.kv_type = RAPT_I4, o.v_type = RAPT_TYPE_DEFAULT;
  CHECK(rapt_attention_backward_tasks(&o, &g, &tasks) == RAPT_BAD_TYPE);
  // out may not overlap a byte of a row.
  o.kv_type = RAPT_Q8_0, o.v_type = RAPT_TYPE_DEFAULT;
  std::vector<float> both(pair.q.size() + 4 * 5 * 17, 0);
  for (const std::size_t first : {std::size_t{4 * 5 * 17}, std::size_t{4 * 5 * 17 - 1}}) {
    CHECK(rapt_attention(pair.q.data(), both.data(), pair.v.bytes().data(), both.data() + first, &o,
                         workspace.data(),
                         workspace.size()) == (first == 4 * 5 * 17 ? RAPT_OK : RAPT_BAD_OVERLAP));
  }
}

TEST_CASE("what rapt.h refuses of 4 bits") {
  Random random(2);
  const Pair pair(RAPT_I4, RAPT_I4, 64, 64, 2, 5, random, 32);
  std::vector<float> out(pair.q.size(), -77);
  std::vector<unsigned char> workspace(1 << 20);
  const auto status = [&](const auto &change) {
    rapt_attention_options o = pair.o;
    o.kv_type = RAPT_I4, o.scale_group = 32;
    o.k_scales = pair.k.in_memory.scales.data(), o.v_scales = pair.v.in_memory.scales.data();
    change(o);
    return status_of(pair, o, out, workspace);
  };
  using O = rapt_attention_options;
  CHECK(status([](O &o) { o.k_scales = nullptr; }) == RAPT_BAD_KV_SCALES);
  CHECK(status([](O &o) { o.v_scales = nullptr; }) == RAPT_BAD_KV_SCALES);
  CHECK(status([](O &o) { o.v_type = RAPT_Q8_0; }) == RAPT_BAD_KV_SCALES);
  CHECK(status([](O &o) { o.v_type = RAPT_F32; }) == RAPT_BAD_KV_SCALES);
  CHECK(status([](O &o) { o.v_type = RAPT_I8; }) == RAPT_BAD_TYPE);
  CHECK(status([](O &o) { o.kv_type = RAPT_I8, o.v_type = RAPT_I4; }) == RAPT_BAD_TYPE);
  CHECK(status([](O &o) { o.scale_group = 16; }) == RAPT_BAD_KV_SCALES);
  CHECK(status([](O &o) { o.scale_group = 128; }) == RAPT_BAD_KV_SCALES);
  CHECK(status([](O &o) { o.qk_dim = 48; }) == RAPT_BAD_DIM);
  CHECK(status([](O &o) { o.v_dim = 33; }) == RAPT_BAD_DIM);
  CHECK(status([](O &o) { o.k_strides = {64 * 5, 64 * 5, 65}; }) == RAPT_BAD_K_STRIDES);
  CHECK(status([](O &o) { o.v_strides = {64 * 5, 64 * 5, 80}; }) == RAPT_BAD_V_STRIDES);
  CHECK(status([](O &o) { o.packed_keys = 1; }) == RAPT_BAD_PACKED_KEYS);
  CHECK(status([](O &o) { o.arithmetic = RAPT_ARITHMETIC_BF16; }) == RAPT_BAD_ARITHMETIC);
  // A group of the other tensor's dimension does not matter where that has no scales.
  CHECK(status([](O &o) { o.kv_type = RAPT_F32, o.v_type = RAPT_I4, o.k_scales = nullptr, o.kv_len = 0; }) ==
        RAPT_OK);
  out.assign(out.size(), -77);
  // out may overlap neither a byte of a row nor a scale.
  const std::size_t bytes = 4 * 5 * 32, scales = 4 * 5 * 2;
  std::vector<float> both(bytes / 4 + scales + pair.q.size(), 0);
  const auto with_out_at = [&](std::size_t first) {
    rapt_attention_options o = pair.o;
    o.kv_type = RAPT_I4, o.scale_group = 32;
    o.k_scales = both.data() + bytes / 4, o.v_scales = pair.v.in_memory.scales.data();
    return rapt_attention(pair.q.data(), both.data(), pair.v.bytes().data(), both.data() + first, &o,
                          workspace.data(), workspace.size());
  };
  CHECK(with_out_at(bytes / 4 + scales) == RAPT_OK);
  CHECK(with_out_at(bytes / 4 + scales - 1) == RAPT_BAD_OVERLAP);
}

namespace {

// Keys or values rounded to RAPT_I4, RAPT_I8 or RAPT_Q4_0, as their users do.
struct Rounded {
  std::vector<std::uint8_t> rows;
  std::vector<float> scales;

  Rounded(const std::vector<float> &x, std::size_t dim, rapt_type type, std::size_t group) {
    if (type == RAPT_Q4_0) {
      to_q4_0(x);
      return;
    }
    const std::size_t count = x.size() / dim;
    rows.resize(type == RAPT_I4 ? x.size() / 2 : x.size());
    scales.resize(x.size() / (group != 0 ? group : dim));
    REQUIRE(rapt_quantize_rows(x.data(), RAPT_F32, 0, count, dim, group, type, rows.data(), scales.data()) ==
            RAPT_OK);
  }

 private:
  // As ggml does: the number of the largest magnitude becomes -8.
  void to_q4_0(const std::vector<float> &x) {
    for (std::size_t first = 0; first < x.size(); first += 32) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(first);
      const float largest =
          *std::max_element(begin, begin + 32, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
      const float d = largest / -8;
      const std::uint16_t bits = F16(double{d}).bits();
      rows.push_back(static_cast<std::uint8_t>(bits));
      rows.push_back(static_cast<std::uint8_t>(bits >> 8));
      const auto code = [&](std::size_t i) {
        const float scaled = d == 0 ? 8 : x[first + i] / d + 8.5f;
        return static_cast<unsigned>(std::clamp(scaled, 0.0f, 15.0f));
      };
      for (std::size_t i = 0; i < 16; ++i)
        rows.push_back(static_cast<std::uint8_t>(code(i) | code(i + 16) << 4));
    }
  }
};

}  // namespace

// The table of accuracy.md: what rounding a cache to 4 bits costs.
TEST_CASE("what small caches add to the error") {
  constexpr std::size_t dim = 128, queries = 64;
  constexpr struct {
    const char *name;
    rapt_type type;
    std::size_t group;
  } caches[] = {{"i8 per token", RAPT_I8, 0},
                {"i4 per token", RAPT_I4, 0},
                {"i4 per 64", RAPT_I4, 64},
                {"i4 per 32", RAPT_I4, 32},
                {"Q4_0", RAPT_Q4_0, 0}};
  const struct {
    const char *name;
    float key_channel, value_channel;
    double most[5];
  } data[] = {{"unit variance", 1, 1, {0.010, 0.18, 0.17, 0.15, 0.14}},
              {"a key channel x 100", 100, 1, {0.23, 0.35, 0.25, 0.18, 0.17}},
              {"a value channel x 100", 1, 100, {0.020, 0.12, 0.11, 0.08, 0.08}}};
  for (const auto &row : data) {
    for (std::size_t c = 0; c < std::size(caches); ++c) {
      double error = 0, truth = 0;
      for (const std::size_t keys : {std::size_t{70}, std::size_t{1300}}) {
        if (emulated() && keys > 100) continue;
        Random random(keys);
        const std::vector<float> q = Rows::drawn(queries * dim, random);
        std::vector<float> k = Rows::drawn(keys * dim, random), v = Rows::drawn(keys * dim, random);
        for (std::size_t i = 5; i < k.size(); i += dim) k[i] *= row.key_channel, v[i] *= row.value_channel;
        rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
        o.q_len = queries, o.kv_len = keys, o.qk_dim = o.v_dim = dim;
        const std::vector<float> exact = run(q.data(), k.data(), v.data(), o);
        const Rounded of_k(k, dim, caches[c].type, caches[c].group),
            of_v(v, dim, caches[c].type, caches[c].group);
        o.kv_type = caches[c].type, o.scale_group = caches[c].group;
        if (!of_k.scales.empty()) o.k_scales = of_k.scales.data(), o.v_scales = of_v.scales.data();
        const std::vector<float> got = run(q.data(), of_k.rows.data(), of_v.rows.data(), o);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double difference = double{got[i]} - double{exact[i]};
          error += difference * difference;
          truth += double{exact[i]} * double{exact[i]};
        }
      }
      const double relative = std::sqrt(error / truth);
      const std::string what =
          std::string(row.name) + ", " + caches[c].name + ": " + std::to_string(relative);
      MESSAGE(what);
      CHECK(relative < row.most[c]);
    }
  }
}
