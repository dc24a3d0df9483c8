// Tests bad options of attention. Every function, forwards and backwards, must return the status that names
// the option, and write nothing.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "support/attention_arguments.hpp"
#include "support/effort.hpp"

using namespace rapt::test;
using namespace rapt::test::attention_arguments;

namespace {

using Options = rapt_attention_options;

struct ChangedOptions {
  const char *name;
  unsigned functions;
  rapt_status expected;
  std::function<void(Options &)> change;
};

template <class T>
void expect_options(const std::vector<ChangedOptions> &rows) {
  for (const auto &[name, functions, expected, change] : rows)
    expect_status<Call<T>>(name, functions, expected, [&f = change](auto &call) { f(call.options); });
}

constexpr unsigned with_out = all & ~unsigned{partial};
constexpr std::uint8_t mask[kv_len] = {};
constexpr double numbers[kv_len] = {};  // zeros of f32 or f64
constexpr std::int32_t pages[] = {0, 1, 2, 2, 1, 0}, negative_page[] = {0, 1, 2, 0, -1, 1},
                       offsets[] = {0, 5, 9}, lengths[] = {40, 16};

void set_bias(Options &o, const rapt_strides &strides) {
  o.bias = numbers;
  o.bias_strides = strides;
}
void set_mask(Options &o, const rapt_strides &strides) {
  o.mask = mask;
  o.mask_strides = strides;
}
void set_pages(Options &o, std::size_t page_size, std::size_t table_stride = 0,
               const std::int32_t *table = pages) {
  o.block_table = table;
  o.block_table_stride = table_stride;
  o.page_size = page_size;
}

}  // namespace

TEST_CASE_TEMPLATE("the shape", T, float, double) {
  constexpr std::size_t much = std::size_t{1} << 40;
  constexpr rapt_strides far_rows[] = {{PTRDIFF_MAX, 18, 6}, {1, 1, PTRDIFF_MAX}, {1, PTRDIFF_MAX, 1}};
  expect_options<T>({
      {"no batch", all, RAPT_BAD_SHAPE, [](auto &o) { o.batch = 0; }},
      {"no heads", all, RAPT_BAD_SHAPE, [](auto &o) { o.q_heads = 0; }},
      {"4 over 3 heads", all, RAPT_BAD_HEADS, [](auto &o) { o.kv_heads = 3; }},
      {"4 over 8 heads", all, RAPT_BAD_HEADS, [](auto &o) { o.kv_heads = 8; }},
      {"no qk_dim", all, RAPT_BAD_DIM, [](auto &o) { o.qk_dim = 0; }},
      {"qk_dim", all, RAPT_BAD_DIM, [](auto &o) { o.qk_dim = SIZE_MAX; }},
      {"v_dim", all, RAPT_BAD_DIM, [](auto &o) { o.v_dim = SIZE_MAX; }},
      {"batch", all, RAPT_BAD_SIZE, [](auto &o) { o.batch = SIZE_MAX; }},
      {"q_len", all, RAPT_BAD_SIZE, [](auto &o) { o.q_len = SIZE_MAX / 4; }},
      {"kv_len", all, RAPT_BAD_SIZE, [](auto &o) { o.kv_len = SIZE_MAX / 4; }},
      {"q_heads", all, RAPT_BAD_SIZE, [](auto &o) { o.q_heads = much << 22, o.kv_heads = 1; }},
      {"a contiguous mask", all, RAPT_BAD_SIZE, [](auto &o) { o.mask = mask, o.q_len = o.kv_len = much; }},
      {"q_strides", reads_inputs, RAPT_BAD_SIZE, [&](auto &o) { o.q_strides = far_rows[0]; }},
      {"k_strides", reads_inputs, RAPT_BAD_SIZE, [&](auto &o) { o.k_strides = far_rows[1]; }},
      {"v_strides", reads_inputs, RAPT_BAD_SIZE, [&](auto &o) { o.v_strides = far_rows[2]; }},
  });
}

