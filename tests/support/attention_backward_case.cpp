#include "support/attention_backward_case.hpp"

#include "support/attention_run.hpp"

namespace rapt::test {
namespace {

template <class T>
class BackwardRun : AttentionRun<T> {
  using Base = AttentionRun<T>;
  using Base::a_, Base::how_, Base::in_, Base::outcome_, Base::workspace_, Base::workspace_size_;
  using Base::call, Base::check, Base::fault_unless, Base::gap, Base::keys_at, Base::queries_at,
      Base::query_sequence, Base::query_token;
  using typename Base::A, typename Base::Numbers;
  using typename Base::Piece;
  using typename Base::Shape;
  using typename Base::Tensor;
  using typename Base::Three;

 public:
  BackwardRun(const Problem &problem, const Layout &layout)
      : Base(problem, layout, how(layout), sizeof(T) == 2 ? RAPT_ARITHMETIC_F32 : RAPT_ARITHMETIC_DEFAULT),
        wanted_(wanted_gradients(problem, a_)) {
    dout_ = Tensor(this->queries_of(a_.v_dim), how_.tokens_outside, gap(1), layout, 2);
    this->put_queries(dout_, make_output_gradient(problem, a_), a_.v_dim);
    // A row that sees nothing would make dsinks NaN if its dout were not finite.
    for (std::size_t b = 0; b < a_.batch && this->query_padding_ != 0; ++b) {
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        const std::vector<A> row(a_.v_dim, A(-1.5));
        for (std::size_t t = 0; t < this->query_padding_; ++t) dout_.put(b, h, t, row.data());
      }
    }
    dout_.remember();
    out_ = Tensor(this->queries_of(a_.v_dim), how_.tokens_outside, gap(2), layout, 2);
    lse_ = Numbers(this->queries_of(1), how_.tokens_outside, gap(2), layout, 2);
    gradients_ = this->three_tensors(2, 1);
    if (wanted_.dbias) {
      dbias_ = this->template rows_tensor<A>(a_.bias_repeats, this->kv_room(), layout.offset[2]);
    }
    if (wanted_.dsinks) dsinks_ = Numbers({1, 1, 1, a_.q_heads}, false, 0, layout, 2);
    rapt_attention_options shape = this->dims();
    shape.kv_len = this->kv_room();
    std::size_t bytes = 0;
    check(rapt_attention_backward_workspace(&shape, &bytes));
    this->make_workspace(bytes);
  }

  Outcome run() {
    run_forward();
    if (how_.calls == Calls::by_sequence && can_be_split()) {
      for (std::size_t b = 0; b < a_.batch; ++b) run_piece({b, b + 1});
    } else {
      run_piece({0, a_.batch});
    }
    collect();
    return std::move(outcome_);
  }

 private:
  // The backward functions do not support pages, packed keys or repeated heads.
  static AttentionLayout how(const Layout &layout) {
    AttentionLayout made = layout.attention;
    made.page_size = made.key_lists = 0;
    made.packed_keys = made.repeated_heads = false;
    return made;
  }

  // One call must compute a gradient that is a sum over sequences, because it adds in a fixed order.
  bool can_be_split() const {
    return !wanted_.dsinks && !(wanted_.dbias && a_.batch > 1 && a_.bias_repeats.batch);
  }

  rapt_attention_options options_of(const Piece &piece) {
    rapt_attention_options o = Base::options_of(piece);
    o.out_strides = this->strides(out_, piece);
    o.lse_strides = this->strides(lse_, piece);
    o.lse = queries_at(lse_, piece);
    return o;
  }

  void run_forward() {
    const rapt_attention_options o = options_of({0, a_.batch});
    std::size_t bytes = 0;
    check(rapt_attention_workspace(&o, &bytes));
    std::vector<unsigned char> workspace(bytes);
    check(rapt_attention(in_.q.data(), in_.k.data(), in_.v.data(), out_.data(), &o, workspace.data(), bytes));
    out_.remember();
    lse_.remember();
  }

  void run_piece(const Piece &piece) {
    const rapt_attention_options o = options_of(piece);
    rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
    g.out = queries_at(out_, piece);
    g.dout = queries_at(dout_, piece);
    g.dq = queries_at(gradients_.q, piece);
    g.dk = keys_at(gradients_.k, piece);
    g.dv = keys_at(gradients_.v, piece);
    g.dout_strides = this->strides(dout_, piece);
    g.dq_strides = this->strides(gradients_.q, piece);
    g.dk_strides = this->strides(gradients_.k, piece);
    g.dv_strides = this->strides(gradients_.v, piece);
    if (wanted_.dbias) g.dbias = dbias_.at(piece.first_sequence, 0, 0);
    if (wanted_.dsinks) g.dsinks = dsinks_.data();
    const T *const q = queries_at(in_.q, piece), *const k = keys_at(in_.k, piece),
                   *const v = keys_at(in_.v, piece);
    void *const workspace = workspace_->data();
    std::size_t tasks = 0;
    check(rapt_attention_backward_tasks(&o, &g, &tasks));
    if (how_.calls == Calls::task_by_task || how_.calls == Calls::task_ranges ||
        how_.calls == Calls::split_keys) {
      this->run_tasks(tasks, [&](std::size_t first, std::size_t end) {
        return rapt_attention_backward_run(q, k, v, &o, &g, first, end, workspace, workspace_size_);
      });
    } else {
      call([&] { return rapt_attention_backward(q, k, v, &o, &g, workspace, workspace_size_); });
    }
  }

