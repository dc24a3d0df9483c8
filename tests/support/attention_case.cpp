#include "support/attention_case.hpp"

#include <tuple>

#include "support/attention_run.hpp"

namespace rapt::test {
namespace {

// Returns whether a call may compute only some of the queries. In a call that is not causal, windows and
// ALiBi slopes depend on the number of its queries.
bool queries_can_be_split(const AttentionOptions &options) {
  return options.causal ||
         (options.window_left < 0 && options.window_right < 0 && options.window_chunk == 0 && !options.alibi);
}

template <class T, class KV = T, class Out = T>
class ForwardRun : AttentionRun<T, KV> {
  using Base = AttentionRun<T, KV>;
  using Base::a_, Base::how_, Base::in_, Base::layout_, Base::outcome_, Base::problem_, Base::random_,
      Base::workspace_, Base::workspace_size_;
  using Base::call, Base::check, Base::fault_unless, Base::gap, Base::query_sequence, Base::query_token,
      Base::run_tasks;
  using typename Base::A;
  using typename Base::Numbers;
  using typename Base::Piece;
  using typename Base::Shape;

 public:
  ForwardRun(const Problem &problem, const Layout &layout, AttentionStage stage,
             rapt_arithmetic arithmetic = RAPT_ARITHMETIC_DEFAULT)
      : Base(problem, layout, how(layout, stage), arithmetic), stage_(stage) {
    in_place_ = is_output_like_queries && layout.alias == Alias::first_input && a_.qk_dim == a_.v_dim &&
                stage != AttentionStage::partial;
    if (!in_place_) {
      out_ = Outputs(this->queries_of(a_.v_dim), how_.tokens_outside, gap(2), layout, 2);
    }
    lse_ = Numbers(this->queries_of(1), how_.tokens_outside, gap(2), layout, 2);
    // A row holds the partial results of all 512-key chunks of one query.
    chunks_ = (a_.kv_len + 511) / 512;  // padding would add chunks that are empty
    partials_ = Numbers({a_.batch, a_.q_heads, a_.q_len, chunks_ * (a_.v_dim + 2)}, false, 0, layout, 2);
    rapt_attention_options shape = this->dims();
    this->set_places_of_keys(0, shape);
    set_out_type(shape);
    std::size_t bytes = 0;
    check(rapt_attention_workspace(&shape, &bytes));
    this->make_workspace(bytes);
  }

  Outcome run() {
    for (const Piece &piece : pieces()) run_piece(piece);
    collect();
    return std::move(outcome_);
  }

 private:
  using Outputs = test::Tensor<Out>;
  static constexpr bool is_output_like_queries = std::is_same_v<T, Out>;

  static void set_out_type(rapt_attention_options &o) {
    if (!is_output_like_queries) o.out_type = Api<Out>::type;
  }

  static AttentionLayout how(const Layout &layout, AttentionStage stage) {
    AttentionLayout made = layout.attention;
    if (stage != AttentionStage::whole && made.calls == Calls::split_keys) made.calls = Calls::task_ranges;
    return made;
  }

  std::vector<Piece> pieces() const {
    const std::size_t begin = problem_.window.first, end = problem_.window.end(problem_.rows);
    const bool window = begin != 0 || end != problem_.rows;
    const bool by_query = how_.calls == Calls::query_by_query && a_.q_len > 0;
    if (!queries_can_be_split(problem_.options) || (!window && !by_query)) {
      if (how_.calls != Calls::by_sequence) return {{0, a_.batch}};
      std::vector<Piece> made;
      for (std::size_t b = 0; b < a_.batch; ++b) made.push_back({b, b + 1});
      return made;
    }
    std::vector<Piece> made;
    for (std::size_t b = 0; b < a_.batch; ++b) {
      const std::size_t last = std::min(end, a_.queries(b));
      for (std::size_t i = begin; i < last;) {
        const std::size_t next = by_query ? i + 1 : last;
        made.push_back({b, b + 1, false, i, next});
        i = next;
      }
    }
    return made;
  }

  const Outputs &out() const {
    if constexpr (is_output_like_queries) {
      if (in_place_) return in_.q;
    }
    return out_;
  }

  rapt_attention_options options_of(const Piece &piece) {
    rapt_attention_options o = Base::options_of(piece);
    set_out_type(o);
    o.out_strides = this->strides(out(), piece);
    if (stage_ != AttentionStage::partial) {
      o.lse_strides = this->strides(lse_, piece);
      o.lse = this->queries_at(lse_, piece);
    }
    if (!piece.all_queries) place_queries_among_keys(piece, o);
    return o;
  }

