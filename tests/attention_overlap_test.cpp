// Tests which overlaps are refused. Only memory that a call reads or writes counts. An output may begin right
// after the last element that is read, which depends on lengths, offsets and pages. The workspace must not
// overlap anything.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "support/attention_arguments.hpp"

using namespace rapt::test;
using namespace rapt::test::attention_arguments;

namespace {

// Holds the lengths of the two sequences and the positions of their keys.
struct Lengths {
  const char *name;
  std::vector<std::int32_t> kv_lengths, q_offsets = {}, kv_offsets = {}, pages = {};
  bool packed_keys = false;

  std::size_t queries(std::size_t b) const {
    return q_offsets.empty() ? q_len : static_cast<std::size_t>(q_offsets[b + 1] - q_offsets[b]);
  }
  std::size_t keys(std::size_t b) const {
    if (!kv_lengths.empty()) return static_cast<std::size_t>(kv_lengths[b]);
    return kv_offsets.empty() ? kv_len : static_cast<std::size_t>(kv_offsets[b + 1] - kv_offsets[b]);
  }
};

constexpr std::size_t page_size = 16, pages_per_sequence = 3, columns = 30;

const Lengths all_lengths[] = {
    {"whole", {}},
    {"a short last sequence", {30, 7}},
    {"a short first sequence", {7, 30}},
    {"no keys in the last", {25, 0}},
    {"no keys in the first", {0, 25}},
    {"no keys", {0, 0}},
    {"no queries in the last", {9, 30}, {0, 3, 3}},
    {"no queries in the first", {30, 9}, {1, 1, 3}},
    {"few queries in the last", {30, 30}, {0, 3, 4}},
    {"packed sequences", {}, {2, 4, 5}, {3, 20, 50}},
    {"packed sequences with lengths", {11, 20}, {}, {5, 20, 50}},
    {"packed sequences, none in the last", {11, 0}, {}, {5, 20, 50}},
    {"packed sequences, none in the first", {0, 9}, {}, {5, 20, 50}},
    {"pages", {30, 7}, {}, {}, {2, 4, 0, 3, 0, 0}},
    {"pages, the last one with few keys", {30, 7}, {}, {}, {2, 1, 0, 5, 0, 0}},
    {"pages of a sequence without queries", {30, 7}, {0, 3, 3}, {}, {2, 1, 0, 5, 0, 0}},
    {"packed keys", {30, 7}, {}, {}, {}, true},
};

// Computes the range of bytes from the first element that a call reads to the end of the last one.
class ReadBytes {
 public:
  explicit ReadBytes(std::size_t element_size) : size_(element_size) {}
  void take(std::ptrdiff_t first, std::size_t count) {
    const std::size_t begin = static_cast<std::size_t>(first) * size_;
    begin_ = std::min(begin_, begin);
    end_ = std::max(end_, begin + count * size_);
  }
  bool any() const { return end_ > 0; }
  std::size_t begin() const { return begin_; }
  std::size_t end() const { return end_; }

 private:
  std::size_t size_, begin_ = SIZE_MAX, end_ = 0;
};

std::ptrdiff_t offset(const rapt_strides &s, std::size_t b, std::size_t h, std::size_t t) {
  const auto times = [](std::ptrdiff_t stride, std::size_t n) {
    return stride == RAPT_REPEAT ? 0 : stride * static_cast<std::ptrdiff_t>(n);
  };
  return times(s.batch, b) + times(s.head, h) + times(s.token, t);
}

// Returns the range of bytes that a call reads of keys or values with `dim` elements, as rapt.h describes it.
ReadBytes of_keys(const Lengths &l, const rapt_strides &strides, std::size_t dim, std::size_t size,
                  bool is_k) {
  ReadBytes read(size);
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t h = 0; h < kv_heads; ++h) {
      for (std::size_t j = 0; j < l.keys(b) && l.queries(b) > 0; ++j) {
        if (!l.pages.empty()) {
          const auto page = static_cast<std::size_t>(l.pages[b * pages_per_sequence + j / page_size]);
          read.take(offset(strides, page, h, j % page_size), dim);
        } else if (!l.kv_offsets.empty()) {
          read.take(offset(strides, 0, h, static_cast<std::size_t>(l.kv_offsets[b]) + j), dim);
        } else if (l.packed_keys && is_k) {
          read.take(offset(strides, b, h, 0), 64 * dim);
        } else {
          read.take(offset(strides, b, h, j), dim);
        }
      }
    }
  }
  return read;
}

