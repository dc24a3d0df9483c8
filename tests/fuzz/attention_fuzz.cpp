// attention with every option, whole, task by task and with its keys split: layouts, pages, offsets, and bad
// arguments.
#include <algorithm>
#include <cmath>

#include "fuzz/support/fuzz_input.hpp"
#include "fuzz/support/fuzz_memory.hpp"
#include "fuzz/support/levels.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

enum Operand : std::size_t { q_at, k_at, v_at, results_at, numbers_at, mask_at, offsets_at, options_at };

struct Size {
  std::size_t batch, heads, tokens, row;
  std::size_t elements() const { return batch * heads * tokens * row; }
};

// Dense, heads outside of tokens or within.
rapt_strides dense(const Size &size, bool tokens_outside) {
  const auto heads = static_cast<std::ptrdiff_t>(size.heads),
             tokens = static_cast<std::ptrdiff_t>(size.tokens), row = static_cast<std::ptrdiff_t>(size.row);
  return tokens_outside ? rapt_strides{heads * tokens * row, row, heads * row}
                        : rapt_strides{heads * tokens * row, tokens * row, row};
}

// Copied whole: memory is compared with the bytes between the fields.
const rapt_attention_options default_options = RAPT_ATTENTION_OPTIONS_INIT;

template <class T>
class AttentionFuzz {
 public:
  explicit AttentionFuzz(FuzzInput &input) : input_(input) {
    std::memcpy(&o_, &default_options, sizeof o_);
    o_.q_type = Api<T>::type;
  }

  void run() {
    memory().forget_all();
    choose_shape();
    choose_sequences();
    if (!place()) return;
    choose_scores();
    choose_visibility();
    spoil();
    call_on_every_level();
  }

 private:
  static FuzzMemory &memory() {
    static FuzzMemory memory;
    return memory;
  }

  void choose_shape() {
    o_.batch = 1 + input_.byte() % 3;
    o_.kv_heads = 1 + input_.byte() % 2;
    o_.q_heads = o_.kv_heads * (1 + input_.byte() % 4);
    o_.q_len = input_.one_in(8) ? input_.below(70) : input_.below(9);
    o_.kv_len = input_.one_in(8) ? input_.below(700) : input_.below(140);
    o_.qk_dim = 1 + (input_.one_in(4) ? input_.below(70) : input_.below(12));
    o_.v_dim = input_.one_in(2) ? o_.qk_dim : 1 + input_.below(40);
    tokens_outside_ = input_.one_in(2);
    placement_ = input_.one_in(2) ? Placement::begins_at_guard : Placement::ends_at_guard;
  }

  // How keys are found, and how many there are.
  void choose_sequences() {
    const unsigned kind = input_.byte() % 8;
    use_pages_ = kind == 1 || kind == 2;
    use_kv_offsets_ = kind == 3;
    o_.packed_keys = kind == 2 || kind == 4;
    if (use_pages_) o_.page_size = o_.packed_keys ? 64 : 16 * (1 + input_.byte() % 5);
    use_kv_lengths_ = input_.one_in(3);
    use_q_offsets_ = input_.one_in(4);
  }