TEST_CASE_TEMPLATE("strides", T, float, double) {
  constexpr rapt_strides good{1000, 100, 10}, of_out{60, 15, 5}, of_lse{12, 3, 1};
  for (int dimension = 0; dimension < 3; ++dimension) {
    for (const std::ptrdiff_t bad : {std::ptrdiff_t{0}, std::ptrdiff_t{-1}, RAPT_REPEAT}) {
      CAPTURE(dimension);
      CAPTURE(bad);
      const auto spoilt = [&](rapt_strides strides) { return with_stride(strides, dimension, bad); };
      const auto only_one = [&](Options &o) {
        if (dimension == 0) o.batch = 1;
        if (dimension == 1) o.q_heads = o.kv_heads = 1;
        if (dimension == 2) o.q_len = o.kv_len = 1;
        o.q_strides = spoilt({18, 6, 6});
        o.k_strides = o.v_strides = spoilt({240, 6, 6});
        o.out_strides = spoilt(dimension == 2 ? rapt_strides{20, 5, 0} : of_out);
        o.lse_strides = spoilt(dimension == 2 ? rapt_strides{4, 1, 0} : of_lse);
      };
      // A stride may be set only together with its array.
      expect_options<T>({
          {"a dimension of 1 has no stride", all, RAPT_OK, only_one},
          {"out", with_out, RAPT_BAD_OUT_STRIDES, [&](auto &o) { o.out_strides = spoilt(of_out); }},
          {"lse", with_out, RAPT_BAD_LSE_STRIDES, [&](auto &o) { o.lse_strides = spoilt(of_lse); }},
          {"no bias", all, RAPT_BAD_BIAS_STRIDES, [&](auto &o) { o.bias_strides = spoilt(repeated); }},
          {"no mask", all, RAPT_BAD_MASK_STRIDES, [&](auto &o) { o.mask_strides = spoilt(repeated); }},
          {"no scales", all, RAPT_BAD_QUERY_SCALES,
           [&](auto &o) { o.query_scale_strides = spoilt(repeated); }},
      });
      if (bad == RAPT_REPEAT) continue;
      const auto with_scales = [&](Options &o) {
        o.query_scales = numbers;
        o.query_scale_strides = spoilt(repeated);
      };
      expect_options<T>({
          {"q", reads_inputs, RAPT_BAD_Q_STRIDES, [&](auto &o) { o.q_strides = spoilt(good); }},
          {"k", reads_inputs, RAPT_BAD_K_STRIDES, [&](auto &o) { o.k_strides = spoilt(good); }},
          {"v", reads_inputs, RAPT_BAD_V_STRIDES, [&](auto &o) { o.v_strides = spoilt(good); }},
          {"bias", all, RAPT_BAD_BIAS_STRIDES, [&](auto &o) { set_bias(o, spoilt(repeated)); }},
          {"mask", all, RAPT_BAD_MASK_STRIDES, [&](auto &o) { set_mask(o, spoilt(repeated)); }},
          {"query_scales", all, RAPT_BAD_QUERY_SCALES, with_scales},
      });
    }
  }
  // Rows of an output must not share elements.
  const auto expect = [](rapt_strides Options::*which, unsigned functions, rapt_status expected,
                         const std::vector<rapt_strides> &strides) {
    for (const rapt_strides &given : strides)
      expect_options<T>({{"rows", functions, expected, [&](auto &o) { o.*which = given; }}});
  };
  expect(&Options::out_strides, writes_out, RAPT_BAD_OUT_STRIDES,
         {{60, 15, 4}, {60, 14, 5}, {59, 15, 5}, {0, 15, 5}, {60, 0, 5}, {60, 15, 0}});
  expect(&Options::lse_strides, writes_out, RAPT_BAD_LSE_STRIDES,
         {{12, 2, 1}, {11, 3, 1}, {12, 3, 0}, {1, 2, 4}});
  expect(&Options::out_strides, with_out, RAPT_OK, {{60, 5, 20}, {5, 10, 40}});
  expect(&Options::lse_strides, with_out, RAPT_OK, {{1, 2, 8}});
  constexpr rapt_strides in_part{RAPT_REPEAT, RAPT_REPEAT, 1}, token_alone{0, 0, kv_len};
  expect_options<T>({
      {"inputs repeat", reads_inputs, RAPT_OK,
       [&](auto &o) { o.q_strides = o.k_strides = o.v_strides = in_part; }},
      // A stride that the caller forgot must not be read as a repetition.
      {"q, in part", reads_inputs, RAPT_BAD_Q_STRIDES, [](auto &o) { o.q_strides.token = qk_dim; }},
      {"bias, in part", all, RAPT_BAD_BIAS_STRIDES, [&](auto &o) { set_bias(o, token_alone); }},
  });
}