  // Sets the causal offset to the position of the first query of the piece.
  void place_queries_among_keys(const Piece &piece, rapt_attention_options &o) {
    if (a_.causal == oracle::Causal::none) return;
    const std::size_t b = piece.first_sequence;
    const oracle::Position p = oracle::position_of(a_, b, piece.first_query);
    const auto keys = static_cast<oracle::Position>(a_.keys(b));
    const bool decode = o.q_len == 1 && p >= 0 && p < keys && stage_ == AttentionStage::whole &&
                        !how_.kv_offsets && how_.calls != Calls::split_keys;
    if (decode && random_.one_in(2)) {
      // Imitates decoding, where keys after the query do not exist yet. The block table keeps its width.
      o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
      o.causal_offset = 0;
      o.kv_lengths = nullptr;
      o.kv_len = this->starts_[b] + static_cast<std::size_t>(p) + 1;
      if (o.block_table) o.block_table_stride = this->table_stride_;
      return;
    }
    o.causal = RAPT_CAUSAL_OFFSET;
    o.causal_offset = static_cast<std::ptrdiff_t>(p) + static_cast<std::ptrdiff_t>(this->starts_[b]);
  }

  void run_piece(const Piece &piece) {
    const rapt_attention_options o = options_of(piece);
    ran_padding_ = ran_padding_ || piece.all_queries;
    const T *const q = this->queries_at(in_.q, piece);
    const KV *const k = this->keys_at(in_.k, piece), *const v = this->keys_at(in_.v, piece);
    Out *const out_at = this->queries_at(out(), piece);
    void *const workspace = workspace_->data();
    std::size_t tasks = 0;
    check(rapt_attention_tasks(&o, &tasks));
    if (stage_ != AttentionStage::whole || how_.calls == Calls::split_keys) {
      run_by_keys(piece, o, q, k, v, out_at, tasks);
    } else if (how_.calls == Calls::task_by_task || how_.calls == Calls::task_ranges) {
      run_tasks(tasks, [&](std::size_t first, std::size_t end) {
        return rapt_attention_run(q, k, v, out_at, &o, first, end, workspace, workspace_size_);
      });
    } else {
      call([&] { return rapt_attention(q, k, v, out_at, &o, workspace, workspace_size_); });
    }
  }

  // Runs partial calls, then merges their results or, in AttentionStage::partial, keeps them in partials_.
  void run_by_keys(const Piece &piece, const rapt_attention_options &o, const T *q, const KV *k, const KV *v,
                   Out *out_at, std::size_t tasks) {
    std::size_t partial_tasks = 0, partials_length = 0;
    check(rapt_attention_partial_tasks(&o, &partial_tasks, &partials_length));
    const std::size_t chunks = (o.kv_len + 511) / 512;
    const Numbers own({o.batch, o.q_heads, o.q_len, chunks * (a_.v_dim + 2)}, false, 0, layout_, 2);
    const Shape &shape = own.shape();
    if (partials_length != shape.batch * shape.heads * shape.tokens * shape.row) {
      outcome_.fault += "partials_length is wrong; ";
    }
    const bool in_its_place =
        stage_ == AttentionStage::partial && this->is_whole(piece) && how_.left_padding == 0;
    A *const partials = in_its_place ? partials_.data() : own.data();
    run_tasks(partial_tasks, [&](std::size_t first, std::size_t end) {
      return rapt_attention_partial(q, k, v, partials, &o, first, end, workspace_->data(), workspace_size_);
    });
    if (!in_its_place && !own.unchanged()) outcome_.fault += "wrote around partials; ";
    if (stage_ == AttentionStage::partial) {
      if (!in_its_place) keep_partials(piece, own);
      return;
    }
    run_tasks(tasks, [&](std::size_t first, std::size_t end) {
      return rapt_attention_merge(partials, out_at, &o, first, end, workspace_->data(), workspace_size_);
    });
  }

  void keep_partials(const Piece &piece, const Numbers &partials) {
    for (std::size_t b = piece.first_sequence; b < piece.end_sequence; ++b) {
      const std::size_t queries = piece.all_queries ? a_.queries(b) : piece.end_query - piece.first_query;
      const std::size_t padding = piece.all_queries ? this->query_padding_ : 0,
                        own_b = b - piece.first_sequence;
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        for (std::size_t i = 0; i < queries; ++i) {
          partials_.put(b, h, piece.first_query + i, partials.at(own_b, h, padding + i));
        }
        for (std::size_t i = 0; i < padding; ++i) {
          const A *const chunk = partials.at(own_b, h, i);
          const bool is_empty =
              chunks_ == 0 || (chunk[0] == -std::numeric_limits<A>::infinity() && chunk[1] == 0);
          if (!is_empty) outcome_.fault += "partial results of padding; ";
        }
      }
    }
  }

  void collect() {
    const std::size_t begin = problem_.window.first, end = problem_.window.end(problem_.rows);
    // If queries cannot be split, the calls computed all queries, so results outside the window are
    // discarded.
    const bool all_ran = !queries_can_be_split(problem_.options);
    Outcome unwanted;
    for (std::size_t i = all_ran ? 0 : begin; i < (all_ran ? a_.q_len : end); ++i) {
      const bool wanted = i >= begin && i < end;
      for (std::size_t b = 0; b < a_.batch; ++b) {
        for (std::size_t h = 0; h < a_.q_heads; ++h) take(b, h, i, wanted ? outcome_ : unwanted);
      }
    }
    if (stage_ != AttentionStage::partial && ran_padding_) check_padding();
    if (!in_place_) {
      fault_unless(in_.q.unchanged(), "to q");
      fault_unless(in_.whole.unchanged(), "to the buffer of q, k and v");
      fault_unless(out_.all_canary(), "outside the rows of out");
    }
    if (stage_ == AttentionStage::partial) {
      fault_unless(partials_.all_canary(), "outside the partials");
    } else {
      fault_unless(lse_.all_canary(), "outside the elements of lse");
    }
    fault_unless(in_.k.unchanged() && in_.v.unchanged(), "to the keys or values");
    this->check_options();
    this->check_workspace();
  }

