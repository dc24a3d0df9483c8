// Tests bad arguments of attention other than its options, and bad inputs of its gradient. Each call must
// return the status that names the argument, and write nothing.
#include "support/attention_arguments.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <vector>

#include "support/effort.hpp"

using namespace rapt::test;
using namespace rapt::test::attention_arguments;

namespace {

template <class T>
void fill_ordinary(Call<T> &call) {
  for (std::size_t i = 0; i < q_size; ++i) call.at[q][i] = static_cast<T>(i % 5) / T(4);
  for (std::size_t i = 0; i < k_size; ++i) call.at[k][i] = static_cast<T>(i % 7) / T(4);
  for (std::size_t i = 0; i < v_size; ++i) call.at[v][i] = static_cast<T>(i % 11);
}

template <class T>
void expect_same_out(Call<T> &a, Call<T> &b) {
  CHECK(a.run() == RAPT_OK);
  CHECK(b.run() == RAPT_OK);
  CHECK(a.memory[out] == b.memory[out]);
}

}  // namespace

TEST_CASE_TEMPLATE("null pointers", T, float, double) {
  struct Pointer {
    Array array;
    unsigned functions;
    rapt_status expected;
  };
  for (const Pointer &p : {Pointer{q, reads_inputs, RAPT_BAD_Q},
                           {k, reads_inputs, RAPT_BAD_K},
                           {v, reads_inputs, RAPT_BAD_V},
                           {out, writes_out | backwards, RAPT_BAD_OUT},
                           {partials, partial | merge, RAPT_BAD_PARTIALS},
                           {lse, backwards, RAPT_BAD_LSE},
                           {dout, backwards, RAPT_BAD_DOUT},
                           {dq, backwards, RAPT_BAD_DQ},
                           {dk, backwards, RAPT_BAD_DK},
                           {dv, backwards, RAPT_BAD_DV},
                           {lse, forwards, RAPT_OK}}) {
    expect_status<Call<T>>(array_names[p.array], p.functions, p.expected,
                           [&](auto &call) { call.at[p.array] = nullptr; });
  }
  expect_statuses<Call<T>>({
      {"a valid call", all, RAPT_OK, [](auto &) {}},
      {"options", all, RAPT_BAD_OPTIONS, [](auto &call) { call.given = nullptr; }},
      {"workspace", all, RAPT_BAD_WORKSPACE, [](auto &call) { call.workspace = nullptr; }},
      {"a small workspace", all, RAPT_BAD_WORKSPACE, [](auto &call) { call.workspace_size -= 1; }},
      // Without keys the gradient writes only dq; without queries it writes only dk and dv.
      {"no keys", whole | backwards, RAPT_OK,
       [](auto &call) {
         call.at[k] = call.at[v] = call.at[dk] = call.at[dv] = nullptr;
         call.options.kv_len = 0;
       }},
      {"no queries", whole | backwards, RAPT_OK,
       [](auto &call) {
         for (const Array array : {q, k, v, out, lse, dout, dq}) call.at[array] = nullptr;
         call.options.q_len = 0;
       }},
  });
}

TEST_CASE_TEMPLATE("the queries answer with the same statuses", T, float, double) {
  std::size_t number = 7, length = 7;
  const auto ask = [&](const rapt_attention_options *options, rapt_status expected) {
    CHECK(rapt_attention_workspace(options, &number) == expected);
    CHECK(rapt_attention_tasks(options, &number) == expected);
    CHECK(rapt_attention_partial_tasks(options, &number, &length) == expected);
  };
  ask(nullptr, RAPT_BAD_OPTIONS);
  Call<T> call(whole);
  ask(&call.options, RAPT_OK);
  CHECK(number == 4);  // 2 sequences of 2 key/value heads
  CHECK(length == rows * (v_dim + 2));
  call.options.kv_len = 1025;
  CHECK(rapt_attention_partial_tasks(&call.options, &number, &length) == RAPT_OK);
  CHECK(number == 12);
  CHECK(length == 3 * rows * (v_dim + 2));
  call.options.q_len = 100;  // 200 rows per key/value head
  CHECK(rapt_attention_tasks(&call.options, &number) == RAPT_OK);
  CHECK(number == 16);
  CHECK(rapt_attention_partial_tasks(&call.options, nullptr, &length) == RAPT_OK);
  CHECK(rapt_attention_partial_tasks(&call.options, &number, nullptr) == RAPT_OK);
  CHECK(rapt_attention_tasks(&call.options, nullptr) == RAPT_BAD_OUT);
  CHECK(rapt_attention_workspace(&call.options, nullptr) == RAPT_BAD_OUT);
  call.options.qk_dim = 0;
  number = length = 7;
  ask(&call.options, RAPT_BAD_DIM);
  CHECK(number == 7);
  CHECK(length == 7);
}

