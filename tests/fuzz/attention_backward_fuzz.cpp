// Fuzzes attention's gradient with every option, in whole calls and task by task: layouts, offsets, sums over
// repeated biases, and bad arguments. Random numbers take the place of the forward results.
#include <utility>

#include "fuzz/support/attention_fuzz.hpp"

using namespace rapt::test;

namespace {

const rapt_attention_gradients default_gradients = RAPT_ATTENTION_GRADIENTS_INIT;

template <class T>
class BackwardFuzz : AttentionFuzz<T> {
  using Base = AttentionFuzz<T>;
  using Base::dense, Base::memory, Base::must_fail, Base::put;
  using Base::input_, Base::o_, Base::q_, Base::k_, Base::v_, Base::tokens_outside_, Base::workspace_size_;
  using typename Base::Operand;
  using typename Base::Size;

 public:
  explicit BackwardFuzz(FuzzInput &input) : Base(input) { std::memcpy(&g_, &default_gradients, sizeof g_); }

  void run() {
    this->choose_shape(200, 80);
    this->choose_scale();
    choose_sequences();
    if (!place()) return;
    this->choose_visibility();
    spoil();
    this->choose_starts();
    call();
  }

 private:
  void choose_sequences() {
    const auto sequences = this->place_sequences(input_.one_in(3), 0);
    if (input_.one_in(4)) o_.q_offsets = sequences.q_offsets;
    if (input_.one_in(4)) o_.kv_offsets = sequences.kv_offsets;
    lengths_ = sequences.kv_lengths;
  }

  bool place() {
    const Size q = this->queries_of(o_.qk_dim), out = this->queries_of(o_.v_dim),
               k = this->keys_of(o_.qk_dim), v = this->keys_of(o_.v_dim);
    const std::size_t lse = q.batch * q.heads * q.tokens;
    // Bits 0 to 2 of `repeats` say in which dimensions the bias repeats.
    const unsigned repeats = input_.byte(), wanted = input_.byte();
    const Size bias{repeats & 1 ? 1 : o_.batch, repeats & 2 ? 1 : o_.q_heads, repeats & 4 ? 1 : o_.q_len,
                    o_.kv_len};
    const bool has_bias = (wanted & 3) == 1 && o_.q_len > 0, has_dbias = has_bias && (repeats & 8) == 0;
    const std::size_t bias_size = has_bias ? bias.elements() : 0, dbias_size = has_dbias ? bias_size : 0;
    const bool has_dsinks = (wanted & 12) == 4 && (wanted & 128) != 0;
    const std::size_t options = std::max({o_.q_heads, o_.q_len, std::size_t{1}});
    results_ = q.elements() + k.elements() + v.elements() + dbias_size + (has_dsinks ? o_.q_heads : 0);
    const std::size_t numbers = options + bias_size + 2 * out.elements() + lse;
    if (results_ > Base::most_elements || numbers > Base::most_elements) return false;
    const auto filled = [&](Operand operand, std::size_t count) {
      T *data = put(operand, count);
      input_.fill(data, count);
      return data;
    };
    q_ = filled(Base::q_at, q.elements());
    k_ = filled(Base::k_at, k.elements());
    v_ = filled(Base::v_at, v.elements());
    T *at = filled(Base::numbers_at, numbers);
    if ((wanted & 48) == 16) this->choose_query_scales(at);
    if ((wanted & 64) != 0) o_.alibi_slopes = at;
    if ((wanted & 128) != 0) o_.sinks = at;
    const auto next = [&](std::size_t count) { return std::exchange(at, at + count); };
    next(options);
    T *const bias_at = next(bias_size);
    if (has_bias) {
      o_.bias = bias_at;
      o_.bias_strides = dense(bias);
      if (repeats & 1) o_.bias_strides.batch = RAPT_REPEAT;
      if (repeats & 2) o_.bias_strides.head = RAPT_REPEAT;
      if (repeats & 4) o_.bias_strides.token = RAPT_REPEAT;
    }
    g_.out = next(out.elements());
    g_.dout = next(out.elements());
    o_.lse = next(lse);
    at = results_at_ = put(Base::results_at, results_);
    g_.dq = next(q.elements());
    g_.dk = next(k.elements());
    g_.dv = next(v.elements());
    if (has_dbias) g_.dbias = next(dbias_size);
    if (has_dsinks) g_.dsinks = next(o_.q_heads);
    this->set_strides(q, k, v, out);
    if (tokens_outside_) {
      g_.dq_strides = dense(q);
      g_.dk_strides = dense(k);
      g_.dv_strides = dense(v);
      g_.dout_strides = dense(out);
    }
    return true;
  }

  // Makes an argument invalid in some runs.
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

  void call() {
    // The structs end at a guard page, so that reading past them faults.
    unsigned char *structs =
        memory().place(Base::options_at, sizeof o_ + sizeof g_, Placement::ends_at_guard, 0);
    std::memcpy(structs, &o_, sizeof o_);
    std::memcpy(structs + sizeof o_, &g_, sizeof g_);
    const auto *options = reinterpret_cast<const rapt_attention_options *>(structs);
    const auto *gradients = reinterpret_cast<const rapt_attention_gradients *>(structs + sizeof o_);
    const RowsOfBytes results{results_at_, 0, 1, results_ * sizeof(T)};
    const auto append = [&](std::vector<std::uint64_t> &bits) {
      append_bits(bits, results_at_, 0, 1, results_);
    };
    this->call_on_every_level("attention_backward", results, append, [&](void *space, unsigned cut) {
      return cut % 2 == 1 ? by_tasks(options, gradients, space)
                          : rapt_attention_backward(q_, k_, v_, options, gradients, space, workspace_size_);
    });
  }

  rapt_status by_tasks(const rapt_attention_options *options, const rapt_attention_gradients *gradients,
                       void *space) {
    std::size_t tasks = 0;
    const rapt_status status = rapt_attention_backward_tasks(options, gradients, &tasks);
    return this->run_tasks(status, tasks, [&](std::size_t first, std::size_t end) {
      return rapt_attention_backward_run(q_, k_, v_, options, gradients, first, end, space, workspace_size_);
    });
  }

  rapt_attention_gradients g_;
  std::size_t results_ = 0;
  const std::int32_t *lengths_ = nullptr;
  T *results_at_ = nullptr;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *bytes, std::size_t size) {
  FuzzInput input(bytes, size);
  with_element_type(input, [&](auto element) { BackwardFuzz<decltype(element)>(input).run(); });
  return 0;
}