  void take(std::size_t b, std::size_t h, std::size_t i, Outcome &outcome) {
    const bool exists = i < a_.queries(b);
    if (stage_ == AttentionStage::partial) {
      if (exists) return partials_.take(b, h, i, outcome);
      return outcome.bits.resize(outcome.bits.size() + chunks_ * (a_.v_dim + 2));
    }
    if (!exists) return outcome.bits.resize(outcome.bits.size() + a_.v_dim + 1);
    out().take(query_sequence(b), h, query_token(b, i), outcome);
    lse_.take(query_sequence(b), h, query_token(b, i), outcome);
  }

  // A query of padding sees nothing.
  void check_padding() {
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        const A sink = a_.sinks.empty() ? -std::numeric_limits<A>::infinity() : a_.sinks[h];
        for (std::size_t t = 0; t < this->query_padding_; ++t) {
          Outcome got;
          out().take(b, h, t, got);
          const std::uint64_t expected = sink == sink ? canonical_bits(Out(0)) : canonical_bits(Out(sink));
          const bool is_zero = std::ranges::all_of(got.bits, [&](auto bits) { return bits == expected; });
          got.bits.clear();
          lse_.take(b, h, t, got);
          if (!is_zero || got.bits[0] != canonical_bits(sink)) outcome_.fault += "padding has a result; ";
        }
      }
    }
  }

  AttentionStage stage_;
  bool in_place_ = false, ran_padding_ = false;
  std::size_t chunks_ = 0;
  Outputs out_;
  Numbers lse_, partials_;
};

// Lists the query and output types that are tested with keys and values of type KV, in addition to the types
// of the kernel.
template <ElementTypes of_all, class Q, class Out>
struct Types {};
template <class KV>
constexpr std::tuple<> other_types{};
template <>
constexpr std::tuple<Types<ElementTypes::f16_f32_bf16, F16, BF16>,
                     Types<ElementTypes::bf16_f32_f16, BF16, F16>>
    other_types<float>{};
template <>
constexpr std::tuple<Types<ElementTypes::f32_f16_f32, float, float>,
                     Types<ElementTypes::f16_f16_f32, F16, float>,
                     Types<ElementTypes::bf16_f16_bf16, BF16, BF16>>
    other_types<F16>{};
template <>
constexpr std::tuple<
    Types<ElementTypes::f32_bf16_f16, float, F16>, Types<ElementTypes::f16_bf16_f16, F16, F16>,
    Types<ElementTypes::bf16_bf16_f32, BF16, float>, Types<ElementTypes::bf16_bf16_f16, BF16, F16>>
    other_types<BF16>{};
template <>
constexpr std::tuple<Types<ElementTypes::f16_i8_bf16, F16, BF16>, Types<ElementTypes::bf16_i8_f16, BF16, F16>>
    other_types<std::int8_t>{};
template <>
constexpr std::tuple<Types<ElementTypes::f16_dequantizing_bf16, F16, BF16>,
                     Types<ElementTypes::bf16_dequantizing_f16, BF16, F16>>
    other_types<InBlocks>{};

}  // namespace

template <class KV>
Outcome run_attention(const Problem &problem, const Layout &layout, AttentionStage stage,
                      rapt_arithmetic arithmetic) {
  const ElementTypes wanted = problem.as<AttentionProblem>().types;
  using Q = QueryOf<KV>;
  if (wanted == ElementTypes::of_kernel)
    return ForwardRun<Q, KV, Q>(problem, layout, stage, arithmetic).run();
  Outcome outcome;
  outcome.fault = "these types are another kernel's; ";
  const auto run_if_wanted = [&]<ElementTypes types, class Query, class Out>(Types<types, Query, Out>) {
    if (types == wanted) outcome = ForwardRun<Query, KV, Out>(problem, layout, stage, arithmetic).run();
  };
  std::apply([&](auto... types) { (run_if_wanted(types), ...); }, other_types<KV>);
  return outcome;
}

template Outcome run_attention<float>(const Problem &, const Layout &, AttentionStage, rapt_arithmetic);
template Outcome run_attention<double>(const Problem &, const Layout &, AttentionStage, rapt_arithmetic);
template Outcome run_attention<F16>(const Problem &, const Layout &, AttentionStage, rapt_arithmetic);
template Outcome run_attention<BF16>(const Problem &, const Layout &, AttentionStage, rapt_arithmetic);
template Outcome run_attention<InBlocks>(const Problem &, const Layout &, AttentionStage, rapt_arithmetic);
template Outcome run_attention<std::int8_t>(const Problem &, const Layout &, AttentionStage, rapt_arithmetic);

}  // namespace rapt::test