  std::int32_t *place_offsets() {
    // Each array stands for itself: kv_lengths, q_offsets, kv_offsets, the table.
    table_columns_ = use_pages_ ? (o_.kv_len + o_.page_size - 1) / o_.page_size : 0;
    const std::size_t count = o_.batch + 2 * (o_.batch + 1) + o_.batch * table_columns_;
    auto *numbers = reinterpret_cast<std::int32_t *>(memory().place(offsets_at, count * 4, placement_, 0));
    std::int32_t *at = numbers;
    for (std::size_t b = 0; b < o_.batch; ++b) at[b] = static_cast<std::int32_t>(input_.below(o_.kv_len + 1));
    if (use_kv_lengths_) o_.kv_lengths = at;
    lengths_ = at;
    at += o_.batch;
    const auto offsets = [&](std::size_t longest, const std::int32_t *least) {
      at[0] = static_cast<std::int32_t>(input_.byte() % 3);
      for (std::size_t b = 0; b < o_.batch; ++b) {
        const std::size_t from = least ? static_cast<std::size_t>(least[b]) : 0;
        at[b + 1] = at[b] + static_cast<std::int32_t>(from + input_.below(longest - from + 1));
      }
      const std::int32_t *made = at;
      at += o_.batch + 1;
      return made;
    };
    const std::int32_t *q_offsets = offsets(o_.q_len, nullptr);
    const std::int32_t *kv_offsets = offsets(o_.kv_len, use_kv_lengths_ ? lengths_ : nullptr);
    if (use_q_offsets_) o_.q_offsets = q_offsets;
    if (use_kv_offsets_) o_.kv_offsets = kv_offsets;
    for (std::size_t i = 0; i < o_.batch * table_columns_; ++i) {
      at[i] = static_cast<std::int32_t>(input_.byte() % pages);
    }
    if (use_pages_) o_.block_table = at;
    table_ = at;
    return numbers;
  }

  bool place() {
    place_offsets();
    const std::size_t q_tokens = use_q_offsets_ ? static_cast<std::size_t>(o_.q_offsets[o_.batch]) : o_.q_len;
    const Size q{use_q_offsets_ ? 1 : o_.batch, o_.q_heads, q_tokens, o_.qk_dim};
    const Size out{q.batch, q.heads, q.tokens, o_.v_dim};
    std::size_t sequences = o_.batch, tokens = o_.kv_len;
    if (use_pages_) sequences = pages, tokens = o_.page_size;
    if (use_kv_offsets_) sequences = 1, tokens = static_cast<std::size_t>(o_.kv_offsets[o_.batch]);
    const std::size_t blocks = (tokens + 63) / 64;
    const Size k = o_.packed_keys ? Size{sequences, o_.kv_heads, 1, blocks * 64 * o_.qk_dim}
                                  : Size{sequences, o_.kv_heads, tokens, o_.qk_dim};
    const Size v{sequences, o_.kv_heads, tokens, o_.v_dim};
    in_place_ = o_.v_dim == o_.qk_dim && input_.one_in(3);
    out_elements_ = in_place_ ? 0 : out.elements();
    lse_elements_ = out.batch * out.heads * out.tokens;
    const std::size_t most = (FuzzMemory::capacity - 64) / sizeof(T);
    for (const std::size_t count :
         {q.elements(), k.elements(), v.elements(), out_elements_ + lse_elements_}) {
      if (count > most) return false;
    }
    const auto put = [&](Operand operand, std::size_t count) {
      const std::size_t offset = input_.one_in(2) ? input_.below(64 / sizeof(T)) * sizeof(T) : 0;
      return reinterpret_cast<T *>(memory().place(operand, count * sizeof(T), placement_, offset));
    };
    q_ = put(q_at, in_place_ ? q.elements() + lse_elements_ : q.elements());
    k_ = put(k_at, k.elements());
    v_ = put(v_at, v.elements());
    input_.fill(q_, q.elements());
    input_.fill(k_, k.elements());
    input_.fill(v_, v.elements());
    // The log-sum-exp behind the output, so that one range of memory holds all results.
    out_ = in_place_ ? q_ : put(results_at, out.elements() + lse_elements_);
    results_ = lse_elements_ + (in_place_ ? q.elements() : out.elements());
    o_.lse = out_ + (results_ - lse_elements_);
    if (tokens_outside_) {
      o_.q_strides = dense(q, true);
      o_.out_strides = dense(out, true);
      o_.v_strides = dense(v, true);
      if (!o_.packed_keys) o_.k_strides = dense(k, true);
    }
    return true;
  }

