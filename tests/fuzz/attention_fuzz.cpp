// attention with every option, whole, task by task and with its keys split: layouts, pages, offsets, and bad
// arguments.
#include "fuzz/support/attention_fuzz.hpp"

using namespace rapt::test;

namespace {

template <class T>
class ForwardFuzz : AttentionFuzz<T> {
  using Base = AttentionFuzz<T>;
  using Base::input_, Base::o_, Base::q_, Base::k_, Base::v_, Base::rules_, Base::placement_,
      Base::workspace_size_;
  using Base::memory, Base::must_fail, Base::put;
  using typename Base::Size;

 public:
  explicit ForwardFuzz(FuzzInput &input) : Base(input) {}

  void run() {
    this->choose_shape(700, 140);
    choose_sequences();
    if (!place()) return;
    choose_scores();
    this->choose_visibility();
    spoil();
    call();
  }

 private:
  // Pages, packed keys, offsets and lengths.
  void choose_sequences() {
    const unsigned kind = input_.byte() % 8;
    use_pages_ = kind == 1 || kind == 2;
    o_.packed_keys = kind == 2 || kind == 4;
    if (use_pages_) o_.page_size = o_.packed_keys ? 64 : 16 * (1 + input_.byte() % 5);
    const bool use_kv_lengths = input_.one_in(3), use_q_offsets = input_.one_in(4);
    const std::size_t pages_of_all =
        use_pages_ ? o_.batch * ((o_.kv_len + o_.page_size - 1) / o_.page_size) : 0;
    sequences_ = this->place_sequences(use_kv_lengths, pages_of_all);
    for (std::size_t i = 0; i < pages_of_all; ++i) {
      sequences_.end[i] = static_cast<std::int32_t>(input_.byte() % pages);
    }
    if (use_q_offsets) o_.q_offsets = sequences_.q_offsets;
    if (kind == 3) o_.kv_offsets = sequences_.kv_offsets;
    if (use_pages_) o_.block_table = sequences_.end;
  }

  bool place() {
    const Size q = this->queries_of(o_.qk_dim), out = this->queries_of(o_.v_dim);
    Size k = this->keys_of(o_.qk_dim);
    if (use_pages_) k.batch = pages, k.tokens = o_.page_size;
    Size v = k;
    v.row = o_.v_dim;
    if (o_.packed_keys) k = {k.batch, k.heads, 1, (k.tokens + 63) / 64 * 64 * o_.qk_dim};
    const bool in_place = o_.v_dim == o_.qk_dim && input_.one_in(3);
    const std::size_t lse = out.batch * out.heads * out.tokens;
    for (const std::size_t count :
         {q.elements(), k.elements(), v.elements(), (in_place ? 0 : out.elements()) + lse}) {
      if (count > Base::most_elements) return false;
    }
    q_ = put(Base::q_at, in_place ? q.elements() + lse : q.elements());
    k_ = put(Base::k_at, k.elements());
    v_ = put(Base::v_at, v.elements());
    input_.fill(q_, q.elements());
    input_.fill(k_, k.elements());
    input_.fill(v_, v.elements());
    // The log-sum-exp stands behind the output: one range of memory holds all results.
    out_ = in_place ? q_ : put(Base::results_at, out.elements() + lse);
    results_ = out.elements() + lse;
    o_.lse = out_ + out.elements();
    this->set_strides(q, k, v, out);
    return true;
  }

  void choose_scores() {
    this->choose_scale();
    const unsigned wanted = input_.byte();
    // One array for all options with numbers; the bias is one row for all queries.
    const std::size_t count = std::max({o_.kv_len, o_.q_heads, o_.q_len, std::size_t{1}});
    T *numbers = reinterpret_cast<T *>(memory().place(Base::numbers_at, count * sizeof(T), placement_, 0));
    input_.fill(numbers, count);
    if ((wanted & 7) == 1) {
      o_.bias = numbers;
      o_.bias_strides = {RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
    }
    if ((wanted & 24) == 8) this->choose_query_scales(numbers);
    if ((wanted & 96) == 32) o_.alibi_slopes = numbers;
    if ((wanted & 128) != 0) o_.sinks = numbers;
  }

  // Sometimes makes an argument invalid.
  void spoil() {
    rapt_attention_workspace(&o_, &workspace_size_);
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
        if (!o_.kv_lengths) return;
        sequences_.kv_lengths[0] = input_.one_in(2) ? -1 : static_cast<std::int32_t>(o_.kv_len) + 1;
        return must_fail(RAPT_BAD_KV_LENGTHS);
      case 11:
        if (!use_pages_) return;
        o_.page_size += 1;
        return must_fail(RAPT_BAD_PAGE_SIZE);
      case 12:
        if (!use_pages_ || o_.kv_lengths || o_.kv_len == 0) return;
        sequences_.end[0] = -1;
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

  void call() {
    if (stop_unless_failing_ && rules_.must_fail == 0) return;
    const bool any_work = o_.batch > 0 && o_.q_len > 0;
    // An empty output may lie within an input.
    if (!any_work) rules_.may_fail |= only(RAPT_BAD_OVERLAP);
    // The options end at a guard page: a read behind them faults.
    auto *given = reinterpret_cast<rapt_attention_options *>(
        memory().place(Base::options_at, sizeof o_, Placement::ends_at_guard, 0));
    std::memcpy(given, &o_, sizeof o_);
    this->call_on_every_level("attention", out_, results_, [&](void *space, unsigned cut) {
      if (cut % 3 == 0) return rapt_attention(q_, k_, v_, out_, given, space, workspace_size_);
      return cut % 3 == 1 ? by_tasks(given, space) : by_keys(given, space);
    });
  }

  rapt_status by_tasks(const rapt_attention_options *given, void *space) {
    std::size_t tasks = 0;
    const rapt_status status = rapt_attention_tasks(given, &tasks);
    return this->run_tasks(status, tasks, [&](std::size_t first, std::size_t end) {
      return rapt_attention_run(q_, k_, v_, out_, given, first, end, space, workspace_size_);
    });
  }
  rapt_status by_keys(const rapt_attention_options *given, void *space) {
    static std::vector<T> partials;
    std::size_t tasks = 0, partial_tasks = 0, length = 0;
    rapt_status status = rapt_attention_partial_tasks(given, &partial_tasks, &length);
    partials.assign(length + 1, std::numeric_limits<T>::quiet_NaN());
    const std::size_t half = partial_tasks / 2;
    for (const auto &[first, end] : {std::pair{half, partial_tasks}, {std::size_t{0}, half}}) {
      if (status != RAPT_OK) return status;
      status = rapt_attention_partial(q_, k_, v_, partials.data(), given, first, end, space, workspace_size_);
    }
    if (status == RAPT_OK) status = rapt_attention_tasks(given, &tasks);
    if (status != RAPT_OK) return status;
    return rapt_attention_merge(partials.data(), out_, given, 0, tasks, space, workspace_size_);
  }

  static constexpr std::size_t pages = 4;

  bool use_pages_ = false, stop_unless_failing_ = false;
  std::size_t results_ = 0;
  typename Base::Sequences sequences_{};
  T *out_ = nullptr;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  with_element_type(input, [&](auto element) { ForwardFuzz<decltype(element)>(input).run(); });
  return 0;
}