// Returns the range of bytes of an array that has a row of row(b) elements for each query of sequence b.
template <class Row>
ReadBytes of_queries(const Lengths &l, const rapt_strides &strides, std::size_t size, Row row) {
  ReadBytes read(size);
  for (std::size_t b = 0; b < batch; ++b) {
    for (std::size_t h = 0; h < q_heads; ++h) {
      for (std::size_t i = 0; i < l.queries(b); ++i) {
        if (row(b) > 0) read.take(offset(strides, b, h, i), row(b));
      }
    }
  }
  return read;
}

template <class T>
void set(const Lengths &l, Call<T> &call, int layout) {
  rapt_attention_options &o = call.options;
  const auto given = [&](const std::vector<std::int32_t> &values) {
    return values.empty() ? nullptr : call.keep(values);
  };
  o.kv_lengths = given(l.kv_lengths);
  o.q_offsets = given(l.q_offsets);
  o.kv_offsets = given(l.kv_offsets);
  o.block_table = given(l.pages);
  if (o.block_table) o.page_size = page_size;
  o.packed_keys = l.packed_keys;
  const bool is_dense = l.pages.empty() && l.kv_offsets.empty();
  const auto strides = [&](std::ptrdiff_t heads, std::size_t tokens, std::ptrdiff_t dim) {
    // Layout 0 is [sequence][head][token], 1 is [sequence][token][head], and 2 is [token][sequence][head].
    if (layout == 2 && is_dense)
      return rapt_strides{heads * dim, dim, static_cast<std::ptrdiff_t>(batch) * heads * dim};
    const auto usual = layout == 1 ? rapt_strides_bthd : rapt_strides_bhtd;
    return usual(static_cast<std::size_t>(heads), tokens, static_cast<std::size_t>(dim));
  };
  const std::size_t tokens = l.pages.empty() ? kv_len : page_size;
  o.k_strides = strides(kv_heads, tokens, qk_dim);
  o.v_strides = strides(kv_heads, tokens, v_dim);
  if (l.packed_keys) o.k_strides = {2 * 64 * qk_dim, 64 * qk_dim, 0};
}

// Sets up a call whose output begins `at` bytes after the beginning of one of its inputs.
template <class T>
using Place = std::function<void(Call<T> &call, std::size_t at)>;

template <class T>
void expect_end(const std::string &name, unsigned function, std::size_t output_bytes, const ReadBytes &read,
                const Lengths &l, int layout, const Place<T> &place) {
  const auto expect = [&](std::size_t at, rapt_status expected) {
    CAPTURE(at);
    CAPTURE(read.begin());
    CAPTURE(read.end());
    expect_status<Call<T>>(name + ", " + l.name, function, expected, [&](auto &call) {
      set(l, call, layout);
      place(call, at);
    });
  };
  if (!read.any()) return expect(0, RAPT_OK);
  constexpr std::size_t step = sizeof(T);
  const std::size_t behind = (read.end() + step - 1) / step * step;
  expect(behind, RAPT_OK);
  expect(behind - step, RAPT_BAD_OVERLAP);
  if (read.begin() < output_bytes) return;
  const std::size_t before = (read.begin() - output_bytes) / step * step;
  expect(before, RAPT_OK);
  expect(before + (read.begin() - output_bytes - before) + step, RAPT_BAD_OVERLAP);
}

}  // namespace

