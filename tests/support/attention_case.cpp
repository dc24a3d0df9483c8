#include "support/attention_case.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "support/attention_data.hpp"
#include "support/attention_memory.hpp"
#include "support/bits.hpp"
#include "support/guarded_buffer.hpp"
#include "support/public_api.hpp"

namespace rapt::test {
namespace {

// Some sequences, and some of the queries of each.
struct Piece {
  std::size_t first_sequence, end_sequence;
  bool all_queries = true;
  std::size_t first_query = 0, end_query = 0;
};

// Without causality a window's or a slope's position is that of all queries together.
bool queries_can_be_split(const AttentionOptions &options) {
  return options.causal ||
         (options.window_left < 0 && options.window_right < 0 && options.window_chunk == 0 && !options.alibi);
}

template <class T>
class AttentionRun {
 public:
  AttentionRun(const Problem &problem, const Layout &layout, AttentionStage stage)
      : problem_(problem.as<AttentionProblem>()),
        layout_(layout),
        how_(layout.attention),
        stage_(stage),
        a_(make_attention<T>(problem)),
        random_(problem.seed * 77 + 5) {
    make_plain_where_it_must_be();
    place_queries_and_keys();
    place_options();
    place_outputs();
  }

  Outcome run() {
    for (const Piece &piece : pieces()) run_piece(piece);
    collect();
    return std::move(outcome_);
  }

 private:
  using Tensor = test::Tensor<T>;
  using Shape = typename Tensor::Shape;

  void make_plain_where_it_must_be() {
    if (!a_.q_lengths.empty()) how_.q_offsets = true;
    if (how_.page_size != 0 || how_.packed_keys) how_.kv_offsets = false;
    if (how_.packed_keys && how_.page_size != 0) how_.page_size = (how_.page_size + 63) / 64 * 64;
    if (how_.page_size != 0 || how_.packed_keys || how_.kv_offsets || how_.q_offsets || how_.repeated_heads) {
      how_.fused = false;
    }
    if (stage_ != AttentionStage::whole && how_.calls == Calls::split_keys) how_.calls = Calls::task_ranges;
    in_place_ =
        layout_.alias == Alias::first_input && a_.qk_dim == a_.v_dim && stage_ != AttentionStage::partial;
  }

  std::size_t kv_heads() const { return how_.repeated_heads ? a_.q_heads : a_.kv_heads; }
  std::size_t head_of_kv(std::size_t h) const {
    return how_.repeated_heads ? h : h * a_.group();
  }  // a query's
  std::size_t gap(std::size_t slot) const { return static_cast<std::size_t>(layout_.gap[slot]); }

  void place_queries_and_keys() {
    q_first_ = offsets_of(a_.q_lengths, a_.q_len, 0, how_.q_offsets ? 2 : 0);
    const Shape q_shape = how_.q_offsets ? Shape{1, a_.q_heads, q_first_.back(), a_.qk_dim}
                                         : Shape{a_.batch, a_.q_heads, a_.q_len, a_.qk_dim};
    if (how_.fused) {
      const std::size_t q_part = a_.q_heads * a_.qk_dim, k_part = a_.kv_heads * a_.qk_dim,
                        v_part = a_.kv_heads * a_.v_dim;
      const Shape kv{a_.batch, a_.kv_heads, a_.kv_len, 0};
      whole_ = Tensor({a_.batch, 1, std::max(a_.q_len, a_.kv_len), q_part + k_part + v_part}, true, gap(0),
                      layout_, 0);
      q_ = Tensor(whole_, q_shape, 0);
      k_ = Tensor(whole_, {kv.batch, kv.heads, kv.tokens, a_.qk_dim}, q_part);
      v_ = Tensor(whole_, {kv.batch, kv.heads, kv.tokens, a_.v_dim}, q_part + k_part);
    } else {
      q_ = Tensor(q_shape, how_.tokens_outside, gap(0), layout_, 0);
      place_keys();
    }
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        for (std::size_t i = 0; i < a_.queries(b); ++i) {
          const std::size_t sequence = how_.q_offsets ? 0 : b;
          q_.put(sequence, h, how_.q_offsets ? q_first_[b] + i : i, a_.query(b, h, i));
        }
      }
      for (std::size_t h = 0; h < kv_heads(); ++h) {
        for (std::size_t j = 0; j < a_.keys(b); ++j) put_key(b, h, j);
      }
    }
    if (how_.packed_keys) pack_keys();
    for (Tensor *tensor : {&whole_, &q_, &k_, &v_}) tensor->remember();
  }

