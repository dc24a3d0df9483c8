// Draws the arguments that the forward and the backward harness share: shapes, sequences, scores, visibility,
// and operands in memory. The corpus depends on the order of the draws.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fuzz/support/fuzz_input.hpp"
#include "fuzz/support/fuzz_memory.hpp"
#include "fuzz/support/levels.hpp"
#include "support/public_api.hpp"

namespace rapt::test {

// Options are copied from here by memcpy, because the harness also compares their padding.
inline const rapt_attention_options default_attention_options = RAPT_ATTENTION_OPTIONS_INIT;

// T is the arithmetic type.
template <class T>
class AttentionFuzz {
 protected:
  enum Operand : std::size_t {
    q_at,
    k_at,
    v_at,
    results_at,
    numbers_at,
    mask_at,
    offsets_at,
    options_at,
    kv_scales_at,
    starts_at,
    lists_at
  };

  struct Size {
    std::size_t batch, heads, tokens, row;
    std::size_t elements() const { return batch * heads * tokens * row; }
  };

  static constexpr std::size_t most_elements = (FuzzMemory::capacity - 64) / sizeof(T);

  explicit AttentionFuzz(FuzzInput &input) : input_(input) {
    std::memcpy(&o_, &default_attention_options, sizeof o_);
    o_.q_type = Api<T>::type;
    memory().forget_all();
  }

  static FuzzMemory &memory() {
    static FuzzMemory memory;
    return memory;
  }

  void choose_shape(std::size_t most_keys, std::size_t usual_keys) {
    o_.batch = 1 + input_.byte() % 3;
    o_.kv_heads = 1 + input_.byte() % 2;
    o_.q_heads = o_.kv_heads * (1 + input_.byte() % 4);
    o_.q_len = input_.one_in(8) ? input_.below(70) : input_.below(9);
    o_.kv_len = input_.one_in(8) ? input_.below(most_keys) : input_.below(usual_keys);
    o_.qk_dim = 1 + (input_.one_in(4) ? input_.below(70) : input_.below(12));
    o_.v_dim = input_.one_in(2) ? o_.qk_dim : 1 + input_.below(40);
    tokens_outside_ = input_.one_in(2);
    placement_ = input_.one_in(2) ? Placement::begins_at_guard : Placement::ends_at_guard;
  }

  void choose_scale() {
    const auto usable = [](double x) { return std::isnormal(static_cast<T>(x)); };
    const double scale = input_.template number<double>();
    o_.scale = usable(scale) && std::isfinite(static_cast<T>(scale * 1.4426950408889634)) ? scale : 0;
    if (input_.one_in(4)) o_.softcap = std::fabs(input_.template number<double>());
    const double used = o_.scale == 0 ? 1 / std::sqrt(static_cast<double>(o_.qk_dim)) : o_.scale;
    if (!usable(o_.softcap) || !usable(used / o_.softcap)) o_.softcap = 0;
  }

  // Holds contiguous arrays that options may point to. `end` points to room for `more` numbers.
  struct Sequences {
    std::int32_t *kv_lengths, *q_offsets, *kv_offsets, *end;
  };
  Sequences place_sequences(bool has_lengths, std::size_t more) {
    const std::size_t count = o_.batch + 2 * (o_.batch + 1) + more;
    Sequences made{};
    made.kv_lengths = reinterpret_cast<std::int32_t *>(memory().place(offsets_at, count * 4, placement_, 0));
    for (std::size_t b = 0; b < o_.batch; ++b) {
      made.kv_lengths[b] = static_cast<std::int32_t>(input_.below(o_.kv_len + 1));
    }
    const auto draw_offsets = [&](std::int32_t *at, std::size_t longest, const std::int32_t *least) {
      *at = static_cast<std::int32_t>(input_.byte() % 3);
      for (std::size_t b = 0; b < o_.batch; ++b) {
        const std::size_t from = least ? static_cast<std::size_t>(least[b]) : 0;
        at[b + 1] = at[b] + static_cast<std::int32_t>(from + input_.below(longest - from + 1));
      }
      return at + o_.batch + 1;
    };
    made.q_offsets = made.kv_lengths + o_.batch;
    made.kv_offsets = draw_offsets(made.q_offsets, o_.q_len, nullptr);
    made.end = draw_offsets(made.kv_offsets, o_.kv_len, has_lengths ? made.kv_lengths : nullptr);
    if (has_lengths) o_.kv_lengths = made.kv_lengths;
    return made;
  }