TEST_CASE_TEMPLATE("options that softmax has too", T, float, double) {
  expect_scale_and_softcap<Call<T>>(all);
  expect_causality<Call<T>>(all);
  expect_option_sizes(all, &Call<T>::options, {456 /* 0.2 */, 568}, RAPT_BAD_OPTIONS_SIZE);
}

TEST_CASE_TEMPLATE("windows of any size", T, float, double) {
  for (const std::size_t good : {std::size_t{0}, std::size_t{1}, std::size_t{1} << 61, SIZE_MAX}) {
    CAPTURE(good);
    expect_options<T>({
        {"left and right", all, RAPT_OK, [&](auto &o) { o.window_left = o.window_right = good; }},
        {"chunk", all, RAPT_OK, [&](auto &o) { o.window_chunk = good; }},
    });
  }
}

TEST_CASE_TEMPLATE("types, arithmetic and scales of keys", T, float, double) {
  const bool is_f32 = Api<T>::type == RAPT_F32;
  const rapt_type own = Api<T>::type, other = is_f32 ? RAPT_F64 : RAPT_F32;
  const auto expect_types = [](rapt_type type, rapt_status status) {
    CAPTURE(int{type});
    expect_options<T>({
        {"kv_type", all, status, [&](auto &o) { o.kv_type = type; }},
        {"out_type", all, status, [&](auto &o) { o.out_type = type; }},
    });
  };
  // In these calls the arrays are large enough for 16-bit elements, but the workspace is too small.
  for (const rapt_type half : {RAPT_F16, RAPT_BF16}) {
    const rapt_status status = is_f32 ? RAPT_OK : RAPT_BAD_TYPE;
    const rapt_status in_less = is_f32 ? RAPT_BAD_WORKSPACE : RAPT_BAD_TYPE;
    CAPTURE(int{half});
    expect_options<T>({
        {"kv_type, in less workspace", all, in_less, [&](auto &o) { o.kv_type = half; }},
        {"out_type", forwards, status, [&](auto &o) { o.out_type = half; }},
        {"out_type, backward", backwards, in_less, [&](auto &o) { o.out_type = half; }},
        {"all types, backward", backwards, is_f32 ? RAPT_BAD_WORKSPACE : RAPT_OK,
         [&](auto &o) { o.q_type = o.kv_type = half, o.arithmetic = RAPT_ARITHMETIC_F32; }},
    });
  }
  expect_types(other, RAPT_BAD_TYPE);
  // These calls have no scales; f64 never has scales.
  expect_options<T>({
      {"out_type", all, RAPT_BAD_TYPE, [&](auto &o) { o.out_type = RAPT_I8; }},
      {"kv_type, backward", backwards, RAPT_BAD_TYPE, [&](auto &o) { o.kv_type = RAPT_I8; }},
      {"kv_type", forwards & ~merge, is_f32 ? RAPT_BAD_KV_SCALES : RAPT_BAD_TYPE,
       [&](auto &o) { o.kv_type = RAPT_I8; }},
  });
  expect_options<T>({{"q_type", all, RAPT_BAD_TYPE, [&](auto &o) { o.q_type = RAPT_I8; }}});
  for (const int no_type : {int{RAPT_U4}, -1, 1000}) {
    const auto set = [&](Options &o) { std::memcpy(&o.kv_type, &no_type, sizeof no_type); };
    expect_options<T>({{"no type", all, RAPT_BAD_TYPE, set}});
  }
  for (const int bad : {int{RAPT_ARITHMETIC_BF16}, 3, 1000, -1})
    expect_options<T>({{"arithmetic", all, RAPT_BAD_ARITHMETIC, [&](auto &o) { o.arithmetic = bad; }}});
  const float number = 1;
  const rapt_status of_f32 = is_f32 ? RAPT_OK : RAPT_BAD_ARITHMETIC;
  expect_options<T>({
      {"all types alike", all, RAPT_OK, [&](auto &o) { o.kv_type = o.out_type = own; }},
      {"f32 arithmetic", all, of_f32, [](auto &o) { o.arithmetic = RAPT_ARITHMETIC_F32; }},
      {"bf16 keys alone in bf16 arithmetic", all, is_f32 ? RAPT_BAD_ARITHMETIC : RAPT_BAD_TYPE,
       [](auto &o) { o.kv_type = RAPT_BF16, o.arithmetic = RAPT_ARITHMETIC_BF16; }},
      {"k_scales", all, RAPT_BAD_KV_SCALES, [&](auto &o) { o.k_scales = &number; }},
      {"v_scales", all, RAPT_BAD_KV_SCALES, [&](auto &o) { o.v_scales = &number; }},
      {"scale_group", all, RAPT_BAD_KV_SCALES, [](auto &o) { o.scale_group = 32; }},
  });
}

