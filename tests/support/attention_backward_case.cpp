#include "support/attention_backward_case.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "support/attention_data.hpp"
#include "support/attention_memory.hpp"
#include "support/public_api.hpp"

namespace rapt::test {
namespace {

template <class T>
class BackwardRun {
 public:
  BackwardRun(const Problem &problem, const Layout &layout)
      : layout_(layout),
        how_(layout.attention),
        a_(make_attention<T>(problem)),
        dout_values_(make_output_gradient<T>(problem, a_)),
        wanted_(wanted_gradients(problem, a_)),
        random_(problem.seed * 91 + 7) {
    make_plain_where_it_must_be();
    place_queries_and_keys();
    place_options();
    place_outputs();
  }

  Outcome run() {
    run_forward();
    if (how_.calls == Calls::by_sequence && can_be_split()) {
      for (std::size_t b = 0; b < a_.batch; ++b) run_sequences(b, b + 1);
    } else {
      run_sequences(0, a_.batch);
    }
    collect();
    return std::move(outcome_);
  }

 private:
  using Tensor = test::Tensor<T>;
  using Shape = typename Tensor::Shape;

  void make_plain_where_it_must_be() {
    if (!a_.q_lengths.empty()) how_.q_offsets = true;
    if (how_.kv_offsets || how_.q_offsets) how_.fused = false;
  }
  // Sums over sequences are rounded in one chain.
  bool can_be_split() const {
    return !wanted_.dsinks && !(wanted_.dbias && a_.batch > 1 && a_.bias_repeats.batch);
  }
  std::size_t gap(std::size_t slot) const { return static_cast<std::size_t>(layout_.gap[slot]); }

  // Sequences behind each other, the first not at the beginning.
  std::vector<std::size_t> offsets_of(const std::vector<std::int32_t> &lengths, std::size_t length,
                                      std::size_t most_slack, std::size_t first) {
    std::vector<std::size_t> offsets{first};
    for (std::size_t b = 0; b < a_.batch; ++b) {
      const std::size_t used = lengths.empty() ? length : static_cast<std::size_t>(lengths[b]);
      const std::size_t slack = std::min(most_slack, length - used);
      offsets.push_back(offsets.back() + used + random_.below(slack + 1));
    }
    return offsets;
  }

  struct Three {
    Tensor whole, q, k, v;
  };
  Three three_tensors(std::size_t first_slot, std::size_t second_slot) const {
    Three made;
    const Shape q_shape = queries_of(a_.qk_dim);
    const Shape k_shape = keys_of(a_.qk_dim), v_shape = keys_of(a_.v_dim);
    if (how_.fused) {
      const std::size_t q_part = a_.q_heads * a_.qk_dim, k_part = a_.kv_heads * a_.qk_dim,
                        v_part = a_.kv_heads * a_.v_dim;
      made.whole = Tensor({a_.batch, 1, std::max(a_.q_len, a_.kv_len), q_part + k_part + v_part}, true,
                          gap(first_slot), layout_, first_slot);
      made.q = Tensor(made.whole, q_shape, 0);
      made.k = Tensor(made.whole, k_shape, q_part);
      made.v = Tensor(made.whole, v_shape, q_part + k_part);
    } else {
      made.q = Tensor(q_shape, how_.tokens_outside, gap(first_slot), layout_, first_slot);
      made.k = Tensor(k_shape, how_.tokens_outside, gap(second_slot), layout_, second_slot);
      made.v = Tensor(v_shape, how_.tokens_outside, gap(second_slot), layout_, second_slot);
    }
    return made;
  }
  Shape queries_of(std::size_t row) const {
    return how_.q_offsets ? Shape{1, a_.q_heads, q_first_.back(), row}
                          : Shape{a_.batch, a_.q_heads, a_.q_len, row};
  }
  Shape keys_of(std::size_t row) const {
    return how_.kv_offsets ? Shape{1, a_.kv_heads, kv_first_.back(), row}
                           : Shape{a_.batch, a_.kv_heads, a_.kv_len, row};
  }