  void place_keys() {
    const std::size_t heads = stored_heads();
    std::size_t sequences = a_.batch, tokens = a_.kv_len;
    if (how_.page_size != 0) {
      make_block_table();
      sequences = pages_;
      tokens = how_.page_size;
    } else if (how_.kv_offsets) {
      kv_slack_ = random_.one_in(2);
      kv_first_ = offsets_of(a_.kv_lengths, a_.kv_len, kv_slack_ ? 7 : 0, 3);
      sequences = 1;
      tokens = kv_first_.back();
    }
    v_ = Tensor({sequences, heads, tokens, a_.v_dim}, how_.tokens_outside, gap(1), layout_, 1);
    if (how_.packed_keys) {
      const std::size_t blocks = (tokens + 63) / 64;
      k_ = Tensor({sequences, heads, 1, blocks * 64 * a_.qk_dim}, false, gap(1), layout_, 1);
    } else {
      k_ = Tensor({sequences, heads, tokens, a_.qk_dim}, how_.tokens_outside, gap(1), layout_, 1);
    }
    if (how_.repeated_heads && heads == 1 && a_.q_heads > 1) {
      k_.repeat({false, true, false});
      v_.repeat({false, true, false});
    }
  }
  // Repeated heads of one key/value head are a stride of 0.
  std::size_t stored_heads() const { return how_.repeated_heads && a_.kv_heads == 1 ? 1 : kv_heads(); }

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

