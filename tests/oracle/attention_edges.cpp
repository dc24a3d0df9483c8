// Computes which memory calls access, and tests arrays that touch or overlap.
#include "oracle/attention_edges.hpp"

#include <algorithm>
#include <cstring>

namespace rapt::test::oracle {
namespace {

constexpr const char *stage_names[] = {"attention_run", "attention_partial", "attention_merge",
                                       "attention_backward_run"};

// Each array has one slot in this memory. Calls without a task read only lists of integers in it.
constexpr std::size_t slot = std::size_t{1} << 26, slots = 30, longest = slot / 4;
unsigned char *arena() {
  static const std::unique_ptr<unsigned char[]> memory(new unsigned char[slots * slot]);
  return memory.get();
}

}  // namespace

template <class Pointer>
AttentionEdges::Array AttentionEdges::array(const char *name, Pointer *&argument, std::size_t element,
                                            bool written) {
  return {name, static_cast<void *>(&argument), element, written};
}
// Adds an array. Without elements, its pointer is arbitrary, or null if there are no queries or keys.
void AttentionEdges::add(Array made) {
  if (made.any()) return arrays_.push_back(std::move(made));
  const auto is_one_of = [&](std::initializer_list<const char *> names) {
    return std::any_of(names.begin(), names.end(), [&](const char *name) { return made.name == name; });
  };
  const bool of_keys = is_one_of({"k", "v", "k_scales", "v_scales", "partials", "dk", "dv"});
  const bool no_keys = of_keys && a_.kv_len == 0;
  const bool no_queries = a_.q_len == 0 && is_one_of({"q", "k", "v", "out", "partials", "dout", "dq"});
  unsigned char *const anywhere =
      (no_keys || no_queries) && random_.one_in(2) ? nullptr : arena() + empty_arrays_++;
  std::memcpy(made.argument, &anywhere, sizeof anywhere);
}
// Sets may_be_longer if an earlier sequence or page may end behind the last one.
void AttentionEdges::see_order(Array &made, const Placed &placed, std::size_t row) const {
  const bool ragged =
      !a_.q_lengths.empty() || !a_.kv_lengths.empty() || !a_.kv_starts.empty() || m_.page_size_ != 0;
  const std::size_t tokens = std::max({a_.q_len, a_.kv_len, m_.page_size_, m_.cache_len_});
  made.may_be_longer = ragged && placed.index(1, 0, 0) < placed.index(0, 0, tokens) + row;
}
void AttentionEdges::add_queries(Array made, const Placed &placed, std::size_t row) {
  for (std::size_t b = 0; b < a_.batch; ++b) {
    for (std::size_t h = 0; h < a_.q_heads; ++h) {
      for (std::size_t i = 0; i < a_.queries(b); ++i)
        made.take(placed.index(m_.query(b, i).b, h, m_.query(b, i).t), row);
    }
  }
  add(std::move(made));
}
// Adds an option's array. It has a batch dimension even if the queries have offsets.
void AttentionEdges::add_own_rows(Array made, const Placed &placed, bool by_key) {
  see_order(made, placed, by_key ? a_.kv_len : 1);
  for (std::size_t b = 0; b < a_.batch; ++b) {
    const std::size_t row = !by_key ? 1 : a_.start(b) < a_.keys(b) ? a_.keys(b) : 0;
    for (std::size_t h = 0; h < a_.q_heads && row > 0; ++h) {
      for (std::size_t i = 0; i < a_.queries(b); ++i) made.take(placed.index(b, h, i), row);
    }
  }
  add(std::move(made));
}
// Returns the first key whose memory counts as read. Padding counts, except whole pages.
std::size_t AttentionEdges::first_key_of_memory(std::size_t b) const {
  if (a_.start(b) == a_.keys(b)) return a_.keys(b);
  return m_.page_size_ != 0 ? a_.start(b) / m_.page_size_ * m_.page_size_ : 0;
}
// Adds keys of sequences that have queries. `packed_block` is the size of a block of packed keys, or 0.
void AttentionEdges::add_keys(Array made, const Placed &placed, std::size_t row, std::size_t packed_block) {
  see_order(made, placed, row);
  for (std::size_t b = 0; b < a_.batch; ++b) {
    for (std::size_t h = 0; h < a_.kv_heads && a_.queries(b) > 0; ++h) {
      // Every token of a cache with lists counts as read.
      const bool has_list = o_.key_lists && (o_.key_list_lengths || a_.keys(b) > 0);
      for (std::size_t t = 0; has_list && t < m_.cache_len_; ++t) made.take(placed.index(b, h, t), row);
      for (std::size_t j = first_key_of_memory(b); j < a_.keys(b); ++j) {
        const auto at = m_.key(b, j);
        if (packed_block != 0) {
          made.take(placed.index(at.b, h, 0) + at.t / 64 * packed_block, packed_block);
        } else {
          made.take(placed.index(at.b, h, at.t), row);
        }
      }
    }
  }
  add(std::move(made));
}
void AttentionEdges::add_key_gradients(Array made, const Placed &placed, std::size_t row) {
  for (std::size_t b = 0; b < a_.batch; ++b) {
    for (std::size_t h = 0; h < a_.kv_heads; ++h) {
      for (std::size_t j = 0; j < m_.keys_in_memory(b); ++j)
        made.take(placed.index(m_.key(b, j).b, h, m_.key(b, j).t), row);
    }
  }
  add(std::move(made));
}
void AttentionEdges::add_list(const char *name, const std::int32_t *&argument, std::size_t count) {
  if (!argument) return;
  Array made = array(name, argument, sizeof(std::int32_t));
  made.take(0, count);
  made.list = argument;
  arrays_.push_back(std::move(made));
}

void AttentionEdges::add_key_lists() {
  if (!o_.key_lists) return;
  const auto add_rows = [&](const char *name, const std::int32_t *&argument, const rapt_strides &strides,
                            std::size_t row, const void *list) {
    Array made = array(name, argument, sizeof(std::int32_t));
    made.list = list;
    rapt_strides given = strides;
    const std::size_t some = std::min(o_.queries_per_list == 0 ? a_.q_len : o_.queries_per_list, a_.q_len);
    const auto lists = static_cast<std::ptrdiff_t>(some == 0 ? 0 : (a_.q_len + some - 1) / some);
    const auto heads = static_cast<std::ptrdiff_t>(a_.kv_heads), length = static_cast<std::ptrdiff_t>(row);
    if (given.batch == 0) given = {heads * lists * length, lists * length, length};
    if (given.head == RAPT_REPEAT) given.head = 0;
    for (std::size_t b = 0; b < a_.batch; ++b) {
      if (!o_.key_list_lengths && a_.keys(b) == 0) continue;
      for (std::size_t h = 0; h < a_.kv_heads; ++h) {
        for (std::size_t i = 0; i < a_.queries(b); i += some) {
          made.take(b * static_cast<std::size_t>(given.batch) + h * static_cast<std::size_t>(given.head) +
                        i / some * static_cast<std::size_t>(given.token),
                    row);
        }
      }
    }
    if (made.any()) arrays_.push_back(std::move(made));
  };
  add_rows("key_lists", o_.key_lists, o_.key_list_strides, a_.kv_len, nullptr);
  if (o_.key_list_lengths) {
    add_rows("key_list_lengths", o_.key_list_lengths, o_.key_list_length_strides, 1, o_.key_list_lengths);
  }
}

void AttentionEdges::add_inputs() {
  const std::size_t number = size_of(p_.number()), kv = size_of(p_.kv);
  if (!m_.table_.empty()) {
    std::size_t end = 0;
    for (std::size_t b = 0; b < a_.batch; ++b) {
      const std::size_t pages = (a_.keys(b) + m_.page_size_ - 1) / m_.page_size_;
      if (pages > 0 && a_.start(b) < a_.keys(b)) end = b * m_.table_stride_ + pages;
    }
    if (end > 0) add_list("block_table", o_.block_table, end);
  }
  add_list("kv_lengths", o_.kv_lengths, a_.batch);
  add_list("q_offsets", o_.q_offsets, a_.batch + 1);
  add_list("kv_offsets", o_.kv_offsets, a_.batch + 1);
  add_list("kv_starts", o_.kv_starts, a_.batch);
  add_list("q_starts", o_.q_starts, a_.batch);
  const auto per_head = [&](const char *name, const void *&argument) {
    if (!argument) return;
    Array made = array(name, argument, number);
    made.take(0, a_.q_heads);
    add(std::move(made));
  };
  per_head("alibi_slopes", o_.alibi_slopes);
  per_head("sinks", o_.sinks);
  if (o_.query_scales) add_own_rows(array("query_scales", o_.query_scales, number), m_.query_scales_, false);
  if (stage_ == Stage::merge) return;
  add_key_lists();
  add_queries(array("q", q_, size_of(p_.q)), m_.q_, a_.qk_dim);
  add_keys(array("k", k_, kv), m_.k_, a_.qk_dim, m_.packed_ ? 64 * a_.qk_dim : 0);
  if (!p_.v_is_k) add_keys(array("v", v_, kv), m_.v_, a_.v_dim, 0);
  if (o_.bias) add_own_rows(array("bias", o_.bias, number), m_.bias_, true);
  if (o_.mask) add_own_rows(array("mask", o_.mask, 1), m_.mask_, true);
  if (p_.kv != RAPT_I8) return;
  Array k_scales = array("k_scales", o_.k_scales, sizeof(float));
  const std::size_t k_groups = a_.qk_dim / a_.group_of(a_.qk_dim);
  if (m_.packed_) {  // one row of scales per token
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < a_.kv_heads && a_.queries(b) > 0; ++h) {
        for (std::size_t j = first_key_of_memory(b); j < a_.keys(b); ++j) {
          const auto at = m_.key(b, j);
          k_scales.take(m_.k_scales_.index(at.b, h, 0) + at.t * k_groups, k_groups);
        }
      }
    }
    add(std::move(k_scales));
  } else {
    add_keys(std::move(k_scales), m_.k_scales_, k_groups, 0);
  }
  add_keys(array("v_scales", o_.v_scales, sizeof(float)), m_.v_scales_, a_.v_dim / a_.group_of(a_.v_dim), 0);
}