  void place_queries_and_keys() {
    q_first_ = offsets_of(a_.q_lengths, a_.q_len, 0, how_.q_offsets ? 2 : 0);
    kv_slack_ = random_.one_in(2);
    kv_first_ = offsets_of(a_.kv_lengths, a_.kv_len, kv_slack_ ? 7 : 0, 3);
    in_ = three_tensors(0, 1);
    dout_ = Tensor(queries_of(a_.v_dim), how_.tokens_outside, gap(1), layout_, 2);
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        for (std::size_t i = 0; i < a_.queries(b); ++i) {
          in_.q.put(query_sequence(b), h, query_token(b, i), a_.query(b, h, i));
          dout_.put(query_sequence(b), h, query_token(b, i),
                    dout_values_.data() + a_.row({}, b, h, i) * a_.v_dim);
        }
      }
      for (std::size_t h = 0; h < a_.kv_heads; ++h) {
        for (std::size_t j = 0; j < a_.keys(b); ++j) {
          const std::size_t row = a_.kv_row(b, h * a_.group(), j);
          in_.k.put(key_sequence(b), h, key_token(b, j), a_.k.data() + row * a_.qk_dim);
          in_.v.put(key_sequence(b), h, key_token(b, j), a_.v.data() + row * a_.v_dim);
        }
      }
    }
    for (Tensor *tensor : {&in_.whole, &in_.q, &in_.k, &in_.v, &dout_}) tensor->remember();
  }
  std::size_t query_sequence(std::size_t b) const { return how_.q_offsets ? 0 : b; }
  std::size_t query_token(std::size_t b, std::size_t i) const { return how_.q_offsets ? q_first_[b] + i : i; }
  std::size_t key_sequence(std::size_t b) const { return how_.kv_offsets ? 0 : b; }
  std::size_t key_token(std::size_t b, std::size_t j) const { return how_.kv_offsets ? kv_first_[b] + j : j; }
  // Keys of a sequence whose gradients are written, used or not.
  std::size_t keys_in_memory(std::size_t b) const {
    return how_.kv_offsets ? kv_first_[b + 1] - kv_first_[b] : a_.kv_len;
  }

  void place_options() {
    const std::size_t offset = layout_.offset[1];
    query_scales_ = place_rows<T>(a_.query_scales, {}, 1, offset);
    bias_ = place_rows<T>(a_.bias, a_.bias_repeats, a_.kv_len, offset);
    mask_ = place_rows<std::uint8_t>(a_.mask, a_.mask_repeats, a_.kv_len, layout_.offset[0] / 4 + offset / 8);
    slopes_.set(a_.alibi_slopes, layout_, offset);
    sinks_.set(a_.sinks, layout_, offset);
    kv_lengths_.set(a_.kv_lengths, layout_);
    const auto set_offsets = [&](Array<std::int32_t> &array, const std::vector<std::size_t> &first) {
      const std::vector<std::int32_t> values(first.begin(), first.end());
      array.set(values, layout_);
    };
    if (how_.q_offsets) set_offsets(q_offsets_, q_first_);
    if (how_.kv_offsets) set_offsets(kv_offsets_, kv_first_);
  }

