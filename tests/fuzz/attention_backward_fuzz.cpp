// attention's gradient with every option, whole and task by task: layouts, offsets, sums over repeated
// biases, and bad arguments. The forward call's results are any numbers.
#include <algorithm>
#include <cmath>
#include <utility>

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
const rapt_attention_gradients default_gradients = RAPT_ATTENTION_GRADIENTS_INIT;

template <class T>
class BackwardFuzz {
 public:
  explicit BackwardFuzz(FuzzInput &input) : input_(input) {
    std::memcpy(&o_, &default_options, sizeof o_);
    o_.q_type = Api<T>::type;
    std::memcpy(&g_, &default_gradients, sizeof g_);
  }

  void run() {
    memory().forget_all();
    choose_shape();
    place_offsets();
    if (!place()) return;
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
    o_.kv_len = input_.one_in(8) ? input_.below(200) : input_.below(80);
    o_.qk_dim = 1 + (input_.one_in(4) ? input_.below(70) : input_.below(12));
    o_.v_dim = input_.one_in(2) ? o_.qk_dim : 1 + input_.below(40);
    tokens_outside_ = input_.one_in(2);
    placement_ = input_.one_in(2) ? Placement::begins_at_guard : Placement::ends_at_guard;
    const auto usable = [](double x) { return std::isnormal(static_cast<T>(x)); };
    const double scale = input_.template number<double>();
    o_.scale = usable(scale) && std::isfinite(static_cast<T>(scale * 1.4426950408889634)) ? scale : 0;
    if (input_.one_in(4)) o_.softcap = std::fabs(input_.template number<double>());
    const double used = o_.scale == 0 ? 1 / std::sqrt(static_cast<double>(o_.qk_dim)) : o_.scale;
    if (!usable(o_.softcap) || !usable(used / o_.softcap)) o_.softcap = 0;
  }

  void place_offsets() {
    const std::size_t count = o_.batch + 2 * (o_.batch + 1);
    auto *at = reinterpret_cast<std::int32_t *>(memory().place(offsets_at, count * 4, placement_, 0));
    const bool has_lengths = input_.one_in(3);
    lengths_ = at;
    for (std::size_t b = 0; b < o_.batch; ++b) {
      *at++ = static_cast<std::int32_t>(input_.below(o_.kv_len + 1));
    }
    if (has_lengths) o_.kv_lengths = lengths_;
    const auto offsets = [&](std::size_t longest, const std::int32_t *least) {
      const std::int32_t *made = at;
      *at++ = static_cast<std::int32_t>(input_.byte() % 3);
      for (std::size_t b = 0; b < o_.batch; ++b, ++at) {
        const std::size_t from = least ? static_cast<std::size_t>(least[b]) : 0;
        *at = at[-1] + static_cast<std::int32_t>(from + input_.below(longest - from + 1));
      }
      return made;
    };
    const std::int32_t *q_offsets = offsets(o_.q_len, nullptr);
    const std::int32_t *kv_offsets = offsets(o_.kv_len, o_.kv_lengths);
    if (input_.one_in(4)) o_.q_offsets = q_offsets;
    if (input_.one_in(4)) o_.kv_offsets = kv_offsets;
  }

