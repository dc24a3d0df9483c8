// Tests attention's limits of numbers, lists, strides and shapes. A numeric limit is tested with values one
// below, at and one past it.
#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "oracle/attention_edges.hpp"

namespace rapt::test::oracle {
namespace {

constexpr std::ptrdiff_t most_bytes = PTRDIFF_MAX;
// Lists the prime factors of 2^60 - 1 and of 2^53 - 1.
constexpr std::size_t factors_of_60[] = {3, 3, 5, 5, 7, 11, 13, 31, 41, 61, 151, 331, 1321};
constexpr std::size_t factors_of_53[] = {6361, 69431, 20394401};
enum Side { below, at, past };
std::int32_t *changeable(const std::int32_t *list) { return const_cast<std::int32_t *>(list); }
const char *name_of(Side side) { return side == below ? " - 1" : side == at ? "" : " + 1"; }

}  // namespace

AttentionEdges::Verdict AttentionEdges::change_dim() {
  constexpr std::size_t most = std::size_t{1} << 20;
  const bool of_keys = random_.one_in(2);
  const Side side = random_.one_of({below, at, past});
  o_.v_dim = a_.v_dim;
  (of_keys ? o_.qk_dim : o_.v_dim) = most - 1 + side;
  o_.scale_group = 0;
  return {std::string(of_keys ? "qk_dim" : "v_dim") + name_of(side), side == past ? RAPT_BAD_DIM : RAPT_OK,
          Judges::counts};
}

// Draws large shapes, because only they reach the limit on a gradient's number of tasks.
AttentionEdges::Verdict AttentionEdges::change_counts() {
  o_ = RAPT_ATTENTION_OPTIONS_INIT;
  o_.q_type = p_.q;
  o_.kv_type = p_.kv;
  o_.batch = 1 + random_.below(random_.one_in(2) ? 4 : 30);
  o_.kv_heads = 1 + random_.below(9);
  o_.q_heads = o_.kv_heads * (1 + random_.below(4));
  o_.q_len = random_.below(6000);
  o_.kv_len = random_.below(6000);
  o_.qk_dim = o_.v_dim = 8;
  return {"counts", RAPT_OK, Judges::counts};
}

// Draws types that may break a rule: f64 goes only with f64, only keys and values may be int8 or in blocks, int8 only
// both of them, and bf16 arithmetic needs bf16 queries, keys and values.
AttentionEdges::Verdict AttentionEdges::change_types() {
  o_ = RAPT_ATTENTION_OPTIONS_INIT;
  o_.q_len = o_.kv_len = 4;
  o_.qk_dim = random_.one_of<std::size_t>({4, 32, 64, 96, 256});
  constexpr rapt_type types[] = {RAPT_TYPE_DEFAULT, RAPT_F32, RAPT_F64, RAPT_F16, RAPT_BF16, RAPT_I8};
  // Of the types that this function may set, and how many numbers a block has.
  constexpr std::pair<rapt_type, std::size_t> blocks[] = {
      {RAPT_Q8_0, 32}, {RAPT_Q5_1, 32}, {RAPT_Q6_K, 256}, {RAPT_NVFP4, 64}, {RAPT_MXFP4, 32}};
  const auto draw = [&] {
    return random_.one_in(4) ? blocks[random_.below(5)].first : types[random_.below(6)];
  };
  o_.q_type = random_.one_in(20) ? draw() : types[random_.below(6)];
  o_.kv_type = draw();
  if (random_.one_in(2)) o_.v_type = draw();
  o_.out_type = random_.one_in(20) ? draw() : types[random_.below(6)];
  o_.arithmetic = static_cast<int>(random_.below(4)) - (random_.one_in(8) ? 1 : 0);
  const rapt_type q = o_.q_type == RAPT_TYPE_DEFAULT ? RAPT_F32 : o_.q_type,
                  kv = o_.kv_type == RAPT_TYPE_DEFAULT ? q : o_.kv_type,
                  v = o_.v_type == RAPT_TYPE_DEFAULT ? kv : o_.v_type,
                  out = o_.out_type == RAPT_TYPE_DEFAULT ? q : o_.out_type;
  const bool f64 = q == RAPT_F64;
  if (q >= RAPT_I8 || out >= RAPT_I8 || (kv == RAPT_F64) != f64 || (v == RAPT_F64) != f64 ||
      (out == RAPT_F64) != f64 || (kv == RAPT_I8) != (v == RAPT_I8)) {
    return {"types", RAPT_BAD_TYPE, Judges::statuses};
  }
  for (const auto &[type, numbers] : blocks) {
    if ((kv == type || v == type) && o_.qk_dim % numbers != 0)
      return {"a part of a block", RAPT_BAD_DIM, Judges::statuses};
  }
  const bool is_bf16 = q == RAPT_BF16 && kv == RAPT_BF16 && v == RAPT_BF16;
  const bool fits = o_.arithmetic == RAPT_ARITHMETIC_DEFAULT ||
                    (o_.arithmetic == RAPT_ARITHMETIC_F32 && !f64) ||
                    (o_.arithmetic == RAPT_ARITHMETIC_BF16 && is_bf16);
  return {fits ? "types that go together" : "arithmetic", fits ? RAPT_OK : RAPT_BAD_ARITHMETIC,
          Judges::statuses};
}

AttentionEdges::Verdict AttentionEdges::change_gradient_type() {
  if (stage_ != Stage::backward) return {};
  g_.type = random_.one_of({RAPT_F32, RAPT_F64, RAPT_F16, RAPT_BF16, RAPT_I8});
  if (g_.type == p_.number()) return {};
  return {"gradient's type", RAPT_BAD_TYPE};
}

// batch * q_heads * the longer length * the larger dimension must be below 2^53.
AttentionEdges::Verdict AttentionEdges::change_shape() {
  const Side side = random_.one_of({at, past});
  std::size_t counts[3] = {1, 1, 1}, dim;  // of sequences, heads and tokens
  if (side == at) {
    const bool first = random_.one_in(2);
    dim = factors_of_53[first ? 0 : 1];
    counts[random_.below(3)] *= factors_of_53[first ? 1 : 0];
    counts[random_.below(3)] *= factors_of_53[2];
  } else {
    const std::size_t bits = random_.below(21);
    dim = std::size_t{1} << bits;
    for (std::size_t i = bits; i < 53; ++i) counts[random_.below(3)] *= 2;
  }
  o_ = RAPT_ATTENTION_OPTIONS_INIT;
  o_.q_type = p_.q;
  o_.kv_type = p_.kv;
  o_.out_type = p_.out;
  o_.batch = counts[0];
  o_.q_heads = counts[1];
  o_.kv_heads = random_.one_of<std::size_t>({0, 1});
  const bool by_queries = random_.one_in(2), by_keys = random_.one_in(2);
  o_.q_len = by_queries ? counts[2] : 1;
  o_.kv_len = by_queries ? 1 : counts[2];
  o_.qk_dim = by_keys ? dim : 1;
  o_.v_dim = by_keys ? 1 : dim;
  return {std::string("shape") + name_of(side), side == past ? RAPT_BAD_SIZE : RAPT_OK, Judges::counts};
}

// All partial results together must have at most PTRDIFF_MAX bytes.
AttentionEdges::Verdict AttentionEdges::change_partials() {
  const bool f64 = p_.number() == RAPT_F64;
  const Side side = random_.one_of({at, past});
  std::size_t counts[3];  // of queries, chunks of keys, and numbers per partial result
  const auto fits = [&] {
    const std::size_t len = std::max(counts[0], 512 * counts[1]);
    return counts[2] > 2 && counts[2] < std::size_t{1} << 20 && len * counts[2] < std::size_t{1} << 53;
  };
  do {
    std::fill(std::begin(counts), std::end(counts), 1);
    if (side == at) {  // f32's limit of 2^61 - 1 is prime, so it tests 2^61 - 2
      for (const std::size_t factor : factors_of_60) counts[random_.below(3)] *= factor;
      if (!f64) counts[random_.below(3)] *= 2;
    } else {
      for (int i = 0; i < (f64 ? 60 : 61); ++i) counts[random_.below(3)] *= 2;
    }
  } while (!fits());
  o_ = RAPT_ATTENTION_OPTIONS_INIT;
  o_.q_type = p_.q;
  o_.kv_type = p_.kv;
  o_.q_len = counts[0];
  o_.kv_len = 512 * counts[1] - random_.below(512);
  o_.qk_dim = 1;
  o_.v_dim = counts[2] - 2;
  return {std::string("partials") + name_of(side), RAPT_OK, Judges::counts};
}

AttentionEdges::Verdict AttentionEdges::change_table_stride() {
  if (!o_.block_table) return {};
  const Side side = random_.one_of({below, at, past});
  const std::size_t most = most_bytes / sizeof(std::int32_t) / a_.batch;
  o_.block_table_stride = most - 1 + side;
  return {std::string("table") + name_of(side), side == past ? RAPT_BAD_SIZE : RAPT_OK, Judges::counts};
}

// A scale group must be 32, 64 or 128, and must divide both dimensions.
AttentionEdges::Verdict AttentionEdges::change_scale_group() {
  if (p_.kv != RAPT_I8) {
    o_.scale_group = 32;
    return {"scale group of numbers", RAPT_BAD_KV_SCALES, Judges::both};
  }
  const std::size_t group = random_.one_of<std::size_t>({32, 64, 128, 16, 96, 256});
  const bool exists = group == 32 || group == 64 || group == 128;
  const bool divides_qk = random_.one_in(2), divides_v = random_.one_in(2);
  const auto dim = [&](bool divides) {
    return group * (1 + random_.below(3)) + (divides ? 0 : 1 + random_.below(group - 1));
  };
  o_.scale_group = group;
  o_.qk_dim = dim(divides_qk);
  o_.v_dim = dim(divides_v);
  const bool fine = exists && divides_qk && divides_v;
  return {!exists      ? "another scale group"
          : fine       ? "scale group of both"
          : divides_qk ? "scale group of keys"
          : divides_v  ? "scale group of values"
                       : "scale group of none",
          fine ? RAPT_OK : RAPT_BAD_KV_SCALES, Judges::counts};
}

AttentionEdges::Verdict AttentionEdges::change_scale() {
  const bool f64 = p_.number() == RAPT_F64;
  const double largest = f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max(),
               least = f64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min(),
               near = f64 ? 0x1p-48 : 0x1p-20;
  const bool large = random_.one_in(2);
  const Side side = random_.one_of({below, past});
  const double scale = large ? largest / 1.4426950408889634 * (side == past ? 1 + near : 1 - near)
                             : least * (side == past ? 1 - near : 1);
  o_.softcap = 0;
  o_.scale = random_.one_in(2) ? scale : -scale;
  return {std::string(large ? "large scale" : "small scale") + name_of(side),
          side == past ? RAPT_BAD_SCALE : RAPT_OK, Judges::both};
}

AttentionEdges::Verdict AttentionEdges::change_softcap() {
  const bool f64 = p_.number() == RAPT_F64;
  const double largest = f64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max(),
               least = f64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min(),
               near = f64 ? 0x1p-48 : 0x1p-20;
  const Side side = random_.one_of({at, past});
  const bool is_past = side == past;
  const std::size_t kind = random_.below(5);
  if (kind == 4) {
    o_.softcap = random_.one_of({-1.0, -0.5, -largest, std::numeric_limits<double>::quiet_NaN()});
    return {"negative softcap", RAPT_BAD_SOFTCAP, Judges::both};
  }
  if (kind == 0) {  // large softcap
    o_.scale = largest / 4;
    o_.softcap = is_past ? 0x1p1023 * 2 : largest;
  } else if (kind == 1) {  // small softcap
    o_.scale = least;
    o_.softcap = least * (is_past ? 1 - near : 1);
  } else if (kind == 2) {  // small scale / softcap
    o_.scale = least * 4;
    o_.softcap = is_past ? 4 * (1 + near) : 4;
  } else {  // large scale / softcap
    o_.scale = largest / 4;
    o_.softcap = is_past ? 0.125 : 0.25;
  }
  constexpr const char *names[] = {"large softcap", "small softcap", "small quotient", "large quotient"};
  return {std::string(names[kind]) + name_of(side), is_past ? RAPT_BAD_SOFTCAP : RAPT_OK, Judges::both};
}

AttentionEdges::Verdict AttentionEdges::change_causal_offset() {
  if (o_.queries_per_list != 0 || o_.key_list_lengths) return {};  // these lists go with no causality
  constexpr std::ptrdiff_t most = std::ptrdiff_t{1} << 60;
  const Side side = random_.one_of({below, at, past});
  const std::ptrdiff_t offset = most - 1 + side;
  o_.causal = RAPT_CAUSAL_OFFSET;
  o_.causal_offset = random_.one_in(2) ? offset : -offset;
  return {std::string("causal offset") + name_of(side), side == past ? RAPT_BAD_CAUSAL_OFFSET : RAPT_OK,
          Judges::both};
}

// A page must hold a key, and a multiple of 64 packed keys.
AttentionEdges::Verdict AttentionEdges::change_page_size() {
  if (!o_.block_table) return {};
  if (random_.one_in(2)) {
    o_.page_size = 0;
    return {"page size", RAPT_BAD_PAGE_SIZE, Judges::both};
  }
  if (!m_.packed_) return {};
  o_.page_size += random_.one_of<std::size_t>({1, 8, 15, 16, 32});
  return {"packed page size", RAPT_BAD_PACKED_KEYS, Judges::both};
}

AttentionEdges::Verdict AttentionEdges::remove_array() {
  const std::pair<const char *, rapt_status> needed[] = {{"q", RAPT_BAD_Q},
                                                         {"k", RAPT_BAD_K},
                                                         {"v", RAPT_BAD_V},
                                                         {"partials", RAPT_BAD_PARTIALS},
                                                         {"out", RAPT_BAD_OUT},
                                                         {"dq", RAPT_BAD_DQ},
                                                         {"dk", RAPT_BAD_DK},
                                                         {"k_scales", RAPT_BAD_KV_SCALES},
                                                         {"dout", RAPT_BAD_DOUT},
                                                         {"dv", RAPT_BAD_DV},
                                                         {"workspace", RAPT_BAD_WORKSPACE},
                                                         {"v_scales", RAPT_BAD_KV_SCALES}};
  const Array &array = arrays_[random_.below(arrays_.size())];
  for (const auto &[name, bad] : needed) {
    if (array.name != name) continue;
    const void *const none = nullptr;
    std::memcpy(array.argument, &none, sizeof none);
    return {std::string("no ") + name, bad};
  }
  return {};
}

AttentionEdges::Verdict AttentionEdges::change_tasks() {
  const Side side = random_.one_of({below, at, past});
  if (tasks_ == 0 && side == below) return {};
  last_ = tasks_ - 1 + side;
  first_ = side == past ? last_ - random_.below(2) : last_;
  return {std::string("tasks") + name_of(side), side == past ? RAPT_BAD_TASKS : RAPT_OK};
}

AttentionEdges::Verdict AttentionEdges::change_workspace_size() {
  const Side side = random_.one_of({below, at, past});
  workspace_size_ = workspace_size_ - 1 + side;
  return {std::string("workspace") + name_of(side), side == below ? RAPT_BAD_WORKSPACE : RAPT_OK};
}

AttentionEdges::Verdict AttentionEdges::change_lengths() {
  if (!o_.kv_lengths || o_.block_table || o_.kv_starts || o_.key_lists) return {};
  const std::size_t b = random_.below(a_.batch);
  std::int32_t &length = changeable(o_.kv_lengths)[b];
  const Side side = random_.one_of({below, at, past});
  if (random_.one_in(3)) {
    length = side == below ? -1 : 0;
    return {side == below ? "length 0 - 1" : "length 0", side == below ? RAPT_BAD_KV_LENGTHS : RAPT_OK};
  }
  const std::size_t most = o_.kv_offsets ? m_.keys_in_memory(b) : a_.kv_len;
  if (most == 0 && side == below) return {};
  length = static_cast<std::int32_t>(most) - 1 + side;
  return {std::string(o_.kv_offsets ? "length of a packed sequence" : "length") + name_of(side),
          side == past ? RAPT_BAD_KV_LENGTHS : RAPT_OK};
}

// A start is at most the length. In pages it is a multiple of 16, and among packed keys of 64.
AttentionEdges::Verdict AttentionEdges::change_starts() {
  const bool of_keys = random_.one_in(2);
  if (!(of_keys ? o_.kv_starts : o_.q_starts)) return {};
  const std::size_t b = random_.below(a_.batch);
  std::int32_t &start = changeable(of_keys ? o_.kv_starts : o_.q_starts)[b];
  const std::string name = of_keys ? "key's start" : "query's start";
  const rapt_status bad = of_keys ? RAPT_BAD_KV_STARTS : RAPT_BAD_Q_STARTS;
  const std::size_t most = of_keys ? a_.keys(b) : a_.q_len;
  const std::size_t unit = !of_keys ? 1 : m_.packed_ ? 64 : m_.page_size_ != 0 ? 16 : 1;
  if (random_.one_in(3)) {
    start = -1;
    return {name + " 0 - 1", bad};
  }
  if (unit > 1 && random_.one_in(2)) {
    start = static_cast<std::int32_t>(unit / 2);
    return {name + " in a unit", bad};
  }
  const Side side = random_.one_of({at, past});
  if (side == at && most % unit != 0) return {};
  start = static_cast<std::int32_t>(most) + (side == past ? 1 : 0);
  return {name + name_of(side), side == past ? bad : RAPT_OK};
}

AttentionEdges::Verdict AttentionEdges::change_offsets() {
  const bool of_keys = random_.one_in(2);
  if (!(of_keys ? o_.kv_offsets : o_.q_offsets)) return {};
  std::int32_t *const offsets = changeable(of_keys ? o_.kv_offsets : o_.q_offsets);
  const std::size_t len = of_keys ? a_.kv_len : a_.q_len;
  const std::string name = of_keys ? "kv_offsets" : "q_offsets";
  const std::size_t kind = random_.below(4);
  std::int32_t &last = offsets[a_.batch];
  if (kind == 0) {
    offsets[0] = -1;
    return {name + " below 0", RAPT_BAD_OFFSETS};
  }
  if (kind == 1) {
    last = offsets[a_.batch - 1] - 1;
    return {name + " decrease", RAPT_BAD_OFFSETS};
  }
  // A length of `len` is allowed, but the strides may not fit the larger number of tokens.
  last = offsets[a_.batch - 1] + static_cast<std::int32_t>(len) + (kind == 2 ? 0 : 1);
  return {name + (kind == 2 ? "" : " + 1"), RAPT_BAD_OFFSETS, Judges::call, kind == 2};
}

AttentionEdges::Verdict AttentionEdges::change_table() {
  if (!o_.block_table) return {};
  const std::size_t b = random_.below(a_.batch);
  const std::size_t pages = (a_.keys(b) + m_.page_size_ - 1) / m_.page_size_;
  const std::size_t padding = a_.start(b) / m_.page_size_;  // pages that nothing reads
  if (a_.start(b) == a_.keys(b)) return {};
  if (random_.one_in(2)) {
    changeable(o_.block_table)[b * m_.table_stride_ + padding + random_.below(pages - padding)] = -1;
    return {"page 0 - 1", RAPT_BAD_BLOCK_TABLE};
  }
  // A block_table_stride of 0 selects the default width, so `pages - 1` must not be 0.
  if (pages == 1 || a_.batch > 1) return {};
  const bool narrow = random_.one_in(2);
  o_.block_table_stride = pages - narrow;
  return {narrow ? "table's width - 1" : "table's width", narrow ? RAPT_BAD_BLOCK_TABLE : RAPT_OK};
}

// Rows of an output must not overlap: the stride of the innermost dimension must be at least a row, and each
// next stride must step over all rows inside it.
AttentionEdges::Verdict AttentionEdges::change_output_strides() {
  struct Output {
    const char *name;
    rapt_strides *strides;
    Extents extents;
    rapt_status bad;
  };
  std::vector<Output> outputs;
  if (stage_ == Stage::backward) {
    outputs = {{"dq", &g_.dq_strides, m_.queries_extents(a_.qk_dim), RAPT_BAD_DQ_STRIDES},
               {"dk", &g_.dk_strides, m_.keys_extents(a_.qk_dim), RAPT_BAD_DK_STRIDES},
               {"dv", &g_.dv_strides, m_.keys_extents(a_.v_dim), RAPT_BAD_DV_STRIDES}};
  } else if (stage_ != Stage::partial) {
    outputs = {{"out", &o_.out_strides, m_.queries_extents(a_.v_dim), RAPT_BAD_OUT_STRIDES}};
    if (o_.lse) outputs.push_back({"lse", &o_.lse_strides, m_.queries_extents(1), RAPT_BAD_LSE_STRIDES});
  }
  if (outputs.empty()) return {};
  const Output &output = outputs[random_.below(outputs.size())];
  const auto first_token = [&](const std::vector<std::int32_t> &offsets) {
    return offsets.empty() ? std::size_t{0} : static_cast<std::size_t>(offsets[0]);
  };
  const bool of_keys = output.name[0] == 'd' && output.name[1] != 'q';
  const Extents &e = output.extents;
  const std::size_t counts[3] = {e.has_batch ? e.batch : 1, e.heads, e.tokens};
  const std::size_t used = e.tokens - first_token(of_keys ? m_.kv_first_ : m_.q_first_);
  if (!e.any() || used == 0) return {};
  std::ptrdiff_t *const strides[3] = {&output.strides->batch, &output.strides->head, &output.strides->token};
  // Draws the order of the dimensions in memory.
  std::size_t order[3] = {0, 1, 2}, step = e.row;
  for (std::size_t i = 3; i > 1; --i) std::swap(order[i - 1], order[random_.below(i)]);
  std::vector<std::size_t> longer;
  for (const std::size_t dim : order) {
    if (counts[dim] <= 1) continue;
    longer.push_back(dim);
    *strides[dim] = static_cast<std::ptrdiff_t>(step);
    step += step * (counts[dim] == e.tokens && dim == 2 ? used - 1 : counts[dim] - 1);
  }
  const bool is_bad = random_.one_in(2);
  if (longer.empty()) return {};
  const std::size_t dim = longer[random_.below(longer.size())];
  if (dim == 2 && used == 1) return {};
  if (is_bad) *strides[dim] -= 1;
  const bool no_batch = !e.has_batch || *strides[0] == 0;
  if (no_batch && *strides[1] == 0 && *strides[2] == 0) return {};  // zeros mean contiguous rows
  return {std::string(output.name) + (is_bad ? " strides - 1" : " strides"), is_bad ? output.bad : RAPT_OK};
}

// A tensor's end must fit in ptrdiff_t. At this limit it overlaps other arrays, which is another error.
AttentionEdges::Verdict AttentionEdges::change_extent() {
  if (!m_.q_first_.empty() || !m_.kv_first_.empty() || !a_.kv_lengths.empty() || !a_.kv_starts.empty() ||
      o_.block_table || o_.key_lists) {
    return {};
  }
  struct Tensor {
    const char *name;
    rapt_strides *strides;
    std::size_t heads, tokens, row, element;
    rapt_status bad = RAPT_BAD_SIZE;
  };
  const std::size_t number = size_of(p_.number()), kv = size_of(p_.kv);
  std::vector<Tensor> tensors;
  const auto query = [&](const char *name, rapt_strides *strides, std::size_t row, std::size_t element,
                         rapt_status bad = RAPT_BAD_SIZE) {
    tensors.push_back({name, strides, a_.q_heads, a_.q_len, row, element, bad});
  };
  const auto key = [&](const char *name, rapt_strides *strides, std::size_t row, std::size_t element,
                       rapt_status bad = RAPT_BAD_SIZE) {
    if (a_.q_len > 0) tensors.push_back({name, strides, a_.kv_heads, a_.kv_len, row, element, bad});
  };
  const bool backward = stage_ == Stage::backward;
  if (stage_ != Stage::merge) {
    query("q", &o_.q_strides, a_.qk_dim, size_of(p_.q));
    if (p_.kv != RAPT_I8 && !m_.packed_) key("k", &o_.k_strides, a_.qk_dim, kv);
    if (p_.kv != RAPT_I8) key("v", &o_.v_strides, a_.v_dim, kv);
    if (o_.bias && !backward && a_.kv_len > 0) query("bias", &o_.bias_strides, a_.kv_len, number);
    if (o_.mask && a_.kv_len > 0) query("mask", &o_.mask_strides, a_.kv_len, 1);
  }
  if (o_.query_scales) query("query_scales", &o_.query_scale_strides, 1, number);
  if (backward) {
    query("dout", &g_.dout_strides, a_.v_dim, size_of(p_.out));
    query("out read", &o_.out_strides, a_.v_dim, size_of(p_.out));
    query("lse read", &o_.lse_strides, 1, number);
    query("dq", &g_.dq_strides, a_.qk_dim, size_of(p_.gradient_of(p_.q)), RAPT_BAD_DQ_STRIDES);
    key("dk", &g_.dk_strides, a_.qk_dim, size_of(p_.gradient_of(p_.kv)), RAPT_BAD_DK_STRIDES);
    key("dv", &g_.dv_strides, a_.v_dim, size_of(p_.gradient_of(p_.kv)), RAPT_BAD_DV_STRIDES);
  } else if (stage_ != Stage::partial) {
    query("out", &o_.out_strides, a_.v_dim, size_of(p_.out), RAPT_BAD_OUT_STRIDES);
    if (o_.lse) query("lse", &o_.lse_strides, 1, number, RAPT_BAD_LSE_STRIDES);
  }
  const Tensor &tensor = tensors[random_.below(tensors.size())];
  const std::size_t counts[3] = {a_.batch, tensor.heads, tensor.tokens};
  if (tensor.tokens == 0) return {};
  std::ptrdiff_t *const strides[3] = {&tensor.strides->batch, &tensor.strides->head, &tensor.strides->token};
  std::vector<std::size_t> longer;
  for (std::size_t dim = 0; dim < 3; ++dim) {
    if (counts[dim] > 1) longer.push_back(dim);
  }
  if (longer.empty()) return {};
  // The other dimensions are contiguous. The stride of dimension `far` reaches the limit.
  const std::size_t far = longer[random_.below(longer.size())];
  std::size_t step = tensor.row;
  for (const std::size_t dim : longer) {
    if (dim == far) continue;
    *strides[dim] = static_cast<std::ptrdiff_t>(step);
    step *= counts[dim];
  }
  const std::size_t most = static_cast<std::size_t>(most_bytes) / tensor.element;
  const Side side = random_.one_of({at, past});
  *strides[far] = static_cast<std::ptrdiff_t>((most - step) / (counts[far] - 1) + (side == past ? 1 : 0));
  return {std::string("extent of ") + tensor.name + name_of(side), tensor.bad, Judges::call, side == at};
}

// Tests the functions that count bytes and tasks. They get options, but no arrays.
std::string AttentionEdges::fault_of_counts(const Verdict &verdict) {
  std::size_t count = 0, length = 0;
  const auto judge = [&](const char *function, rapt_status got, rapt_status expected) {
    if (got == expected) return std::string();
    return std::string(function) + ": " + rapt_status_text(got) + ", not " + rapt_status_text(expected) +
           "; ";
  };
  std::string fault = judge("attention_workspace", rapt_attention_workspace(&o_, &count), verdict.expected);
  fault +=
      judge("attention_backward_workspace", rapt_attention_backward_workspace(&o_, &count), verdict.expected);
  fault += judge("attention_tasks", rapt_attention_tasks(&o_, &count), verdict.expected);
  if (verdict.expected != RAPT_OK || verdict.judges == Judges::statuses) {
    const rapt_status got = rapt_attention_partial_tasks(&o_, &count, &length);
    return fault + judge("attention_partial_tasks", got, verdict.expected);
  }
  // The counts must match the formulas of rapt.h.
  __extension__ using Wide = __int128;
  const std::size_t v_dim = o_.v_dim == 0 ? o_.qk_dim : o_.v_dim,
                    kv_heads = o_.kv_heads == 0 ? o_.q_heads : o_.kv_heads;
  const Wide some = o_.queries_per_list == 0 ? o_.q_len : std::min(o_.queries_per_list, o_.q_len),
             lists = some == 0 ? 0 : (o_.q_len + some - 1) / some,
             tiles = lists * ((some * (o_.q_heads / kv_heads) + 63) / 64),
             blocks = (Wide{o_.kv_len} + 63) / 64, chunks = (Wide{o_.kv_len} + 511) / 512,
             sets = Wide{o_.batch} * kv_heads, tasks = sets * tiles;
  if (count != tasks) fault += "number of tasks; ";
  const Wide numbers = Wide{o_.batch} * o_.q_heads * o_.q_len * chunks * (v_dim + 2);
  const bool fits = numbers * size_of(p_.number()) <= PTRDIFF_MAX;
  fault += judge("attention_partial_tasks", rapt_attention_partial_tasks(&o_, &count, &length),
                 fits ? RAPT_OK : RAPT_BAD_SIZE);
  if (fits && (count != tasks * chunks || length != numbers)) fault += "number of partial tasks; ";
  if (!p_.has_gradient() || o_.block_table || o_.packed_keys || o_.key_lists) return fault;
  const rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
  fault += judge("attention_backward_tasks", rapt_attention_backward_tasks(&o_, &g, &count), RAPT_OK);
  const Wide parts = std::max<Wide>(1, std::min({(63 + sets) / sets, blocks, tiles}));
  if (count != sets * parts) fault += "number of a gradient's tasks; ";
  return fault;
}

std::string AttentionEdges::fault_of_limit(Reached &reached) {
  using Change = Verdict (AttentionEdges::*)();
  constexpr Change changes[] = {&AttentionEdges::change_types,
                                &AttentionEdges::change_gradient_type,
                                &AttentionEdges::change_dim,
                                &AttentionEdges::change_counts,
                                &AttentionEdges::change_shape,
                                &AttentionEdges::change_partials,
                                &AttentionEdges::change_table_stride,
                                &AttentionEdges::change_scale_group,
                                &AttentionEdges::change_scale,
                                &AttentionEdges::change_softcap,
                                &AttentionEdges::change_causal_offset,
                                &AttentionEdges::change_page_size,
                                &AttentionEdges::change_tasks,
                                &AttentionEdges::remove_array,
                                &AttentionEdges::change_workspace_size,
                                &AttentionEdges::change_lengths,
                                &AttentionEdges::change_offsets,
                                &AttentionEdges::change_starts,
                                &AttentionEdges::change_table,
                                &AttentionEdges::change_output_strides,
                                &AttentionEdges::change_extent};
  for (std::size_t draw = 0; draw < 6; ++draw) {
    place_all();
    const auto [o, g, bytes] = std::tuple(o_, g_, workspace_size_);
    const Verdict verdict = (this->*changes[random_.below(std::size(changes))])();
    std::string fault;
    if (!verdict.limit.empty()) {
      reached.see("limit of " + verdict.limit);
      if (verdict.judges != Judges::call) fault = fault_of_counts(verdict);
      if (verdict.judges == Judges::call || verdict.judges == Judges::both) {
        const rapt_status got = run(first_, last_);
        if ((got == verdict.expected) == verdict.is_other) {
          fault += stage_name() + ": " + rapt_status_text(got) +
                   (verdict.is_other ? "" : std::string(", not ") + rapt_status_text(verdict.expected));
        }
      }
    }
    o_ = o;
    g_ = g;
    workspace_size_ = bytes;
    first_ = last_ = 0;
    if (!fault.empty()) return verdict.limit + ": " + fault;
  }
  return "";
}

void AttentionEdges::expect_limits(Reached &reached) {
  constexpr const char *three_sides[] = {
      "qk_dim", "v_dim", "causal offset", "tasks", "workspace", "length", "length of a packed sequence",
      "table"};
  constexpr const char *at_and_past[] = {
      "shape",          "partials",           "large softcap",      "small softcap", "small quotient",
      "large quotient", "kv_offsets",         "q_offsets",          "extent of q",   "extent of k",
      "extent of v",    "extent of bias",     "extent of mask",     "extent of dq",  "extent of query_scales",
      "extent of dout", "extent of out read", "extent of lse read", "extent of dk",  "extent of dv",
      "extent of out",  "extent of lse",      "key's start",        "query's start"};
  constexpr const char *below_and_past[] = {"large scale", "small scale"};
  constexpr const char *below_and_at[] = {"dq strides",  "dk strides", "dv strides",   "out strides",
                                          "lse strides", "length 0",   "table's width"};
  constexpr const char *single[] = {"key's start 0 - 1",
                                    "key's start in a unit",
                                    "query's start 0 - 1",
                                    "kv_offsets below 0",
                                    "kv_offsets decrease",
                                    "q_offsets below 0",
                                    "q_offsets decrease",
                                    "page 0 - 1",
                                    "page size",
                                    "packed page size",
                                    "scale group of both",
                                    "scale group of keys",
                                    "scale group of values",
                                    "scale group of none",
                                    "scale group of numbers",
                                    "another scale group",
                                    "counts",
                                    "types",
                                    "types that go together",
                                    "arithmetic",
                                    "gradient's type",
                                    "negative softcap",
                                    "no q",
                                    "no k",
                                    "no v",
                                    "no partials",
                                    "no out",
                                    "no dq",
                                    "no dk",
                                    "no dv",
                                    "no dout",
                                    "no k_scales",
                                    "no v_scales",
                                    "no workspace"};
  const auto see = [&](const auto &names, std::initializer_list<Side> sides) {
    for (const char *name : names) {
      for (const Side side : sides) reached.see(std::string("limit of ") + name + name_of(side), false);
    }
  };
  see(three_sides, {below, at, past});
  see(at_and_past, {at, past});
  see(below_and_past, {below, past});
  see(below_and_at, {below, at});
  see(single, {at});
}

}  // namespace rapt::test::oracle