// Users of ctypes, Rust, Go and designated initialisers create such options.
TEST_CASE_TEMPLATE("zeroed options with a size and a shape are plain attention", T, float, double) {
  Call<T> plain(whole), zeroed(whole);
  std::memset(static_cast<void *>(&zeroed.options), 0, sizeof zeroed.options);
  zeroed.options.size = sizeof zeroed.options;
  zeroed.options.q_type = Api<T>::type;
  zeroed.options.batch = batch;
  zeroed.options.q_heads = q_heads;
  zeroed.options.kv_heads = kv_heads;
  zeroed.options.q_len = q_len;
  zeroed.options.kv_len = kv_len;
  zeroed.options.qk_dim = qk_dim;
  zeroed.options.v_dim = v_dim;
  fill_ordinary(plain);
  fill_ordinary(zeroed);
  expect_same_out(plain, zeroed);
  CHECK(plain.memory[out][0] != plain.memory[v][0]);
}

// Strides that are all 0 mean a contiguous array, in which every query has a separate row.
TEST_CASE_TEMPLATE("a bias or mask without strides is contiguous", T, float, double) {
  for (const bool by_mask : {false, true}) {
    Call<T> call(whole), strided(whole);
    for (Call<T> *one : {&call, &strided}) {
      fill_ordinary(*one);
      for (std::size_t i = 0; i < bias_size; ++i) {
        one->mask[i] = i % 3 != 0;
        one->memory[bias][i] = one->mask[i] ? T(0) : -std::numeric_limits<T>::infinity();
      }
      if (by_mask)
        one->options.mask = one->mask.data();
      else
        one->give({bias});
    }
    (by_mask ? strided.options.mask_strides : strided.options.bias_strides) =
        rapt_strides_bhtd(q_heads, q_len, kv_len);
    expect_same_out(call, strided);
    CHECK(call.memory[out][0] != call.memory[out][v_dim]);  // another token's row
  }
}

// Attention does not use the batch stride of a packed batch, or the token stride of packed keys.
TEST_CASE_TEMPLATE("a stride without a use makes no tensor strided", T, float, double) {
  Call<T> packed(whole), plain(whole);
  for (Call<T> *call : {&packed, &plain}) {
    fill_ordinary(*call);
    call->options.q_offsets = call->keep({0, 3, 6});
  }
  packed.options.q_strides = {48, 0, 0};
  expect_same_out(packed, plain);
  packed.options.q_strides = {0, 0, 0};
  for (Call<T> *call : {&packed, &plain}) {
    call->options.q_offsets = nullptr;
    call->options.packed_keys = 1;
  }
  packed.options.k_strides = {0, 0, 8};
  expect_same_out(packed, plain);
}

TEST_CASE("strides of the two common layouts") {
  const rapt_strides heads_first = rapt_strides_bhtd(3, 5, 7), tokens_first = rapt_strides_bthd(3, 5, 7);
  CHECK(heads_first.batch == 105);
  CHECK(heads_first.head == 35);
  CHECK(heads_first.token == 7);
  CHECK(tokens_first.batch == 105);
  CHECK(tokens_first.head == 7);
  CHECK(tokens_first.token == 21);
}

// Because tokens may repeat, the memory of the inputs does not limit the size of partial results.
TEST_CASE_TEMPLATE("sizes of partial results that do not fit", T, float, double) {
  for (const std::size_t len : {std::size_t{1} << 34, std::size_t{1} << 40}) {
    expect_status<Call<T>>("repeated tokens", partial | merge, RAPT_BAD_SIZE, [&](auto &call) {
      auto &o = call.options;
      o.batch = o.q_heads = o.kv_heads = o.qk_dim = 1;
      o.q_len = o.kv_len = len;
      o.v_dim = 1022;
      o.q_strides = o.k_strides = o.v_strides = {1, 1, RAPT_REPEAT};
      call.at[lse] = nullptr;
      std::size_t task_count = 7, length = 7;
      CHECK(rapt_attention_partial_tasks(&o, &task_count, &length) == RAPT_BAD_SIZE);
      CHECK(task_count == 7);
      CHECK(length == 7);
    });
  }
}

TEST_CASE_TEMPLATE("tasks", T, float, double) {
  struct Range {
    std::size_t first, last;
    rapt_status expected;
  };
  for (const Range &range : {Range{0, 5, RAPT_BAD_TASKS},
                             {3, 2, RAPT_BAD_TASKS},
                             {5, 5, RAPT_BAD_TASKS},
                             {0, SIZE_MAX, RAPT_BAD_TASKS},
                             {SIZE_MAX, SIZE_MAX, RAPT_BAD_TASKS},
                             {0, 0, RAPT_OK},
                             {2, 2, RAPT_OK},
                             {4, 4, RAPT_OK}}) {
    CAPTURE(range.first);
    CAPTURE(range.last);
    expect_status<Call<T>>("a range", tasks | partial | merge | gradient_tasks, range.expected,
                           [&](auto &call) {
                             call.first = range.first;
                             call.last = range.last;
                           });
  }
}