  bool place() {
    const auto tokens = [&](const std::int32_t *offsets, std::size_t length) {
      return offsets ? static_cast<std::size_t>(offsets[o_.batch]) : length;
    };
    const Size q{o_.q_offsets ? 1 : o_.batch, o_.q_heads, tokens(o_.q_offsets, o_.q_len), o_.qk_dim};
    const Size k{o_.kv_offsets ? 1 : o_.batch, o_.kv_heads, tokens(o_.kv_offsets, o_.kv_len), o_.qk_dim};
    Size out = q, v = k;
    out.row = v.row = o_.v_dim;
    const std::size_t lse = q.batch * q.heads * q.tokens;
    // A bias that repeats in some dimensions.
    const unsigned repeats = input_.byte(), wanted = input_.byte();
    const Size bias{repeats & 1 ? 1 : o_.batch, repeats & 2 ? 1 : o_.q_heads, repeats & 4 ? 1 : o_.q_len,
                    o_.kv_len};
    const bool has_bias = (wanted & 3) == 1 && o_.q_len > 0, has_dbias = has_bias && (repeats & 8) == 0;
    const std::size_t bias_size = has_bias ? bias.elements() : 0, dbias_size = has_dbias ? bias_size : 0;
    const bool has_dsinks = (wanted & 12) == 4 && (wanted & 128) != 0;
    const std::size_t options = std::max({o_.q_heads, o_.q_len, std::size_t{1}});
    results_ = q.elements() + k.elements() + v.elements() + dbias_size + (has_dsinks ? o_.q_heads : 0);
    const std::size_t numbers = options + bias_size + 2 * out.elements() + lse;
    const std::size_t most = (FuzzMemory::capacity - 64) / sizeof(T);
    if (results_ > most || numbers > most) return false;
    const auto put = [&](Operand operand, std::size_t count) {
      const std::size_t offset = input_.one_in(2) ? input_.below(64 / sizeof(T)) * sizeof(T) : 0;
      return reinterpret_cast<T *>(memory().place(operand, count * sizeof(T), placement_, offset));
    };
    const auto filled = [&](Operand operand, std::size_t count) {
      T *data = put(operand, count);
      input_.fill(data, count);
      return data;
    };
    q_ = filled(q_at, q.elements());
    k_ = filled(k_at, k.elements());
    v_ = filled(v_at, v.elements());
    T *at = filled(numbers_at, numbers);
    if ((wanted & 48) == 16) {
      o_.query_scales = at;
      o_.query_scale_strides = {RAPT_REPEAT, RAPT_REPEAT, 1};
    }
    if ((wanted & 64) != 0) o_.alibi_slopes = at;
    if ((wanted & 128) != 0) o_.sinks = at;
    const auto next = [&](std::size_t count) { return std::exchange(at, at + count); };
    next(options);
    T *const bias_at = next(bias_size);
    if (has_bias) {
      o_.bias = bias_at;
      o_.bias_strides = dense(bias, tokens_outside_);
      if (repeats & 1) o_.bias_strides.batch = RAPT_REPEAT;
      if (repeats & 2) o_.bias_strides.head = RAPT_REPEAT;
      if (repeats & 4) o_.bias_strides.token = RAPT_REPEAT;
    }
    g_.out = next(out.elements());
    g_.dout = next(out.elements());
    o_.lse = next(lse);
    at = results_at_ = put(results_at, results_);
    g_.dq = next(q.elements());
    g_.dk = next(k.elements());
    g_.dv = next(v.elements());
    if (has_dbias) g_.dbias = next(dbias_size);
    if (has_dsinks) g_.dsinks = next(o_.q_heads);
    if (tokens_outside_) {
      o_.q_strides = g_.dq_strides = dense(q, true);
      o_.k_strides = g_.dk_strides = dense(k, true);
      o_.v_strides = g_.dv_strides = dense(v, true);
      o_.out_strides = g_.dout_strides = dense(out, true);
    }
    return true;
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
    unsigned char *mask = memory().place(mask_at, rows, placement_, input_.below(64));
    for (std::size_t i = 0; i < rows; ++i) mask[i] = input_.byte() % 3;
    o_.mask = mask;
    o_.mask_strides = {RAPT_REPEAT, RAPT_REPEAT, static_cast<std::ptrdiff_t>(o_.kv_len)};
  }

  void must_fail(rapt_status status) { rules_.must_fail |= only(status); }