void AttentionEdges::add_outputs() {
  const std::size_t number = size_of(p_.number());
  if (stage_ == Stage::partial || stage_ == Stage::merge) {
    Array made = array("partials", partials_, number, stage_ == Stage::partial);
    made.take(0, partials_length_);
    add(std::move(made));
  }
  const bool backward = stage_ == Stage::backward;
  if (stage_ != Stage::partial) {
    placed_out_ = Placed(random_, p_.out, m_.queries_extents(a_.v_dim));
    o_.out_strides = placed_out_.strides();
    Array made = array("out", out_, size_of(p_.out), !backward);
    if (backward) made = array("out", g_.out, size_of(p_.out));
    add_queries(std::move(made), placed_out_, a_.v_dim);
  }
  o_.lse = nullptr;
  o_.lse_strides = {0, 0, 0};
  if (stage_ == Stage::partial || (!backward && random_.one_in(4))) return;
  placed_lse_ = Placed(random_, p_.number(), m_.queries_extents(1));
  o_.lse = placed_lse_.data();
  o_.lse_strides = placed_lse_.strides();
  add_queries(array("lse", o_.lse, number, !backward), placed_lse_, 1);
}

void AttentionEdges::add_gradients() {
  const rapt_type of_q = p_.gradient_of(p_.q), of_kv = p_.gradient_of(p_.kv);
  placed_dout_ = Placed(random_, p_.out, m_.queries_extents(a_.v_dim));
  placed_dq_ = Placed(random_, of_q, m_.queries_extents(a_.qk_dim));
  placed_dk_ = Placed(random_, of_kv, m_.keys_extents(a_.qk_dim));
  placed_dv_ = Placed(random_, of_kv, m_.keys_extents(a_.v_dim));
  g_.dout_strides = placed_dout_.strides();
  g_.dq_strides = placed_dq_.strides();
  g_.dk_strides = placed_dk_.strides();
  g_.dv_strides = placed_dv_.strides();
  g_.type = p_.gradient;
  add_queries(array("dout", g_.dout, size_of(p_.out)), placed_dout_, a_.v_dim);
  add_queries(array("dq", g_.dq, size_of(of_q), true), placed_dq_, a_.qk_dim);
  add_key_gradients(array("dk", g_.dk, size_of(of_kv), true), placed_dk_, a_.qk_dim);
  add_key_gradients(array("dv", g_.dv, size_of(of_kv), true), placed_dv_, a_.v_dim);
  const std::size_t number = size_of(p_.number());
  if (o_.bias) {
    Array dbias = array("dbias", g_.dbias, number, true);
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        for (std::size_t i = 0; i < a_.q_len; ++i) dbias.take(m_.bias_.index(b, h, i), a_.kv_len);
      }
    }
    add(std::move(dbias));
  }
  if (o_.sinks) {
    Array dsinks = array("dsinks", g_.dsinks, number, true);
    dsinks.take(0, a_.q_heads);
    add(std::move(dsinks));
  }
}