TEST_CASE_TEMPLATE("outputs may lie where nothing is read", T, float, double) {
  for (const Lengths &l : all_lengths) {
    for (const int layout : {0, 1, 2}) {
      // `out` has the same number of queries as the sequences, and begins with the first of these queries.
      const std::size_t skipped = l.q_offsets.empty() ? 0 : static_cast<std::size_t>(l.q_offsets[0]);
      const std::size_t queries =
          l.q_offsets.empty() ? batch * q_len : static_cast<std::size_t>(l.q_offsets[batch]) - skipped;
      const std::size_t row = q_heads * v_dim, out_bytes = queries * row * sizeof(T);
      const auto with_out = [&](auto &call, void *memory, std::size_t at) {
        const auto token = static_cast<std::ptrdiff_t>(row);
        call.options.out_strides = {static_cast<std::ptrdiff_t>(q_len) * token, v_dim, token};
        call.at[out] = reinterpret_cast<T *>(static_cast<char *>(memory) + at) - skipped * row;
        call.at[lse] = nullptr;
      };
      Call<T> strides(whole);
      set(l, strides, layout);
      const rapt_attention_options &o = strides.options;
      for (const Array array : {k, v}) {
        expect_end<T>(std::string("out behind ") + array_names[array], whole, out_bytes,
                      of_keys(l, array == k ? o.k_strides : o.v_strides, array == k ? qk_dim : v_dim,
                              sizeof(T), array == k),
                      l, layout, [&](auto &call, std::size_t at) {
                        call.memory[array].resize(2 * memory_size);
                        for (std::size_t i = 0; i < 2 * memory_size; ++i) {
                          call.memory[array][i] = static_cast<T>(i % 7) / 4;
                        }
                        call.at[array] = call.memory[array].data();
                        with_out(call, call.at[array], at);
                      });
      }
      // A bias or mask may have fewer columns than kv_len, if no length exceeds the number of columns.
      const bool has_lengths = !l.kv_lengths.empty();
      const rapt_strides own = rapt_strides_bhtd(q_heads, q_len, has_lengths ? columns : kv_len);
      const auto keys = [&](std::size_t b) { return l.keys(b); };
      expect_end<T>("out behind bias", whole, out_bytes, of_queries(l, own, sizeof(T), keys), l, layout,
                    [&](auto &call, std::size_t at) {
                      call.memory[bias].resize(2 * memory_size, T(0));
                      call.give({bias});
                      call.options.bias_strides = own;
                      with_out(call, call.at[bias], at);
                    });
      expect_end<T>("out behind mask", whole, out_bytes, of_queries(l, own, 1, keys), l, layout,
                    [&](auto &call, std::size_t at) {
                      call.memory[bias].resize(2 * memory_size);
                      std::memset(static_cast<void *>(call.memory[bias].data()), 1,
                                  2 * memory_size * sizeof(T));
                      call.options.mask = reinterpret_cast<const std::uint8_t *>(call.memory[bias].data());
                      call.options.mask_strides = own;
                      with_out(call, call.memory[bias].data(), at);
                    });
      const rapt_strides one = rapt_strides_bhtd(q_heads, q_len, 1);
      const auto scale = [](std::size_t) { return std::size_t{1}; };
      for (const Function function : {whole, merge}) {
        expect_end<T>("out behind query scales", function, out_bytes, of_queries(l, one, sizeof(T), scale), l,
                      layout, [&](auto &call, std::size_t at) {
                        if (function == merge) call.last = batch * kv_heads;
                        call.options.query_scales = call.memory[bias].data();
                        call.options.query_scale_strides = one;
                        with_out(call, call.memory[bias].data(), at);
                      });
      }
    }
  }
}