  // Now and then something that is wrong beyond doubt.
  void spoil() {
    rapt_attention_backward_workspace(&o_, &workspace_size_);
    const bool has_rows = o_.q_len > 0, has_keys = o_.kv_len > 0;
    switch (input_.byte() % 64) {
      case 1:
        o_.kv_heads = o_.q_heads + 1;
        return must_fail(RAPT_BAD_HEADS);
      case 2:
        o_.batch = SIZE_MAX / (1 + input_.byte());
        return must_fail(RAPT_BAD_SIZE);
      case 3:
        g_.size -= 1 + input_.byte() % 64;
        return must_fail(RAPT_BAD_GRADIENTS);
      case 4:
        workspace_size_ -= 1 + input_.byte();
        return must_fail(RAPT_BAD_WORKSPACE);
      case 5:
        o_.packed_keys = 1;
        return must_fail(RAPT_BAD_PACKED_KEYS);
      case 6:
        o_.block_table = lengths_;
        o_.page_size = 16;
        return must_fail(RAPT_BAD_BLOCK_TABLE);
      case 7:
        o_.lse = nullptr;
        if (has_rows) must_fail(RAPT_BAD_LSE);
        return;
      case 8:
        g_.dq = nullptr;
        if (has_rows) must_fail(RAPT_BAD_DQ);
        return;
      case 9:
        g_.dk = nullptr;
        if (has_keys) must_fail(RAPT_BAD_DK);
        return;
      case 10:
        if (o_.bias) return;
        g_.dbias = results_at_;
        return must_fail(RAPT_BAD_DBIAS);
      case 11:
        if (o_.q_offsets || o_.kv_offsets || !has_rows || !has_keys) return;
        g_.dk = static_cast<T *>(g_.dq);
        return must_fail(RAPT_BAD_OVERLAP);
      case 12:
        if (o_.q_offsets || o_.q_len < 2) return;
        g_.dq_strides = {1, 1, -1};
        return must_fail(RAPT_BAD_DQ_STRIDES);
      default:
        return;
    }
  }

  void call_on_every_level() {
    static GuardedSlot workspace(std::size_t{1} << 20);
    // The structs end at a guard page: no field behind them can be read unseen.
    unsigned char *structs = memory().place(options_at, sizeof o_ + sizeof g_, Placement::ends_at_guard, 0);
    std::memcpy(structs, &o_, sizeof o_);
    std::memcpy(structs + sizeof o_, &g_, sizeof g_);
    const auto *options = reinterpret_cast<const rapt_attention_options *>(structs);
    const auto *gradients = reinterpret_cast<const rapt_attention_gradients *>(structs + sizeof o_);
    const unsigned first_cut = input_.byte();
    unsigned calls = 0;
    on_every_level(
        "attention_backward", memory(), RowsOfBytes{results_at_, 0, 1, results_ * sizeof(T)}, rules_,
        [&] {
          unsigned char *space = workspace.place(workspace_size_, placement_, first_cut % 64);
          const bool by_tasks = rules_.must_fail == 0 && (first_cut + calls++) % 2 == 1;
          const rapt_status status =
              by_tasks ? task_by_task(options, gradients, space)
                       : rapt_attention_backward(q_, k_, v_, options, gradients, space, workspace_size_);
          if (!workspace.surroundings_intact()) finding("attention_backward", "wrote outside the workspace");
          return status;
        },
        [&](std::vector<std::uint64_t> &bits) { append_bits(bits, results_at_, 0, 1, results_); });
  }

  rapt_status task_by_task(const rapt_attention_options *options, const rapt_attention_gradients *gradients,
                           void *space) {
    std::size_t tasks = 0;
    rapt_status status = rapt_attention_backward_tasks(options, gradients, &tasks);
    while (status == RAPT_OK && tasks > 0) {
      tasks -= 1;
      status = rapt_attention_backward_run(q_, k_, v_, options, gradients, tasks, tasks + 1, space,
                                           workspace_size_);
    }
    return status;
  }

  FuzzInput &input_;
  rapt_attention_options o_;
  rapt_attention_gradients g_;
  bool tokens_outside_ = false;
  Placement placement_ = Placement::ends_at_guard;
  std::size_t results_ = 0, workspace_size_ = 0;
  const std::int32_t *lengths_ = nullptr;
  T *q_ = nullptr, *k_ = nullptr, *v_ = nullptr, *results_at_ = nullptr;
  CallRules rules_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  with_element_type(input, [&](auto element) { BackwardFuzz<decltype(element)>(input).run(); });
  return 0;
}