AttentionEdges::AttentionEdges(const AttentionMemory &memory, Stage stage, std::uint64_t seed)
    : m_(memory), p_(memory.p_), a_(memory.a_), stage_(stage), random_(seed * 31 + 5), o_(memory.o_) {
  q_ = m_.q_.data();
  k_ = m_.k_.data();
  v_ = m_.v_.data();
  const bool backward = stage == Stage::backward;
  if (backward) {
    rapt_attention_backward_workspace(&o_, &workspace_size_);
  } else {
    rapt_attention_workspace(&o_, &workspace_size_);
    rapt_attention_partial_tasks(&o_, &tasks_, &partials_length_);
    if (stage != Stage::partial) rapt_attention_tasks(&o_, &tasks_);
  }
  add_inputs();
  add_outputs();
  if (backward) add_gradients();
  Array workspace = array("workspace", workspace_, 1, true);
  workspace.take(0, workspace_size_);
  add(std::move(workspace));
  place_all();
  if (backward) rapt_attention_backward_tasks(&o_, &g_, &tasks_);
}

unsigned char *AttentionEdges::place_of(std::size_t array) const { return arena() + array * slot + slot / 2; }
void AttentionEdges::place(std::size_t array, unsigned char *first) {
  unsigned char *const pointer = first - arrays_[array].begin;
  std::memcpy(arrays_[array].argument, &pointer, sizeof pointer);
}
void AttentionEdges::place_all() {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    place(i, place_of(i));
    if (arrays_[i].list) std::memcpy(place_of(i), arrays_[i].list, arrays_[i].end);
  }
  if (p_.v_is_k) v_ = k_;
}