  // Pages in any order, with unused ones between them.
  void make_block_table() {
    const std::size_t size = how_.page_size, columns = (a_.kv_len + size - 1) / size;
    table_stride_ = columns + (random_.one_in(2) ? 0 : 1 + random_.below(3));
    page_of_.assign(a_.batch * table_stride_, -1);
    pages_ = 0;
    std::vector<std::int32_t *> used;
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t i = 0; i * size < a_.keys(b); ++i) used.push_back(&page_of_[b * table_stride_ + i]);
    }
    for (std::size_t i = used.size(); i > 1; --i) std::swap(used[i - 1], used[random_.below(i)]);
    for (std::int32_t *page : used) {
      *page = static_cast<std::int32_t>(pages_);
      pages_ += 1 + random_.one_in(3);
    }
    block_table_.set(page_of_, layout_);
  }

  // Sequence (or page) and token of a key.
  std::pair<std::size_t, std::size_t> place_of(std::size_t b, std::size_t j) const {
    if (how_.page_size != 0) {
      const auto page = page_of_[b * table_stride_ + j / how_.page_size];
      return {static_cast<std::size_t>(page), j % how_.page_size};
    }
    if (how_.kv_offsets) return {0, kv_first_[b] + j};
    return {b, j};
  }

  void put_key(std::size_t b, std::size_t h, std::size_t j) {
    const auto [sequence, token] = place_of(b, j);
    const std::size_t row = a_.kv_row(b, head_of_kv(h), j);
    if (!how_.packed_keys) k_.put(sequence, h, token, a_.k.data() + row * a_.qk_dim);
    v_.put(sequence, h, token, a_.v.data() + row * a_.v_dim);
  }

  // In pieces, as a cache grows; no piece crosses a page.
  void pack_keys() {
    const rapt_attention_options shape = dims();
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < kv_heads(); ++h) {
        for (std::size_t j = 0; j < a_.keys(b);) {
          const auto [sequence, token] = place_of(b, j);
          std::size_t tokens = std::min(a_.keys(b) - j, 1 + random_.below(150));
          if (how_.page_size != 0) tokens = std::min(tokens, how_.page_size - token);
          const T *keys = a_.k.data() + a_.kv_row(b, head_of_kv(h), j) * a_.qk_dim;
          check(rapt_attention_pack_keys(keys, 0, token, tokens, &shape, k_.at(sequence, h, 0)));
          j += tokens;
        }
      }
    }
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
  test::Tensor<U> place_rows(const std::vector<U> &values, oracle::Repeats repeats, std::size_t row,
                             std::size_t offset) {
    if (values.empty()) return {};
    Layout layout = layout_;
    layout.offset[0] = offset;
    test::Tensor<U> tensor(
        {repeats.batch ? 1 : a_.batch, repeats.head ? 1 : a_.q_heads, repeats.token ? 1 : a_.q_len, row},
        how_.tokens_outside, gap(0), layout, 0);
    tensor.repeat(repeats);
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
    const std::size_t sequences = how_.q_offsets ? 1 : a_.batch;
    const std::size_t tokens = how_.q_offsets ? q_first_.back() : a_.q_len;
    if (!in_place_) {
      out_ = Tensor({sequences, a_.q_heads, tokens, a_.v_dim}, how_.tokens_outside, gap(2), layout_, 2);
    }
    lse_ = Tensor({sequences, a_.q_heads, tokens, 1}, how_.tokens_outside, gap(2), layout_, 2);
    // Chunks of a row stand together.
    chunks_ = (a_.kv_len + 511) / 512;
    partials_ = Tensor({a_.batch, a_.q_heads, a_.q_len, chunks_ * (a_.v_dim + 2)}, false, 0, layout_, 2);

    const rapt_attention_options shape = dims();
    check(rapt_attention_workspace(&shape, &workspace_size_));
    workspace_ = std::make_unique<GuardedBuffer>(workspace_size_, layout_.placement,
                                                 layout_.offset[0] + layout_.offset[2] / 4);
  }

  rapt_attention_options dims() const {
    rapt_attention_options o = attention_options<T>();
    o.qk_dim = a_.qk_dim;
    o.v_dim = a_.v_dim;
    return o;
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

  rapt_attention_options options_of(const Piece &piece) {
    rapt_attention_options o = attention_options<T>();
    const std::size_t b = piece.first_sequence;
    const bool whole = piece.all_queries && b == 0 && piece.end_sequence == a_.batch;
    o.batch = piece.end_sequence - b;
    o.q_heads = a_.q_heads;
    o.kv_heads = kv_heads() == a_.q_heads && random_.one_in(2) ? 0 : kv_heads();
    o.q_len = piece.all_queries ? a_.q_len : piece.end_query - piece.first_query;
    o.kv_len = a_.kv_len;
    o.qk_dim = a_.qk_dim;
    o.v_dim = a_.v_dim == a_.qk_dim && random_.one_in(2) ? 0 : a_.v_dim;
    const auto strides = [&](const Tensor &tensor) {
      return whole ? tensor.given_strides() : tensor.strides();
    };
    o.q_strides = strides(q_);
    o.k_strides = strides(k_);
    o.v_strides = strides(v_);
    if (how_.packed_keys) o.k_strides.token = -77;  // does not exist
    o.out_strides = strides(in_place_ ? q_ : out_);
    if (stage_ != AttentionStage::partial) o.lse_strides = strides(lse_);

    o.scale = a_.scale;
    o.softcap = a_.softcap;
    if (!a_.query_scales.empty()) {
      o.query_scales = query_scales_.at(b, 0, piece.first_query);
      o.query_scale_strides = query_scales_.strides();
    }
    o.alibi_slopes = slopes_.data();
    o.sinks = sinks_.data();
    if (!a_.bias.empty()) {
      o.bias = bias_.at(b, 0, piece.first_query);
      o.bias_strides = bias_.strides();
    }
    if (!a_.mask.empty()) {
      o.mask = mask_.at(b, 0, piece.first_query);
      o.mask_strides = mask_.strides();
    }
    set_visibility(a_, o);
    if (how_.kv_offsets) {
      o.kv_offsets = kv_offsets_.from(b);
      if (kv_slack_) o.kv_lengths = kv_lengths_.from(b);
    } else {
      o.kv_lengths = kv_lengths_.from(b);
    }
    if (how_.page_size != 0 && a_.kv_len > 0) {
      o.block_table = block_table_.from(b * table_stride_);
      o.page_size = how_.page_size;
      const bool is_least = table_stride_ == (a_.kv_len + how_.page_size - 1) / how_.page_size;
      o.block_table_stride = is_least && random_.one_in(2) ? 0 : table_stride_;
    }
    o.packed_keys = how_.packed_keys;
    if (stage_ != AttentionStage::partial) o.lse = lse_.at(sequence_of(b), 0, token_of(b, piece.first_query));
    if (piece.all_queries && how_.q_offsets) {
      // Pointers stay at the first token of all.
      o.q_offsets = q_offsets_.from(b);
      o.lse = stage_ != AttentionStage::partial ? lse_.data() : nullptr;
    }
    if (!piece.all_queries) place_queries_among_keys(piece, o);
    return o;
  }

  // Queries without those before them: their position says which keys they see.
  void place_queries_among_keys(const Piece &piece, rapt_attention_options &o) {
    if (a_.causal == oracle::Causal::none) return;
    const std::size_t b = piece.first_sequence;
    const oracle::Position p = oracle::position_of(a_, b, piece.first_query);
    const auto keys = static_cast<oracle::Position>(a_.keys(b));
    const bool decode = o.q_len == 1 && p >= 0 && p < keys && stage_ == AttentionStage::whole &&
                        !how_.kv_offsets && how_.calls != Calls::split_keys;
    if (decode && random_.one_in(2)) {
      // As when the keys that follow did not exist yet. A page table keeps its width.
      o.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
      o.causal_offset = 0;
      o.kv_lengths = nullptr;
      o.kv_len = static_cast<std::size_t>(p) + 1;
      if (o.block_table) o.block_table_stride = table_stride_;
      return;
    }
    o.causal = RAPT_CAUSAL_OFFSET;
    o.causal_offset = static_cast<std::ptrdiff_t>(p);
  }

  std::size_t sequence_of(std::size_t b) const { return how_.q_offsets ? 0 : b; }
  std::size_t token_of(std::size_t b, std::size_t i) const { return how_.q_offsets ? q_first_[b] + i : i; }

  struct Pointers {
    const T *q, *k, *v;
    T *out, *partials;
  };
  Pointers pointers_of(const Piece &piece) const {
    const std::size_t b = piece.first_sequence;
    const bool at_first_token = piece.all_queries && how_.q_offsets;
    const std::size_t sequence = at_first_token ? 0 : sequence_of(b),
                      token = at_first_token ? 0 : token_of(b, piece.first_query);
    const bool apart = how_.page_size == 0 && !how_.kv_offsets;
    Pointers at{};
    at.q = q_.at(sequence, 0, token);
    at.k = k_.at(apart ? b : 0, 0, 0);
    at.v = v_.at(apart ? b : 0, 0, 0);
    at.out = (in_place_ ? q_ : out_).at(sequence, 0, token);
    return at;
  }

  // Partial results of some queries lie apart from those of the others: they are copied to their place.
  void run_piece(const Piece &piece) {
    const rapt_attention_options o = options_of(piece);
    Pointers at = pointers_of(piece);
    std::size_t tasks = 0, partial_tasks = 0, partials_length = 0;
    check(rapt_attention_tasks(&o, &tasks));
    check(rapt_attention_partial_tasks(&o, &partial_tasks, &partials_length));
    const bool split = stage_ != AttentionStage::whole || how_.calls == Calls::split_keys;
    Tensor partials;
    if (split) {
      const bool all = piece.all_queries && piece.first_sequence == 0 && piece.end_sequence == a_.batch;
      const std::size_t chunks = (o.kv_len + 511) / 512;
      partials = Tensor({o.batch, o.q_heads, o.q_len, chunks * (a_.v_dim + 2)}, false, 0, layout_, 2);
      const Shape &shape = partials.shape();
      const std::size_t expected = shape.batch * shape.heads * shape.tokens * shape.row;
      if (partials_length != expected) outcome_.fault += "partials_length is wrong; ";
      at.partials = all && stage_ == AttentionStage::partial ? partials_.data() : partials.data();
      run_tasks(partial_tasks, [&](std::size_t first, std::size_t last) {
        return rapt_attention_partial(at.q, at.k, at.v, at.partials, &o, first, last, workspace_->data(),
                                      workspace_size_);
      });
      if (at.partials == partials.data() && !partials.unchanged())
        outcome_.fault += "wrote around partials; ";
      if (stage_ == AttentionStage::partial && !all) keep_partials(piece, partials);
    }
    if (stage_ == AttentionStage::partial) return;
    if (split) {
      run_tasks(tasks, [&](std::size_t first, std::size_t last) {
        return rapt_attention_merge(at.partials, at.out, &o, first, last, workspace_->data(),
                                    workspace_size_);
      });
    } else if (how_.calls == Calls::task_by_task || how_.calls == Calls::task_ranges) {
      run_tasks(tasks, [&](std::size_t first, std::size_t last) {
        return rapt_attention_run(at.q, at.k, at.v, at.out, &o, first, last, workspace_->data(),
                                  workspace_size_);
      });
    } else {
      call([&] { return rapt_attention(at.q, at.k, at.v, at.out, &o, workspace_->data(), workspace_size_); });
    }
  }

  void keep_partials(const Piece &piece, const Tensor &partials) {
    for (std::size_t b = piece.first_sequence; b < piece.end_sequence; ++b) {
      const std::size_t queries = piece.all_queries ? a_.queries(b) : piece.end_query - piece.first_query;
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        for (std::size_t i = 0; i < queries; ++i) {
          partials_.put(b, h, piece.first_query + i, partials.at(b - piece.first_sequence, h, i));
        }
      }
    }
  }

  template <class Run>
  void run_tasks(std::size_t tasks, Run &&run) {
    if (how_.calls == Calls::task_ranges || how_.calls == Calls::split_keys) {
      for (std::size_t first = 0; first < tasks;) {
        const std::size_t last = first + std::min(tasks - first, random_.below(4));
        call([&] { return run(first, last); });
        first = last;
      }
    } else if (how_.calls == Calls::task_by_task) {
      for (std::size_t task = tasks; task > 0; --task) call([&] { return run(task - 1, task); });
    } else {
      call([&] { return run(0, tasks); });
    }
  }

  // Under the layout's floating-point state; the workspace holds anything but zeros.
  template <class Call>
  void call(Call &&make_call) {
    if (!outcome_.fault.empty()) return;  // one is enough
    std::memset(workspace_->data(), random_.one_in(2) ? canary : 0x3f, workspace_size_);
    rapt_status status;
    if (layout_.fp_state) {
      const std::uint64_t own = read_fp_control();
      write_fp_control(layout_.fp_state->control);
      status = make_call();
      const std::uint64_t after = read_fp_control();
      write_fp_control(own);
      if (after != layout_.fp_state->control) {
        outcome_.fault += "the caller's floating-point state was not restored; ";
      }
    } else {
      status = make_call();
    }
    check(status);
  }

  void check(rapt_status status) {
    if (status != RAPT_OK) outcome_.fault += std::string("returned: ") + rapt_status_text(status) + "; ";
  }

  void collect() {
    const std::size_t begin = problem_.window.first, end = problem_.window.end(problem_.rows);
    // Whoever writes all queries where only some were asked for writes those too.
    const bool all_ran = !queries_can_be_split(problem_.options);
    Outcome unwanted;
    for (std::size_t i = all_ran ? 0 : begin; i < (all_ran ? a_.q_len : end); ++i) {
      const bool wanted = i >= begin && i < end;
      for (std::size_t b = 0; b < a_.batch; ++b) {
        for (std::size_t h = 0; h < a_.q_heads; ++h) take(b, h, i, wanted ? outcome_ : unwanted);
      }
    }
    const auto fault = [&](bool intact, const char *what) {
      if (!intact) outcome_.fault += std::string("wrote ") + what + "; ";
    };
    if (!in_place_) {
      fault(q_.unchanged(), "to q");
      fault(whole_.unchanged(), "to the buffer of q, k and v");
      fault(out_.all_canary(), "outside the rows of out");
    }
    if (stage_ != AttentionStage::partial) fault(lse_.all_canary(), "outside the elements of lse");
    if (stage_ == AttentionStage::partial) fault(partials_.all_canary(), "outside the partials");
    fault(k_.unchanged() && v_.unchanged(), "to the keys or values");
    fault(query_scales_.unchanged() && bias_.unchanged() && mask_.unchanged() && slopes_.intact() &&
              sinks_.intact() && kv_lengths_.intact() && q_offsets_.intact() && kv_offsets_.intact() &&
              block_table_.intact(),
          "to an option's array");
    fault(workspace_->surroundings_intact(), "outside the workspace");
  }

  void take(std::size_t b, std::size_t h, std::size_t i, Outcome &outcome) {
    const bool exists = i < a_.queries(b);
    if (stage_ == AttentionStage::partial) {
      if (exists) return partials_.take(b, h, i, outcome);
      return outcome.bits.resize(outcome.bits.size() + chunks_ * (a_.v_dim + 2));
    }
    if (!exists) return outcome.bits.resize(outcome.bits.size() + a_.v_dim + 1);
    (in_place_ ? q_ : out_).take(sequence_of(b), h, token_of(b, i), outcome);
    lse_.take(sequence_of(b), h, token_of(b, i), outcome);
  }

  const AttentionProblem &problem_;
  const Layout &layout_;
  AttentionLayout how_;
  AttentionStage stage_;
  oracle::Attention<T> a_;
  Random random_;
  Outcome outcome_;
  bool in_place_ = false, kv_slack_ = false;
  std::vector<std::size_t> q_first_, kv_first_;
  std::vector<std::int32_t> page_of_;
  std::size_t table_stride_ = 0, pages_ = 0, chunks_ = 0, workspace_size_ = 0;
  Tensor whole_, q_, k_, v_, out_, lse_, partials_, query_scales_, bias_;
  test::Tensor<std::uint8_t> mask_;
  Array<T> slopes_, sinks_;
  Array<std::int32_t> kv_lengths_, q_offsets_, kv_offsets_, block_table_;
  std::unique_ptr<GuardedBuffer> workspace_;
};

}  // namespace

template <class T>
Outcome run_attention(const Problem &problem, const Layout &layout, AttentionStage stage) {
  return AttentionRun<T>(problem, layout, stage).run();
}

template Outcome run_attention<float>(const Problem &, const Layout &, AttentionStage);
template Outcome run_attention<double>(const Problem &, const Layout &, AttentionStage);

}  // namespace rapt::test