// rapt.h allows such a mask in its text on ONNX. This test places the mask directly before or after the
// output. In memory with other arrays, they would be adjacent only by chance.
TEST_CASE("a mask with fewer columns than kv_len, in memory of its own") {
  for (const bool before : {false, true}) {
    Call<float> call(whole);
    rapt_attention_options &o = call.options;
    o.kv_lengths = call.keep({columns, columns});
    constexpr std::size_t out_bytes = out_size * sizeof(float), bytes = rows * columns;
    std::vector<float> arena((out_bytes + bytes) / sizeof(float));
    auto *const mask = reinterpret_cast<std::uint8_t *>(arena.data()) + (before ? 0 : out_bytes);
    std::fill_n(mask, bytes, std::uint8_t{1});
    o.mask = mask;
    o.mask_strides = rapt_strides_bhtd(q_heads, q_len, columns);
    call.at[out] = arena.data() + (before ? bytes / sizeof(float) : 0);
    CHECK(call.run() == RAPT_OK);
  }
}

TEST_CASE_TEMPLATE("the block table ends with the last page that is looked up", T, float, double) {
  for (const bool overlaps : {false, true}) {
    expect_status<Call<T>>("a table", whole, overlaps ? RAPT_BAD_OVERLAP : RAPT_OK, [&](auto &call) {
      const std::int32_t *const table = call.keep(std::vector<std::int32_t>(4 * out_size, 0));
      call.options.block_table = table;
      call.options.block_table_stride = 6;
      call.options.page_size = page_size;
      call.options.kv_lengths = call.keep({30, 20});
      // The second sequence looks up entries 6 and 7.
      call.at[out] =
          reinterpret_cast<T *>(const_cast<std::int32_t *>(table) + (overlaps ? 8 - sizeof(T) / 4 : 8));
    });
  }
}

TEST_CASE_TEMPLATE("the workspace overlaps nothing", T, float, double) {
  struct Input {
    Array array;
    unsigned functions;
  };
  const auto in_workspace = [](auto &call, Array array, std::size_t at) {
    call.give_all();
    call.workspace_memory.resize(call.workspace_size + memory_size * sizeof(T), 0);
    call.workspace = call.workspace_memory.data();
    call.at[array] = reinterpret_cast<T *>(call.workspace + at);
  };
  for (const Input &input : {Input{q, reads_inputs},
                             {k, reads_inputs},
                             {v, reads_inputs},
                             {bias, reads_inputs},
                             {sinks, all},
                             {out, writes_out | backwards},
                             {lse, writes_out | backwards},
                             {partials, partial | merge},
                             {dout, backwards},
                             {dq, backwards},
                             {dk, backwards},
                             {dv, backwards},
                             {dbias, backwards},
                             {dsinks, backwards}}) {
    const std::string name = std::string(array_names[input.array]) + " in the workspace";
    expect_status<Call<T>>(name, input.functions, RAPT_BAD_WORKSPACE,
                           [&](auto &call) { in_workspace(call, input.array, 0); });
    expect_status<Call<T>>(name + "'s end", input.functions, RAPT_BAD_WORKSPACE, [&](auto &call) {
      in_workspace(call, input.array, call.workspace_size - sizeof(T));
    });
    const unsigned seen_to_write = input.functions & ~(input.array == partials ? unsigned{partial} : 0u);
    expect_status<Call<T>>(name + ", behind it", seen_to_write, RAPT_OK,
                           [&](auto &call) { in_workspace(call, input.array, call.workspace_size); });
  }
  for (const auto option : {&rapt_attention_options::kv_lengths, &rapt_attention_options::q_offsets,
                            &rapt_attention_options::kv_offsets}) {
    expect_status<Call<T>>("an option", all, RAPT_BAD_WORKSPACE, [&](auto &call) {
      std::fill(call.workspace_memory.begin(), call.workspace_memory.end(), std::uint8_t{0});
      call.options.*option = reinterpret_cast<const std::int32_t *>(call.workspace);
    });
  }
}