TEST_CASE_TEMPLATE("lengths and offsets", T, float, double) {
  struct Lengths {
    rapt_status expected;
    std::vector<std::int32_t> kv_lengths, q_offsets, kv_offsets;
  };
  const auto given = [](const std::vector<std::int32_t> &values) {
    return values.empty() ? nullptr : values.data();
  };
  for (const Lengths &row : std::vector<Lengths>{{RAPT_BAD_KV_LENGTHS, {-1, 3}, {}, {}},
                                                 {RAPT_BAD_KV_LENGTHS, {3, 41}, {}, {}},
                                                 {RAPT_BAD_KV_LENGTHS, {0, INT32_MIN}, {}, {}},
                                                 {RAPT_BAD_KV_LENGTHS, {40, 9}, {1, 1, 4}, {2, 42, 50}},
                                                 {RAPT_BAD_OFFSETS, {}, {-1, 1, 2}, {}},
                                                 {RAPT_BAD_OFFSETS, {}, {0, 2, 1}, {}},
                                                 {RAPT_BAD_OFFSETS, {}, {0, 4, 5}, {}},
                                                 {RAPT_BAD_OFFSETS, {}, {0, 2, 6}, {}},
                                                 {RAPT_BAD_OFFSETS, {}, {}, {-1, 1, 2}},
                                                 {RAPT_BAD_OFFSETS, {}, {}, {0, 2, 1}},
                                                 {RAPT_BAD_OFFSETS, {}, {}, {0, 41, 42}},
                                                 {RAPT_OK, {0, 40}, {}, {}},
                                                 {RAPT_OK, {}, {0, 0, 0}, {}},
                                                 {RAPT_OK, {}, {1, 1, 4}, {2, 42, 50}}}) {
    expect_status<Call<T>>("numbers", all, row.expected, [&](auto &call) {
      call.options.kv_lengths = given(row.kv_lengths);
      call.options.q_offsets = given(row.q_offsets);
      call.options.kv_offsets = given(row.kv_offsets);
      call.last *= 4;  // runs all tasks, because the first may have no query
    });
  }
}