rapt_status AttentionEdges::run(std::size_t first, std::size_t last) {
  switch (stage_) {
    case Stage::whole:
      return rapt_attention_run(q_, k_, v_, out_, &o_, first, last, workspace_, workspace_size_);
    case Stage::partial:
      return rapt_attention_partial(q_, k_, v_, partials_, &o_, first, last, workspace_, workspace_size_);
    case Stage::merge:
      return rapt_attention_merge(partials_, out_, &o_, first, last, workspace_, workspace_size_);
    default:
      return rapt_attention_backward_run(q_, k_, v_, &o_, &g_, first, last, workspace_, workspace_size_);
  }
}

std::string AttentionEdges::fault_of_touching(Reached &reached) {
  if (a_.q_len == 0) return "";
  place_all();
  std::vector<std::size_t> outputs;
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (arrays_[i].end - arrays_[i].begin > longest) return "arrays are longer than their slots";
    if (arrays_[i].written) outputs.push_back(i);
  }
  for (std::size_t draw = 0; draw < 6; ++draw) {
    const std::size_t w = outputs[random_.below(outputs.size())], x = random_.below(arrays_.size());
    if (w == x) continue;
    const Array &output = arrays_[w], &other = arrays_[x];
    const std::size_t bytes = output.end - output.begin, of_other = other.end - other.begin;
    const bool before = random_.one_in(2), shares = random_.one_in(2);
    const std::size_t shared = !shares ? 0 : random_.one_in(2) ? 1 : std::min(output.element, other.element);
    if (!shares && (output.may_be_longer || other.may_be_longer)) continue;
    // The output may use the memory of q.
    if (shared == of_other && bytes == of_other && output.name == "out" && other.name == "q") continue;
    const bool workspace = output.name == "workspace" || other.name == "workspace";
    const rapt_status expected = !shares ? RAPT_OK : workspace ? RAPT_BAD_WORKSPACE : RAPT_BAD_OVERLAP;
    place(w, before ? place_of(x) - bytes + shared : place_of(x) + of_other - shared);
    const rapt_status got = run(0, 0);
    place(w, place_of(w));
    const std::string where = output.name + (before ? " before " : " behind ") + other.name;
    for (const Array *array : {&output, &other}) {
      reached.see(stage_name() + ", " + array->name + (shares ? " shares a byte" : " touches another array"));
    }
    if (got != expected) {
      return stage_name() + ", " + where + ", " + std::to_string(shared) +
             " bytes shared: " + rapt_status_text(got) + ", not " + rapt_status_text(expected);
    }
  }
  return "";
}

std::string AttentionEdges::stage_name() const { return stage_names[static_cast<std::size_t>(stage_)]; }

void AttentionEdges::expect_arrays(Reached &reached) {
  constexpr const char *lists[] = {"kv_lengths",   "q_offsets", "kv_offsets",   "kv_starts", "q_starts",
                                   "alibi_slopes", "sinks",     "query_scales", "workspace"};
  constexpr const char *inputs[] = {"q", "k", "v", "bias", "mask"};
  constexpr const char *of_stages[][9] = {{"block_table", "k_scales", "v_scales", "out", "lse"},
                                          {"block_table", "k_scales", "v_scales", "partials"},
                                          {"block_table", "partials", "out", "lse"},
                                          {"out", "lse", "dout", "dq", "dk", "dv", "dbias", "dsinks"}};
  for (std::size_t stage = 0; stage < std::size(stage_names); ++stage) {
    const auto see = [&](const char *array) {
      for (const char *what : {" shares a byte", " touches another array"})
        reached.see(std::string(stage_names[stage]) + ", " + array + what, false);
    };
    for (const char *array : lists) see(array);
    for (const char *array : inputs) {
      if (static_cast<Stage>(stage) != Stage::merge) see(array);
    }
    for (const char *array : of_stages[stage]) {
      if (array) see(array);
    }
  }
}

}  // namespace rapt::test::oracle