  template <class U>
  test::Tensor<U> rows_tensor(oracle::Repeats repeats, std::size_t row, std::size_t offset) const {
    Layout layout = layout_;
    layout.offset[0] = offset;
    test::Tensor<U> tensor(
        {repeats.batch ? 1 : a_.batch, repeats.head ? 1 : a_.q_heads, repeats.token ? 1 : a_.q_len, row},
        how_.tokens_outside, gap(0), layout, 0);
    tensor.repeat(repeats);
    return tensor;
  }
  template <class U>
  test::Tensor<U> place_rows(const std::vector<U> &values, oracle::Repeats repeats, std::size_t row,
                             std::size_t offset) const {
    if (values.empty()) return {};
    test::Tensor<U> tensor = rows_tensor<U>(repeats, row, offset);
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        for (std::size_t i = 0; i < a_.q_len; ++i) {
          tensor.put(b, h, i, values.data() + a_.row(repeats, b, h, i) * row);
        }
      }
    }
    tensor.remember();
    return tensor;
  }

  void place_outputs() {
    out_ = Tensor(queries_of(a_.v_dim), how_.tokens_outside, gap(2), layout_, 2);
    lse_ = Tensor(queries_of(1), how_.tokens_outside, gap(2), layout_, 2);
    gradients_ = three_tensors(2, 1);
    if (wanted_.dbias) dbias_ = rows_tensor<T>(a_.bias_repeats, a_.kv_len, layout_.offset[2]);
    if (wanted_.dsinks) dsinks_ = Tensor({1, 1, 1, a_.q_heads}, false, 0, layout_, 2);
    rapt_attention_options shape = attention_options<T>();
    shape.qk_dim = a_.qk_dim;
    shape.v_dim = a_.v_dim;
    check(rapt_attention_backward_workspace(&shape, &workspace_size_));
    workspace_ = std::make_unique<GuardedBuffer>(workspace_size_, layout_.placement,
                                                 layout_.offset[0] + layout_.offset[2] / 4);
  }

  // Of the sequences from `first` to `end`.
  rapt_attention_options options_of(std::size_t first, std::size_t end) const {
    rapt_attention_options o = attention_options<T>();
    const bool all = first == 0 && end == a_.batch;
    o.batch = end - first;
    o.q_heads = a_.q_heads;
    o.kv_heads = a_.kv_heads;
    o.q_len = a_.q_len;
    o.kv_len = a_.kv_len;
    o.qk_dim = a_.qk_dim;
    o.v_dim = a_.v_dim;
    const auto strides = [&](const Tensor &tensor) {
      return all ? tensor.given_strides() : tensor.strides();
    };
    o.q_strides = strides(in_.q);
    o.k_strides = strides(in_.k);
    o.v_strides = strides(in_.v);
    o.out_strides = strides(out_);
    o.lse_strides = strides(lse_);
    o.scale = a_.scale;
    o.softcap = a_.softcap;
    if (!a_.query_scales.empty()) {
      o.query_scales = query_scales_.at(first, 0, 0);
      o.query_scale_strides = query_scales_.strides();
    }
    o.alibi_slopes = slopes_.data();
    o.sinks = sinks_.data();
    if (!a_.bias.empty()) {
      o.bias = bias_.at(first, 0, 0);
      o.bias_strides = bias_.strides();
    }
    if (!a_.mask.empty()) {
      o.mask = mask_.at(first, 0, 0);
      o.mask_strides = mask_.strides();
    }
    set_visibility(a_, o);
    if (how_.kv_offsets) o.kv_offsets = kv_offsets_.from(first);
    if (!how_.kv_offsets || kv_slack_) o.kv_lengths = kv_lengths_.from(first);
    if (how_.q_offsets) o.q_offsets = q_offsets_.from(first);
    o.lse = of_queries(lse_, first);
    return o;
  }
  // Pointers stay at the first token of all where offsets find a sequence.
  T *of_queries(const Tensor &tensor, std::size_t b) const {
    return how_.q_offsets ? tensor.data() : tensor.at(b, 0, 0);
  }
  T *of_keys(const Tensor &tensor, std::size_t b) const {
    return how_.kv_offsets ? tensor.data() : tensor.at(b, 0, 0);
  }

  void run_forward() {
    const rapt_attention_options o = options_of(0, a_.batch);
    std::size_t bytes = 0;
    check(rapt_attention_workspace(&o, &bytes));
    std::vector<unsigned char> workspace(bytes);
    check(rapt_attention(in_.q.data(), in_.k.data(), in_.v.data(), out_.data(), &o, workspace.data(), bytes));
    out_.remember();
    lse_.remember();
  }

  void run_sequences(std::size_t first, std::size_t end) {
    const rapt_attention_options o = options_of(first, end);
    rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
    const auto strides = [&](const Tensor &tensor) {
      return end - first == a_.batch ? tensor.given_strides() : tensor.strides();
    };
    g.out = of_queries(out_, first);
    g.dout = of_queries(dout_, first);
    g.dq = of_queries(gradients_.q, first);
    g.dk = of_keys(gradients_.k, first);
    g.dv = of_keys(gradients_.v, first);
    g.dout_strides = strides(dout_);
    g.dq_strides = strides(gradients_.q);
    g.dk_strides = strides(gradients_.k);
    g.dv_strides = strides(gradients_.v);
    if (wanted_.dbias) g.dbias = dbias_.at(first, 0, 0);
    if (wanted_.dsinks) g.dsinks = dsinks_.data();
    const T *const q = of_queries(in_.q, first), *const k = of_keys(in_.k, first),
                   *const v = of_keys(in_.v, first);
    std::size_t tasks = 0;
    check(rapt_attention_backward_tasks(&o, &g, &tasks));
    const auto run = [&](std::size_t from, std::size_t to) {
      call([&] {
        return rapt_attention_backward_run(q, k, v, &o, &g, from, to, workspace_->data(), workspace_size_);
      });
    };
    if (how_.calls == Calls::task_by_task) {
      for (std::size_t task = tasks; task > 0; --task) run(task - 1, task);
    } else if (how_.calls == Calls::task_ranges || how_.calls == Calls::split_keys) {
      for (std::size_t from = 0; from < tasks;) {
        const std::size_t to = from + std::min(tasks - from, random_.below(4));
        run(from, to);
        from = to;
      }
    } else {
      call([&] { return rapt_attention_backward(q, k, v, &o, &g, workspace_->data(), workspace_size_); });
    }
  }

  // Under the layout's floating-point state; the workspace holds anything but zeros.
  template <class Call>
  void call(Call &&make_call) {
    if (!outcome_.fault.empty()) return;  // one is enough
    std::memset(workspace_->data(), random_.one_in(2) ? canary : 0x3f, workspace_size_);
    const std::uint64_t own = read_fp_control();
    if (layout_.fp_state) write_fp_control(layout_.fp_state->control);
    const rapt_status status = make_call();
    if (layout_.fp_state) {
      const std::uint64_t after = read_fp_control();
      write_fp_control(own);
      if (after != layout_.fp_state->control)
        outcome_.fault += "the caller's floating-point state was not restored; ";
    }
    check(status);
  }

  void check(rapt_status status) {
    if (status != RAPT_OK) outcome_.fault += std::string("returned: ") + rapt_status_text(status) + "; ";
  }

  void collect() {
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        for (std::size_t i = 0; i < a_.q_len; ++i) {
          take(gradients_.q, i < a_.queries(b), query_sequence(b), h, query_token(b, i));
        }
      }
    }
    for (const Tensor *tensor : {&gradients_.k, &gradients_.v}) {
      for (std::size_t b = 0; b < a_.batch; ++b) {
        for (std::size_t h = 0; h < a_.kv_heads; ++h) {
          for (std::size_t j = 0; j < a_.kv_len; ++j) {
            take(*tensor, j < keys_in_memory(b), key_sequence(b), h, key_token(b, j));
          }
        }
      }
    }
    if (wanted_.dbias) {
      const Shape &shape = dbias_.shape();
      for (std::size_t b = 0; b < shape.batch; ++b) {
        for (std::size_t h = 0; h < shape.heads; ++h) {
          for (std::size_t i = 0; i < shape.tokens; ++i) take(dbias_, true, b, h, i);
        }
      }
    }
    if (wanted_.dsinks) take(dsinks_, true, 0, 0, 0);
    const auto fault = [&](bool intact, const char *what) {
      if (!intact) outcome_.fault += std::string("wrote ") + what + "; ";
    };
    for (const Tensor *tensor : {&in_.whole, &in_.q, &in_.k, &in_.v, &dout_, &out_, &lse_}) {
      fault(tensor->unchanged(), "to what is read");
    }
    for (const Tensor *tensor :
         {&gradients_.whole, &gradients_.q, &gradients_.k, &gradients_.v, &dbias_, &dsinks_}) {
      fault(tensor->all_canary(), "outside the rows of a gradient");
    }
    fault(query_scales_.unchanged() && bias_.unchanged() && mask_.unchanged() && slopes_.intact() &&
              sinks_.intact() && kv_lengths_.intact() && q_offsets_.intact() && kv_offsets_.intact(),
          "to an option's array");
    fault(workspace_->surroundings_intact(), "outside the workspace");
  }

  void take(const Tensor &tensor, bool exists, std::size_t b, std::size_t h, std::size_t t) {
    if (exists) {
      tensor.take(b, h, t, outcome_);
    } else {
      outcome_.bits.resize(outcome_.bits.size() + tensor.shape().row);
    }
  }

  const Layout &layout_;
  AttentionLayout how_;
  oracle::Attention<T> a_;
  std::vector<T> dout_values_;
  WantedGradients wanted_;
  Random random_;
  Outcome outcome_;
  bool kv_slack_ = false;
  std::vector<std::size_t> q_first_, kv_first_;
  std::size_t workspace_size_ = 0;
  Three in_, gradients_;
  Tensor out_, lse_, dout_, dbias_, dsinks_, query_scales_, bias_;
  test::Tensor<std::uint8_t> mask_;
  Array<T> slopes_, sinks_;
  Array<std::int32_t> kv_lengths_, q_offsets_, kv_offsets_;
  std::unique_ptr<GuardedBuffer> workspace_;
};

}  // namespace

template <class T>
Outcome run_attention_backward(const Problem &problem, const Layout &layout) {
  return BackwardRun<T>(problem, layout).run();
}

template Outcome run_attention_backward<float>(const Problem &, const Layout &);
template Outcome run_attention_backward<double>(const Problem &, const Layout &);

}  // namespace rapt::test