  void choose_scores() {
    const auto usable = [](double x) { return std::isnormal(static_cast<T>(x)); };
    const double scale = input_.template number<double>();
    o_.scale = usable(scale) && std::isfinite(static_cast<T>(scale * 1.4426950408889634)) ? scale : 0;
    if (input_.one_in(4)) o_.softcap = std::fabs(input_.template number<double>());
    const double used = o_.scale == 0 ? 1 / std::sqrt(static_cast<double>(o_.qk_dim)) : o_.scale;
    if (!usable(o_.softcap) || !usable(used / o_.softcap)) o_.softcap = 0;
    const unsigned wanted = input_.byte();
    // One array for all options that are numbers: a row of bias for every query repeats.
    const std::size_t count = std::max({o_.kv_len, o_.q_heads, o_.q_len, std::size_t{1}});
    T *numbers = reinterpret_cast<T *>(memory().place(numbers_at, count * sizeof(T), placement_, 0));
    input_.fill(numbers, count);
    if ((wanted & 7) == 1) {
      o_.bias = numbers;
      o_.bias_strides = {RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
    }
    if ((wanted & 24) == 8) {
      o_.query_scales = numbers;
      o_.query_scale_strides = {RAPT_REPEAT, RAPT_REPEAT, 1};
    }
    if ((wanted & 96) == 32) o_.alibi_slopes = numbers;
    if ((wanted & 128) != 0) o_.sinks = numbers;
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
    const std::size_t rows = o_.q_len * o_.kv_len;
    if (rows + 64 > FuzzMemory::capacity) return;
    unsigned char *mask = memory().place(mask_at, rows, placement_, input_.below(64));
    for (std::size_t i = 0; i < rows; ++i) mask[i] = input_.byte() % 3;
    o_.mask = mask;
    o_.mask_strides = {RAPT_REPEAT, RAPT_REPEAT, static_cast<std::ptrdiff_t>(o_.kv_len)};
  }

  void must_fail(rapt_status status) { rules_.must_fail |= only(status); }

  // Now and then something that is wrong beyond doubt.
  void spoil() {
    rapt_attention_workspace(&o_, &workspace_size_);
    auto *table = const_cast<std::int32_t *>(table_);
    switch (input_.byte() % 64) {
      case 1:
        o_.kv_heads = o_.q_heads + 1;
        return must_fail(RAPT_BAD_HEADS);
      case 2:
        o_.qk_dim = input_.one_in(2) ? 0 : SIZE_MAX - input_.byte();
        return must_fail(RAPT_BAD_DIM);
      case 3:
        o_.causal = input_.one_in(2) ? 4 : -1;
        return must_fail(RAPT_BAD_CAUSAL);
      case 4:
        o_.causal = input_.byte() % 3;
        o_.causal_offset = 1;
        return must_fail(RAPT_BAD_CAUSAL_OFFSET);
      case 5:
        o_.scale = FuzzInput::special<double>(2 + input_.byte() % 3);
        return must_fail(RAPT_BAD_SCALE);
      case 6:
        o_.softcap = -1;
        return must_fail(RAPT_BAD_SOFTCAP);
      case 7:
        o_.batch = SIZE_MAX / (1 + input_.byte());
        return must_fail(RAPT_BAD_SIZE);
      case 8:
        o_.size -= 1 + input_.byte();
        return must_fail(RAPT_BAD_OPTIONS_SIZE);
      case 9:
        workspace_size_ -= 1 + input_.byte();
        return must_fail(RAPT_BAD_WORKSPACE);
      case 10:
        if (!use_kv_lengths_) return;
        const_cast<std::int32_t *>(lengths_)[0] =
            input_.one_in(2) ? -1 : static_cast<std::int32_t>(o_.kv_len) + 1;
        return must_fail(RAPT_BAD_KV_LENGTHS);
      case 11:
        if (!use_pages_) return;
        o_.page_size += 1;
        return must_fail(RAPT_BAD_PAGE_SIZE);
      case 12:
        if (!use_pages_ || use_kv_lengths_ || o_.kv_len == 0) return;
        table[0] = -1;
        return must_fail(RAPT_BAD_BLOCK_TABLE);
      case 13:
        o_.kv_offsets = o_.kv_lengths = nullptr;
        o_.block_table = nullptr;
        o_.page_size = 0;
        o_.packed_keys = 0;
        o_.k_strides = {-1, -1, -1};
        if (o_.q_len > 0 && o_.kv_len > 1) must_fail(RAPT_BAD_K_STRIDES);
        stop_unless_failing_ = true;
        return;
      default:
        return;
    }
  }

  void call_on_every_level() {
    if (stop_unless_failing_ && rules_.must_fail == 0) return;
    static GuardedSlot workspace(std::size_t{1} << 20);
    static std::vector<T> partials;
    const bool any_work = o_.batch > 0 && o_.q_len > 0;
    // An empty output has no element to be told from an input's.
    if (!any_work) rules_.may_fail |= only(RAPT_BAD_OVERLAP);
    // The options end at a guard page: no field behind them can be read unseen.
    auto *given = reinterpret_cast<rapt_attention_options *>(
        memory().place(options_at, sizeof o_, Placement::ends_at_guard, 0));
    std::memcpy(given, &o_, sizeof o_);
    const unsigned first_cut = input_.byte();
    unsigned calls = 0;
    on_every_level(
        "attention", memory(), RowsOfBytes{out_, 0, 1, results_ * sizeof(T)}, rules_,
        [&] {
          const unsigned cut = rules_.must_fail != 0 ? 0 : (first_cut + calls++) % 3;
          unsigned char *space = workspace.place(workspace_size_, placement_, first_cut % 64);
          const rapt_status status = cut == 0
                                         ? rapt_attention(q_, k_, v_, out_, given, space, workspace_size_)
                                     : cut == 1 ? by_tasks(given, space)
                                                : by_keys(given, space, partials);
          if (!workspace.surroundings_intact()) finding("attention", "wrote outside the workspace");
          return status;
        },
        [&](std::vector<std::uint64_t> &bits) { append_bits(bits, out_, 0, 1, results_); });
  }

  rapt_status by_tasks(const rapt_attention_options *given, void *space) {
    std::size_t tasks = 0;
    rapt_status status = rapt_attention_tasks(given, &tasks);
    while (status == RAPT_OK && tasks > 0) {
      tasks -= 1;
      status = rapt_attention_run(q_, k_, v_, out_, given, tasks, tasks + 1, space, workspace_size_);
    }
    return status;
  }
  rapt_status by_keys(const rapt_attention_options *given, void *space, std::vector<T> &partials) {
    std::size_t tasks = 0, partial_tasks = 0, length = 0;
    rapt_status status = rapt_attention_partial_tasks(given, &partial_tasks, &length);
    partials.assign(length + 1, std::numeric_limits<T>::quiet_NaN());
    const std::size_t half = partial_tasks / 2;
    for (const auto &[first, last] : {std::pair{half, partial_tasks}, {std::size_t{0}, half}}) {
      if (status != RAPT_OK) return status;
      status =
          rapt_attention_partial(q_, k_, v_, partials.data(), given, first, last, space, workspace_size_);
    }
    if (status == RAPT_OK) status = rapt_attention_tasks(given, &tasks);
    if (status != RAPT_OK) return status;
    return rapt_attention_merge(partials.data(), out_, given, 0, tasks, space, workspace_size_);
  }

  static constexpr std::size_t pages = 4;

  FuzzInput &input_;
  rapt_attention_options o_;
  bool tokens_outside_ = false, use_pages_ = false, use_kv_offsets_ = false, use_kv_lengths_ = false,
       use_q_offsets_ = false, in_place_ = false, stop_unless_failing_ = false;
  Placement placement_ = Placement::ends_at_guard;
  std::size_t table_columns_ = 0, out_elements_ = 0, lse_elements_ = 0, results_ = 0, workspace_size_ = 0;
  const std::int32_t *lengths_ = nullptr, *table_ = nullptr;
  T *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *out_ = nullptr;
  CallRules rules_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  if (input.one_in(2)) {
    AttentionFuzz<double>(input).run();
  } else {
    AttentionFuzz<float>(input).run();
  }
  return 0;
}