TEST_CASE_TEMPLATE("overlaps", T, float, double) {
  constexpr unsigned whole_or_tasks = whole | tasks;
  expect_overlaps<T>({1, 6, 17, 100},
                     {{whole_or_tasks, out, k},
                      {whole_or_tasks, out, v},
                      {partial, partials, q},
                      {partial, partials, v},
                      {merge, out, partials},
                      {writes_out, lse, out},
                      {whole_or_tasks, lse, q},
                      {merge, lse, partials}},
                     [](auto &) {});
  const auto square = [](auto &call) { call.set_v_dim(qk_dim); };
  expect_overlaps<T>({1, 6, 17, 100}, {{whole_or_tasks, out, q}}, square);
  const auto in_place = [&](auto &call) {
    square(call);
    call.at[out] = call.at[q];
  };
  expect_statuses<Call<T>>({
      {"in place", whole_or_tasks, RAPT_OK, in_place},
      {"in place, other rows", whole_or_tasks, RAPT_BAD_OVERLAP,
       [](auto &call) { call.at[out] = call.at[q]; }},
      {"in place, other strides", whole_or_tasks, RAPT_BAD_OVERLAP,
       [&](auto &call) {
         in_place(call);
         call.options.out_strides = {72, 6, 24};
       }},
      {"out behind q", whole_or_tasks, RAPT_OK, [](auto &call) { call.at[out] = call.at[q] + q_size; }},
      {"lse behind out", writes_out, RAPT_OK, [](auto &call) { call.at[lse] = call.at[out] + out_size; }},
      {"v is k", reads_inputs, RAPT_OK, [](auto &call) { call.at[v] = call.at[k]; }},
  });
}

TEST_CASE_TEMPLATE("slices of one buffer are apart", T, float, double) {
  // The layout is [batch][token][query, key and value heads][dim]. `out` replaces q or follows the values.
  constexpr std::ptrdiff_t dim = 4, heads = 2, pitch = 4 * heads * dim;
  for (const std::size_t tokens : Sizes{1, 3}) {
    for (const std::size_t sequences : Sizes{1, 2}) {
      for (const std::ptrdiff_t shift : {0, 24, 1, 5, 8, 13, 16, 23}) {
        CAPTURE(tokens);
        CAPTURE(sequences);
        CAPTURE(shift);
        const rapt_status expected = shift % 24 == 0 ? RAPT_OK : RAPT_BAD_OVERLAP;
        expect_status<Call<T>>("a slice", whole, expected, [&](auto &call) {
          auto &o = call.options;
          o.batch = sequences;
          o.q_heads = o.kv_heads = heads;
          o.q_len = o.kv_len = tokens;
          o.qk_dim = o.v_dim = dim;
          o.q_strides = {static_cast<std::ptrdiff_t>(tokens) * pitch, dim, pitch};
          o.k_strides = o.v_strides = o.out_strides = o.q_strides;
          for (std::size_t i = 0; i < call.memory[q].size(); ++i) call.at[q][i] = static_cast<T>(i % 7);
          call.at[lse] = nullptr;
          call.at[k] = call.at[q] + heads * dim;
          call.at[v] = call.at[q] + 2 * heads * dim;
          call.at[out] = call.at[q] + shift;
        });
      }
    }
  }
}

TEST_CASE_TEMPLATE("options must not overlap an output", T, float, double) {
  for (const auto &[functions, output] :
       {std::pair{writes_out, out}, std::pair{unsigned{partial}, partials}}) {
    const auto row = [f = functions, o = output](const char *name, auto &&set) {
      return ChangedCall<Call<T>>{name, f, RAPT_BAD_OVERLAP, [=](auto &call) { set(call, call.at[o]); }};
    };
    expect_statuses<Call<T>>({
        row("query_scales",
            [](auto &call, T *memory) {
              call.options.query_scales = memory + 3;
              call.options.query_scale_strides = repeated;
            }),
        row("alibi_slopes", [](auto &call, T *memory) { call.options.alibi_slopes = memory + 2; }),
        row("sinks", [](auto &call, T *memory) { call.at[sinks] = memory + 1; }),
    });
    // The merge reads neither k nor v.
    const auto by_key = [f = functions, o = output](const char *name, auto &&set) {
      const auto change = [=](auto &call) { set(call, call.at[o]); };
      expect_status<Call<T>>(name, f & ~unsigned{merge}, RAPT_BAD_OVERLAP, change);
      expect_status<Call<T>>(name, f & merge, RAPT_OK, change);
    };
    by_key("bias", [](auto &call, T *memory) {
      call.at[bias] = memory;
      call.options.bias_strides = repeated;
    });
    by_key("mask", [](auto &call, T *memory) {
      call.options.mask = reinterpret_cast<const std::uint8_t *>(memory) + 9;
      call.options.mask_strides = repeated;
    });
  }
  const auto row = [](const char *name, const std::int32_t *rapt_attention_options::*option) {
    return ChangedCall<Call<T>>{name, writes_out, RAPT_BAD_OVERLAP, [=](auto &call) {
                                  call.options.*option = call.keep(std::vector<std::int32_t>(4 * q_size, 0));
                                  call.at[out] = reinterpret_cast<T *>(call.numbers.back().data());
                                  if (call.options.block_table) call.options.page_size = 16;
                                }};
  };
  using Options = rapt_attention_options;
  expect_statuses<Call<T>>({row("kv_lengths", &Options::kv_lengths), row("kv_offsets", &Options::kv_offsets),
                            row("block_table", &Options::block_table)});
}