TEST_CASE_TEMPLATE("where padded sequences begin", T, float, double) {
  struct Starts {
    rapt_status expected;
    std::vector<std::int32_t> kv_starts, kv_lengths, q_starts;
  };
  const auto given = [](const std::vector<std::int32_t> &values) {
    return values.empty() ? nullptr : values.data();
  };
  for (const Starts &row : std::vector<Starts>{{RAPT_BAD_KV_STARTS, {0, -1}, {}, {}},
                                               {RAPT_BAD_KV_STARTS, {INT32_MIN, 0}, {}, {}},
                                               {RAPT_BAD_KV_STARTS, {41, 0}, {}, {}},
                                               {RAPT_BAD_KV_STARTS, {0, 10}, {40, 9}, {}},
                                               {RAPT_BAD_Q_STARTS, {}, {}, {-1, 0}},
                                               {RAPT_BAD_Q_STARTS, {}, {}, {0, 4}},
                                               {RAPT_BAD_KV_LENGTHS, {50, 0}, {41, 9}, {-1, 0}},
                                               {RAPT_BAD_KV_STARTS, {41, 0}, {40, 9}, {-1, 0}},
                                               {RAPT_OK, {0, 40}, {}, {}},
                                               {RAPT_OK, {7, 9}, {40, 9}, {0, 3}},
                                               {RAPT_OK, {1, 39}, {}, {3, 1}}}) {
    expect_status<Call<T>>("starts", all, row.expected, [&](auto &call) {
      call.options.kv_starts = given(row.kv_starts);
      call.options.kv_lengths = given(row.kv_lengths);
      call.options.q_starts = given(row.q_starts);
    });
  }
  static constexpr std::int32_t starts[] = {16, 16}, odd[] = {16, 8}, q_starts[] = {0, 1},
                                at_end[] = {32, 40}, zeros[] = {0, 0}, behind[] = {-1, 0, 1, -1, 2, 0};
  expect_options<T>({
      {"with kv_offsets", all, RAPT_BAD_KV_STARTS,
       [&](auto &o) { o.kv_starts = starts, o.kv_offsets = offsets; }},
      {"with q_offsets", all, RAPT_BAD_Q_STARTS,
       [&](auto &o) { o.q_starts = q_starts, o.q_offsets = offsets; }},
      {"in pages", forwards, RAPT_OK, [&](auto &o) { set_pages(o, 16), o.kv_starts = starts; }},
      {"within 16 keys", forwards, RAPT_BAD_KV_STARTS, [&](auto &o) { set_pages(o, 16), o.kv_starts = odd; }},
      {"at no page's beginning", forwards, RAPT_OK,
       [&](auto &o) { set_pages(o, 48, 1, zeros), o.kv_starts = starts; }},
      {"a negative page before the start", forwards, RAPT_OK,
       [&](auto &o) { set_pages(o, 16, 3, behind), o.kv_starts = starts; }},
      {"no multiple of 16, without keys", forwards, RAPT_BAD_KV_STARTS,
       [&](auto &o) { set_pages(o, 16), o.kv_starts = at_end; }},
      {"packed keys", forwards, RAPT_BAD_KV_STARTS,
       [&](auto &o) { o.packed_keys = 1, o.kv_starts = starts; }},
  });
}