  void collect() {
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        for (std::size_t i = 0; i < a_.q_len; ++i) {
          take(gradients_.q, i < a_.queries(b), query_sequence(b), h, query_token(b, i));
        }
        for (std::size_t t = 0; t < this->query_padding_; ++t) take_zeros(gradients_.q, b, h, t);
      }
    }
    for (const Tensor *tensor : {&gradients_.k, &gradients_.v}) {
      for (std::size_t b = 0; b < a_.batch; ++b) {
        for (std::size_t h = 0; h < a_.kv_heads; ++h) {
          for (std::size_t j = 0; j < a_.kv_len; ++j) {
            const auto [sequence, token] = this->place_of_key(b, j);
            take(*tensor, j < keys_in_memory(b), sequence, h, token);
          }
          if (this->key_padding_ == 0) continue;
          for (std::size_t t = 0; t < this->starts_[b]; ++t) take_zeros(*tensor, b, h, t);
          for (std::size_t t = this->starts_[b] + a_.kv_len; t < this->kv_room(); ++t)
            take_zeros(*tensor, b, h, t);
        }
      }
    }
    if (wanted_.dbias) {
      const Shape &shape = dbias_.shape();
      for (std::size_t b = 0; b < shape.batch; ++b) {
        for (std::size_t h = 0; h < shape.heads; ++h) {
          for (std::size_t i = 0; i < shape.tokens; ++i) take_columns(b, h, i);
        }
      }
    }
    if (wanted_.dsinks) take(dsinks_, true, 0, 0, 0);
    const auto unchanged = [&](const auto &...tensor) { return (tensor.unchanged() && ...); };
    fault_unless(unchanged(in_.whole, in_.q, in_.k, in_.v, dout_, out_, lse_), "to an input");
    const auto all_canary = [&](const auto &...tensor) { return (tensor.all_canary() && ...); };
    fault_unless(all_canary(gradients_.whole, gradients_.q, gradients_.k, gradients_.v, dbias_, dsinks_),
                 "outside the rows of a gradient");
    this->check_options();
    this->check_workspace();
  }
  // Returns the number of keys for which a sequence has memory. The call writes gradients of all of them.
  std::size_t keys_in_memory(std::size_t b) const {
    if (how_.kv_offsets) return this->kv_first_[b + 1] - this->kv_first_[b];
    return std::min(a_.kv_len, this->kv_room() - this->starts_[b]);
  }

  // A gradient of padding is 0.
  template <class U>
  void take_zeros(const test::Tensor<U> &tensor, std::size_t b, std::size_t h, std::size_t t) {
    Outcome got;
    tensor.take(b, h, t, got);
    if (std::ranges::any_of(got.bits, [](auto bits) { return bits != 0; })) {
      outcome_.fault += "padding has a gradient; ";
    }
  }
  // Takes a row of dbias. The columns before and after the keys, and the rows of padding, are 0.
  void take_columns(std::size_t b, std::size_t h, std::size_t i) {
    if (this->query_padding_ != 0 && !a_.bias_repeats.token && i < this->query_padding_) {
      return take_zeros(dbias_, b, h, i);
    }
    Outcome row;
    dbias_.take(b, h, i, row);
    const std::size_t first = this->starts_.empty() ? 0 : this->starts_[b];
    for (std::size_t j = 0; j < row.bits.size(); ++j) {
      const bool is_key = j >= first && j < first + a_.kv_len;
      if (is_key) outcome_.bits.push_back(row.bits[j]);
      if (!is_key && row.bits[j] != 0) outcome_.fault += "a column of padding has a gradient; ";
    }
    const std::size_t taken = std::min(a_.kv_len, row.bits.size() - first);
    outcome_.bits.resize(outcome_.bits.size() + a_.kv_len - taken);
  }

  template <class U>
  void take(const test::Tensor<U> &tensor, bool exists, std::size_t b, std::size_t h, std::size_t t) {
    if (exists) {
      tensor.take(b, h, t, outcome_);
    } else {
      outcome_.bits.resize(outcome_.bits.size() + tensor.shape().row);
    }
  }

  WantedGradients wanted_;
  Three gradients_;
  Tensor out_, dout_;
  Numbers lse_, dbias_, dsinks_;
};

}  // namespace

template <class T>
Outcome run_attention_backward(const Problem &problem, const Layout &layout) {
  return BackwardRun<T>(problem, layout).run();
}

template Outcome run_attention_backward<float>(const Problem &, const Layout &);
template Outcome run_attention_backward<double>(const Problem &, const Layout &);
template Outcome run_attention_backward<F16>(const Problem &, const Layout &);
template Outcome run_attention_backward<BF16>(const Problem &, const Layout &);

}  // namespace rapt::test