  // Returns the size of a tensor. With offsets, all sequences form one.
  Size size_of(const std::int32_t *offsets, std::size_t heads, std::size_t length, std::size_t row) const {
    if (!offsets) return {o_.batch, heads, length, row};
    return {1, heads, static_cast<std::size_t>(offsets[o_.batch]), row};
  }
  Size queries_of(std::size_t row) const { return size_of(o_.q_offsets, o_.q_heads, o_.q_len, row); }
  Size keys_of(std::size_t row) const { return size_of(o_.kv_offsets, o_.kv_heads, o_.kv_len, row); }

  T *put(Operand operand, std::size_t count) {
    const std::size_t offset = input_.one_in(2) ? input_.below(64 / sizeof(T)) * sizeof(T) : 0;
    return reinterpret_cast<T *>(memory().place(operand, count * sizeof(T), placement_, offset));
  }

  // Returns contiguous strides. tokens_outside_ chooses the order of the tokens and heads.
  rapt_strides dense(const Size &size) const {
    const auto heads = static_cast<std::ptrdiff_t>(size.heads),
               tokens = static_cast<std::ptrdiff_t>(size.tokens), row = static_cast<std::ptrdiff_t>(size.row);
    return tokens_outside_ ? rapt_strides{heads * tokens * row, row, heads * row}
                           : rapt_strides{heads * tokens * row, tokens * row, row};
  }
  void set_strides(const Size &q, const Size &k, const Size &v, const Size &out) {
    if (!tokens_outside_) return;
    o_.q_strides = dense(q);
    if (!o_.packed_keys) o_.k_strides = dense(k);
    o_.v_strides = dense(v);
    o_.out_strides = dense(out);
  }