// A list of 40 keys for each of two sequences, in a cache of 40 tokens.
TEST_CASE_TEMPLATE("lists of keys", T, float, double) {
  static std::vector<std::int32_t> entries(16 * kv_len);
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i] = static_cast<std::int32_t>(i % kv_len) - 1;
  static constexpr rapt_strides shared{kv_len, RAPT_REPEAT, RAPT_REPEAT}, negative{kv_len, -1, 1};
  const auto set = [&](auto &o) {
    o.key_lists = entries.data();
    o.key_list_strides = shared;
    o.cache_len = kv_len;
  };
  using O = rapt_attention_options;
  struct Row {
    const char *name;
    rapt_status expected;
    std::function<void(O &)> change;
  };
  static constexpr std::int32_t list_lengths[] = {40, 0,  1, 40, 0,  1, 40, 0, 1, 40, 0,
                                                  1,  40, 0, 1,  40, 3, 3,  3, 3, 3,  3},
                                too_long[] = {41, 41, 41, 41}, too_short[] = {-1, -1, -1, -1},
                                starts[] = {0, 0};
  for (
      const Row &row : std::vector<Row>{
          {"one list", RAPT_OK, [](O &) {}},
          {"lists of queries", RAPT_OK, [](O &o) { o.queries_per_list = 1; }},
          {"more queries than there are", RAPT_OK, [](O &o) { o.queries_per_list = SIZE_MAX; }},
          {"lengths", RAPT_OK,
           [](O &o) {
             o.key_list_lengths = list_lengths, o.key_list_length_strides = {8, 4, 1}, o.queries_per_list = 1;
           }},
          {"lengths of all", RAPT_OK, [](O &o) { o.key_list_lengths = list_lengths; }},
          {"causal", RAPT_OK, [](O &o) { o.causal = RAPT_CAUSAL_BOTTOM_RIGHT, o.window_left = 3; }},
          {"causal, lists of queries", RAPT_BAD_QUERIES_PER_LIST,
           [](O &o) { o.causal = RAPT_CAUSAL_BOTTOM_RIGHT, o.queries_per_list = 1; }},
          {"windows, lists of queries", RAPT_BAD_QUERIES_PER_LIST,
           [](O &o) { o.window_left = 3, o.queries_per_list = 2; }},
          {"windows, lists of queries", RAPT_BAD_QUERIES_PER_LIST,
           [](O &o) { o.window_right = 3, o.queries_per_list = 2; }},
          {"chunks, lengths", RAPT_BAD_QUERIES_PER_LIST,
           [](O &o) { o.window_chunk = 3, o.key_list_lengths = list_lengths; }},
          {"slopes, lists of queries", RAPT_BAD_QUERIES_PER_LIST,
           [](O &o) { o.alibi_slopes = numbers, o.queries_per_list = 2; }},
          {"two kinds of lengths", RAPT_BAD_KEY_LIST_LENGTHS,
           [](O &o) { o.key_list_lengths = list_lengths, o.kv_lengths = lengths; }},
          {"no cache", RAPT_BAD_CACHE_LEN, [](O &o) { o.cache_len = 0; }},
          {"a list too long", RAPT_BAD_KEY_LIST_LENGTHS,
           [](O &o) {
             o.key_list_lengths = too_long,
             o.key_list_length_strides = {RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
           }},
          {"a negative length", RAPT_BAD_KEY_LIST_LENGTHS,
           [](O &o) {
             o.key_list_lengths = too_short,
             o.key_list_length_strides = {RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
           }},
          {"strides", RAPT_BAD_KEY_LIST_STRIDES, [](O &o) { o.key_list_strides = negative; }},
          {"strides of lengths", RAPT_BAD_KEY_LIST_STRIDES,
           [](O &o) { o.key_list_length_strides = negative; }},
          {"strides of lengths", RAPT_BAD_KEY_LIST_STRIDES,
           [](O &o) { o.key_list_lengths = list_lengths, o.key_list_length_strides = negative; }},
          {"offsets", RAPT_BAD_KEY_LISTS, [](O &o) { o.kv_offsets = offsets; }},
          {"starts", RAPT_BAD_KEY_LISTS, [](O &o) { o.kv_starts = starts; }},
          {"pages", RAPT_BAD_KEY_LISTS, [](O &o) { set_pages(o, 16); }},
          {"packed keys", RAPT_BAD_KEY_LISTS, [](O &o) { o.packed_keys = 1; }}}) {
    expect_status<Call<T>>(row.name, forwards, row.expected, [&](auto &call) {
      set(call.options);
      row.change(call.options);
      call.fit_workspace();
    });
  }
  expect_options<T>({
      {"gradients", backwards, RAPT_BAD_KEY_LISTS, [&](auto &o) { set(o); }},
      {"strides without lists", all, RAPT_BAD_KEY_LIST_STRIDES, [](auto &o) { o.key_list_strides = shared; }},
      {"queries without lists", all, RAPT_BAD_QUERIES_PER_LIST, [](auto &o) { o.queries_per_list = 1; }},
      {"lengths without lists", all, RAPT_BAD_KEY_LIST_LENGTHS,
       [](auto &o) { o.key_list_lengths = list_lengths; }},
      {"strides of lengths without lists", all, RAPT_BAD_KEY_LIST_STRIDES,
       [](auto &o) { o.key_list_length_strides = shared; }},
      {"a cache without lists", all, RAPT_BAD_CACHE_LEN, [](auto &o) { o.cache_len = 1; }},
  });
  for (const std::int32_t bad : {-2, INT32_MIN, static_cast<std::int32_t>(kv_len), INT32_MAX}) {
    std::vector<std::int32_t> one_bad(2 * kv_len);
    one_bad[kv_len - 1] = bad;
    expect_status<Call<T>>("an entry", forwards & reads_inputs, RAPT_BAD_KEY_LISTS, [&](auto &call) {
      set(call.options);
      call.options.key_lists = one_bad.data();
      call.fit_workspace();
    });
  }
}

TEST_CASE_TEMPLATE("pages and packed keys", T, float, double) {
  expect_options<T>({{"page_size", all, RAPT_BAD_PAGE_SIZE, [&](auto &o) { set_pages(o, 0); }}});
  // The gradient supports neither pages nor packed keys.
  expect_options<T>({
      {"no table", all, RAPT_BAD_PAGE_SIZE, [](auto &o) { o.page_size = 16; }},
      {"no table", all, RAPT_BAD_BLOCK_TABLE, [](auto &o) { o.block_table_stride = 3; }},
      {"40 keys need 3 pages", all, RAPT_BAD_BLOCK_TABLE, [](auto &o) { set_pages(o, 16, 2); }},
      {"a negative page", all, RAPT_BAD_BLOCK_TABLE, [](auto &o) { set_pages(o, 16, 3, negative_page); }},
      {"the table's size", all, RAPT_BAD_SIZE, [](auto &o) { set_pages(o, 16, SIZE_MAX / 4); }},
      {"pages, offsets", all, RAPT_BAD_BLOCK_TABLE,
       [&](auto &o) { set_pages(o, 16), o.kv_offsets = offsets; }},
      {"packed keys, offsets", all, RAPT_BAD_PACKED_KEYS,
       [&](auto &o) { o.packed_keys = 1, o.kv_offsets = offsets; }},
      {"packed keys, pages of 48", all, RAPT_BAD_PACKED_KEYS,
       [](auto &o) { set_pages(o, 48), o.packed_keys = 1; }},
      {"pages", forwards, RAPT_OK, [](auto &o) { set_pages(o, 16); }},
      {"pages", backwards, RAPT_BAD_BLOCK_TABLE, [](auto &o) { set_pages(o, 16); }},
      {"a page's size", forwards & reads_inputs, RAPT_BAD_SIZE,
       [](auto &o) { set_pages(o, std::size_t{1} << 62); }},
      {"a negative page behind the last", forwards, RAPT_OK,
       [&](auto &o) { set_pages(o, 16, 3, negative_page), o.kv_lengths = lengths; }},
      {"packed keys", forwards, RAPT_OK, [](auto &o) { o.packed_keys = 1, o.kv_len = 64, o.batch = 1; }},
      {"packed keys", backwards, RAPT_BAD_PACKED_KEYS, [](auto &o) { o.packed_keys = 1; }},
  });
}