  void choose_visibility() {
    constexpr std::ptrdiff_t farthest = std::ptrdiff_t{1} << 60;
    constexpr std::ptrdiff_t offsets[] = {0, 1, -1, 5, 63, -40, farthest, -farthest};
    if (input_.one_in(3)) {
      o_.causal = 1 + input_.byte() % 3;
      if (o_.causal == RAPT_CAUSAL_OFFSET) o_.causal_offset = offsets[input_.byte() % 8];
    }
    constexpr std::size_t windows[] = {0, 1, 2, 5, 64, 40, std::size_t{1} << 61, SIZE_MAX};
    const auto window = [&] { return windows[input_.byte() % 8]; };
    if (input_.one_in(4)) o_.window_left = window();
    if (input_.one_in(4)) o_.window_right = window();
    if (input_.one_in(6)) o_.window_chunk = 1 + input_.below(100);
    if (!input_.one_in(3)) return;
    const std::size_t elements = o_.q_len * o_.kv_len;
    if (elements + 64 > FuzzMemory::capacity) return;
    unsigned char *mask = memory().place(mask_at, elements, placement_, input_.below(64));
    for (std::size_t i = 0; i < elements; ++i) mask[i] = input_.byte() % 3;
    o_.mask = mask;
    o_.mask_strides = {RAPT_REPEAT, RAPT_REPEAT, static_cast<std::ptrdiff_t>(o_.kv_len)};
  }
  // Draws the first keys and the first queries of sequences, or one that is wrong. It is drawn last, because the corpus
  // depends on the order, and only for a call that is right without it.
  void choose_starts() {
    if (rules_.must_fail != 0) return;
    auto *const starts =
        reinterpret_cast<std::int32_t *>(memory().place(starts_at, 2 * o_.batch * 4, placement_, 0));
    const std::size_t unit = o_.packed_keys ? 64 : o_.block_table ? 16 : 1;
    const bool of_keys = input_.one_in(3) && !o_.kv_offsets, of_queries = input_.one_in(4) && !o_.q_offsets;
    for (std::size_t b = 0; b < o_.batch; ++b) {
      const std::size_t keys = o_.kv_lengths ? static_cast<std::size_t>(o_.kv_lengths[b]) : o_.kv_len;
      starts[b] = static_cast<std::int32_t>(input_.below(keys / unit + 1) * unit);
      starts[o_.batch + b] = static_cast<std::int32_t>(input_.below(o_.q_len + 1));
    }
    if (of_keys) o_.kv_starts = starts;
    if (of_queries) o_.q_starts = starts + o_.batch;
    if (!input_.one_in(16)) return;
    if (of_keys && input_.one_in(2)) {
      starts[0] = input_.one_in(2) ? -1 : static_cast<std::int32_t>(o_.kv_len) + 1;
      return must_fail(RAPT_BAD_KV_STARTS);
    }
    if (!of_queries) return;
    starts[o_.batch] = input_.one_in(2) ? -1 : static_cast<std::int32_t>(o_.q_len) + 1;
    must_fail(RAPT_BAD_Q_STARTS);
  }
  // Draws lists of keys in a cache of kv_len tokens, for all queries of a sequence or for some. It is drawn after the
  // starts.
  void choose_lists() {
    const bool has_place = o_.kv_offsets || o_.kv_starts || o_.block_table || o_.packed_keys;
    if (rules_.must_fail != 0 || has_place || o_.kv_len == 0 || o_.q_len == 0 || !input_.one_in(3)) return;
    const bool has_positions = o_.causal != RAPT_CAUSAL_NONE || o_.window_left != 0 || o_.window_right != 0 ||
                               o_.window_chunk != 0 || o_.alibi_slopes;
    const std::size_t some = has_positions || input_.one_in(2) ? o_.q_len : 1 + input_.below(o_.q_len);
    const std::size_t lists = (o_.q_len + some - 1) / some, entries = o_.batch * lists * o_.kv_len;
    if (entries * 4 + 64 > FuzzMemory::capacity) return;
    auto *const list = reinterpret_cast<std::int32_t *>(memory().place(lists_at, entries * 4, placement_, 0));
    const std::size_t run = 1 + input_.byte() % 40;  // tokens that follow each other
    for (std::size_t i = 0; i < entries; ++i) {
      const bool follows =
          i % run != 0 && list[i - 1] >= 0 && list[i - 1] + 1 < static_cast<std::int32_t>(o_.kv_len);
      list[i] = follows ? list[i - 1] + 1 : static_cast<std::int32_t>(input_.below(o_.kv_len + 1)) - 1;
    }
    const auto length = static_cast<std::ptrdiff_t>(o_.kv_len);
    o_.key_lists = list;
    o_.key_list_strides = {length * static_cast<std::ptrdiff_t>(lists), RAPT_REPEAT, length};
    o_.cache_len = o_.kv_len;
    if (some < o_.q_len) o_.queries_per_list = some;
    if (!input_.one_in(16) || o_.q_offsets || o_.kv_lengths) return;
    list[0] = input_.one_in(2) ? -2 : static_cast<std::int32_t>(o_.kv_len);
    must_fail(RAPT_BAD_KEY_LISTS);
  }
  void choose_query_scales(const T *numbers) {
    o_.query_scales = numbers;
    o_.query_scale_strides = {RAPT_REPEAT, RAPT_REPEAT, 1};
  }

  void must_fail(rapt_status status) { rules_.must_fail |= only(status); }

  // Calls call(space, cut) on each level, with a workspace between guard pages. The call may write only to
  // `results`, and append(bits) appends the bits of the results. `cut` chooses how to split the call. It
  // differs from level to level, and is 0 if the call must fail.
  template <class Append, class Call>
  void call_on_every_level(const char *function, const RowsOfBytes &results, Append &&append, Call &&call) {
    static GuardedSlot workspace(std::size_t{1} << 20);
    const unsigned cut = input_.byte();
    unsigned calls = 0;
    on_every_level(
        function, memory(), results, rules_,
        [&] {
          unsigned char *space = workspace.place(workspace_size_, placement_, cut % 64);
          const rapt_status status = call(space, rules_.must_fail != 0 ? 0 : cut + calls++);
          if (!workspace.surroundings_intact()) finding(function, "wrote outside the workspace");
          return status;
        },
        append);
  }

  // Calls run(first, end) for each single task, the last task first.
  template <class Run>
  static rapt_status run_tasks(rapt_status status, std::size_t tasks, Run &&run) {
    for (; status == RAPT_OK && tasks > 0; --tasks) status = run(tasks - 1, tasks);
    return status;
  }

  FuzzInput &input_;
  rapt_attention_options o_;
  bool tokens_outside_ = false;
  Placement placement_ = Placement::ends_at_guard;
  std::size_t workspace_size_ = 0;
  void *q_ = nullptr, *k_ = nullptr, *v_ = nullptr;
  CallRules rules_;
};

}  // namespace rapt::test
