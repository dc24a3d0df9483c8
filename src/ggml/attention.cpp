// FLASH_ATTN_EXT: attention over the keys of a cache, or over those of the batch.
//
//   q [dim, queries, heads, batch]   k, v [dim, keys, kv_heads, batch]   dst [v_dim, heads, queries, batch]
#include <limits>
#include <rapt/parallel.hpp>

#include "ggml/buffer.hpp"
#include "ggml/ops.hpp"
#include "ggml/sight.hpp"

namespace rapt_ggml {

namespace {

// One call of rapt's attention.
struct Call {
  const void *q, *k, *v;
  void *out;
  rapt_attention_options options;
};

// Where the keys of an attention op come from: a view of a tensor in memory, or a copy of such a view.
struct Keys {
  Tensor view = nullptr;  // null: the graph computes them
  Tensor cache() const { return view ? root_of(view) : nullptr; }
};
Keys keys_of(Tensor op) {
  Tensor t = op->src[1];
  for (;;) {
    const Tensor root = root_of(t);
    if (root->op == GGML_OP_NONE) return {t};
    const bool is_copy = root->op == GGML_OP_CPY || root->op == GGML_OP_CONT || root->op == GGML_OP_DUP;
    if (!is_copy || root->src[0] == nullptr || !same_shape(root, root->src[0]) || !same_shape(root, t))
      return {};
    if (root->nb[1] != t->nb[1] || root->nb[2] != t->nb[2] || root->nb[3] != t->nb[3]) return {};
    t = root->src[0];
  }
}

// The rows of a cache that the keys are. Without numbers the cache is null, and the sentence says so.
Cells cells_of(Tensor op) {
  const Keys keys = keys_of(op);
  const Tensor cache = keys.cache();
  if (!cache) return {};
  BufferNumbers *const numbers = numbers_around(cache);
  const std::size_t step = cache->nb[1];
  if (!numbers || step == 0 || keys.view->nb[1] != step || keys.view->nb[3] % step != 0) {
    not_our_bits(
        "the cache is not in RAPT's memory, and its keys are taken in the order of cells: leave --no-kv-offload out");
    return {};
  }
  const std::size_t offset = static_cast<std::size_t>(bytes_of(keys.view) - bytes_of(cache));
  CacheNumbers &rows = numbers->at(cache->data, row_count(cache), step);
  if (rows.take_unknown_origin()) {
    not_our_bits("a state was saved by another process: its keys are numbered in the order of the file");
  }
  const std::size_t sequence_step = extent(op->src[0], 3) > 1 ? keys.view->nb[3] / step : 0;
  const std::size_t last =
      offset / step + (extent(op->src[0], 3) - 1) * sequence_step + extent(op->src[1], 1);
  if (last > rows.row_count()) throw Failure("keys end behind their cache");
  return {&rows, offset / step, sequence_step};
}

// A mask that holds more than 0 and -inf, or is multiplied by slopes: numbers for each head or for all.
const float *bias_of(Engine &engine, Tensor op, std::size_t b, const Group &group, std::size_t planes,
                     std::span<const float> slopes) {
  const Tensor mask = op->src[3];
  const std::size_t rows = group.queries.size(), slots = group.slots;
  const std::span<float> bias = engine.op_memory.take<float>(planes * rows * slots);
  engine.split(planes * rows, planes * rows * slots, [&](std::size_t first, std::size_t last) {
    std::vector<float> numbers(extent(mask, 0));
    for (std::size_t i = first; i < last; ++i) {
      mask_row(mask, b, i / rows, group.queries[i % rows], numbers.data());
      for (std::size_t slot = 0; slot < slots; ++slot) {
        const std::int32_t cell = group.cells.empty() ? static_cast<std::int32_t>(slot) : group.cells[slot];
        bias[i * slots + slot] = cell == Group::no_cell
                                     ? -std::numeric_limits<float>::infinity()
                                     : slopes[i / rows] * numbers[static_cast<std::size_t>(cell)];
      }
    }
  });
  return bias.data();
}

// Passes a mask that holds more than 0 and -inf as it is. The queries of the group are those of its rows.
void set_mask(rapt_attention_options &o, Tensor op, std::size_t b, const Group &group,
              std::span<const float> slopes) {
  const Tensor mask = op->src[3];
  o.bias = bytes_of(mask) + b % extent(mask, 3) * mask->nb[3] + group.queries.front() * mask->nb[1];
  o.bias_type = float_type(mask->type).value();
  o.bias_strides = {RAPT_REPEAT, mask->ne[2] > 1 ? stride(mask, 2) : RAPT_REPEAT, stride(mask, 1)};
  if (float_param(op, 1) != 0) o.bias_slopes = slopes.data();
}

void copy_queries(Engine &engine, const Group &group, std::size_t heads, std::size_t dim, std::byte *from,
                  std::size_t head_bytes, std::size_t query_bytes, float *dense, bool back) {
  const std::size_t rows = group.queries.size(), bytes = dim * sizeof(float);
  engine.each(heads * rows, heads * rows * dim, [&](std::size_t i) {
    std::byte *const there = from + i / rows * head_bytes + group.queries[i % rows] * query_bytes;
    if (back) {
      std::memcpy(there, dense + i * dim, bytes);
    } else {
      std::memcpy(dense + i * dim, there, bytes);
    }
  });
}

void run_calls(Engine &engine, std::span<const Call> calls) {
  const std::span<rapt::AttentionWork> work = engine.op_memory.take<rapt::AttentionWork>(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    work[i] = {calls[i].q, calls[i].k, calls[i].v, calls[i].out, &calls[i].options};
  }
  must(rapt::parallel_attention(work, engine.threads(), engine.parts(), engine.memory()));
}

// What rapt calls the type of keys or values.
rapt_type type_of_rows(Tensor t) {
  const std::optional<rapt_type> of_floats = float_type(t->type);
  return of_floats ? *of_floats : blocks_of(t->type).value().type;
}

// The strides of keys or values of one sequence. Those of blocks are in bytes.
rapt_strides strides_of_rows(Tensor t) {
  if (is_float(t)) return {0, stride(t, 2), stride(t, 1)};
  return {0, static_cast<std::ptrdiff_t>(t->nb[2]), static_cast<std::ptrdiff_t>(t->nb[1])};
}

rapt_attention_options options_of(Tensor op) {
  const Tensor q = op->src[0], k = op->src[1], v = op->src[2];
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_type = options.out_type = RAPT_F32;
  options.kv_type = type_of_rows(k), options.v_type = type_of_rows(v);
  options.k_strides = strides_of_rows(k), options.v_strides = strides_of_rows(v);
  options.arithmetic = RAPT_ARITHMETIC_F32;
  options.q_heads = extent(q, 2), options.kv_heads = extent(k, 2);
  options.qk_dim = extent(q, 0), options.v_dim = extent(v, 0);
  options.scale = float_param(op, 0), options.softcap = float_param(op, 2);
  if (op->src[4]) options.sinks = op->src[4]->data;
  return options;
}

// Which keys the queries of a group see.
void set_visibility(rapt_attention_options &options, const Group &group) {
  if (group.causal) {
    options.causal = RAPT_CAUSAL_OFFSET;
    options.causal_offset = group.causal_offset;
    options.window_left = group.window;
  } else {
    options.mask = group.visible.data();
    options.mask_strides = {RAPT_REPEAT, RAPT_REPEAT, static_cast<std::ptrdiff_t>(group.slots)};
  }
}

}  // namespace

bool supports_attention(Tensor op) {
  const Tensor q = op->src[0], k = op->src[1], v = op->src[2], mask = op->src[3], sinks = op->src[4];
  if (op->type != GGML_TYPE_F32 || q->type != GGML_TYPE_F32 || !can_decode(k->type) || !can_decode(v->type))
    return false;
  for (const Tensor t : {q, k, v}) {
    if (!has_dense_rows(t) || (is_float(t) && !has_whole_strides(t))) return false;
  }
  if (!is_contiguous(op) || k->ne[2] != v->ne[2] || k->ne[1] != v->ne[1] || q->ne[2] % k->ne[2] != 0)
    return false;
  if (q->ne[3] != k->ne[3] || q->ne[3] != v->ne[3]) return false;
  if (sinks && (sinks->type != GGML_TYPE_F32 || !is_contiguous(sinks))) return false;
  if (!mask) return float_param(op, 1) == 0;
  return is_type(mask, {GGML_TYPE_F16, GGML_TYPE_F32}) && has_dense_rows(mask) && mask->ne[0] == k->ne[1] &&
         mask->ne[1] >= q->ne[1];
}

void attention(Graph &graph, Tensor op) {
  const Tensor q = op->src[0], k = op->src[1], v = op->src[2], mask = op->src[3];
  Engine &engine = graph.engine;
  const std::size_t batch = extent(q, 3), queries = extent(q, 1), heads = extent(q, 2);
  const bool mask_of_heads = mask && mask->ne[2] > 1;

  // Without a mask, or with one for each head, all queries are one group in place.
  std::shared_ptr<const Sight> sight;
  Group all;
  if (!mask || mask_of_heads) {
    for (std::size_t i = 0; i < queries; ++i) all.queries.push_back(static_cast<std::uint32_t>(i));
    all.slots = extent(k, 1);
  } else {
    sight = sight_of(graph, op, cells_of(op));
  }
  const bool is_bias =
      mask && (float_param(op, 1) != 0 || !mask_of(graph, mask)->only_excludes || mask_of_heads);
  const std::vector<float> slopes = is_bias ? slopes_of(float_param(op, 1), heads) : std::vector<float>();
  const std::size_t planes = float_param(op, 1) != 0 ? heads : mask ? extent(mask, 2) : 1;

  struct Scattered {
    const Group *group;
    std::size_t b;
    float *out;
  };
  std::vector<Call> calls;
  std::vector<Scattered> scattered;
  for (std::size_t b = 0; b < batch; ++b) {
    const std::span<const Group> groups =
        sight ? std::span<const Group>(sight->sequences[b]) : std::span<const Group>(&all, 1);
    for (const Group &group : groups) {
      Call call = {nullptr, nullptr, nullptr, nullptr, options_of(op)};
      rapt_attention_options &o = call.options;
      const std::ptrdiff_t rows = static_cast<std::ptrdiff_t>(group.queries.size());
      if (group.is_run()) {
        const std::size_t first = group.queries.front();
        call.q = bytes_of(q) + b * q->nb[3] + first * q->nb[1];
        call.out = bytes_of(op) + b * op->nb[3] + first * op->nb[2];
        o.q_strides = {0, stride(q, 2), stride(q, 1)};
        o.out_strides = {0, stride(op, 1), stride(op, 2)};
      } else {
        float *const dense = engine.op_memory.take<float>(heads * group.queries.size() * o.qk_dim).data();
        copy_queries(engine, group, heads, o.qk_dim, bytes_of(q) + b * q->nb[3], q->nb[2], q->nb[1], dense,
                     false);
        call.q = dense;
        scattered.push_back(
            {&group, b, engine.op_memory.take<float>(heads * group.queries.size() * o.v_dim).data()});
        call.out = scattered.back().out;
        o.q_strides = {0, rows * static_cast<std::ptrdiff_t>(o.qk_dim),
                       static_cast<std::ptrdiff_t>(o.qk_dim)};
        o.out_strides = {0, rows * static_cast<std::ptrdiff_t>(o.v_dim),
                         static_cast<std::ptrdiff_t>(o.v_dim)};
      }
      o.q_len = group.queries.size(), o.kv_len = group.slots;
      const bool is_mask_of_all = mask && (mask->ne[2] == 1 || extent(mask, 2) == heads);
      if (is_bias && is_mask_of_all && group.cells.empty() && group.is_run()) {
        set_mask(o, op, b, group, slopes);
      } else if (is_bias) {
        o.bias = bias_of(engine, op, b, group, planes, slopes);
        const std::ptrdiff_t slots = static_cast<std::ptrdiff_t>(group.slots);
        o.bias_strides = {RAPT_REPEAT, RAPT_REPEAT, slots};
        if (planes > 1) o.bias_strides.head = rows * slots;
        if (planes > 1 && planes < heads) throw Failure("a mask for some of the heads");
      } else if (mask) {
        set_visibility(o, group);
      }
      if (!group.cells.empty()) {
        static_assert(Group::no_cell == -1);  // a key without a cell, as rapt's lists have it
        o.key_lists = group.cells.data();
        o.key_list_strides = {RAPT_REPEAT, RAPT_REPEAT, RAPT_REPEAT};
        o.cache_len = extent(k, 1);
      }
      call.k = bytes_of(k) + b * k->nb[3];
      call.v = bytes_of(v) + b * v->nb[3];
      calls.push_back(call);
    }
  }
  run_calls(engine, calls);
  for (const Scattered &s : scattered) {
    copy_queries(engine, *s.group, heads, extent(v, 0), bytes_of(op) + s.b * op->nb[3], op->nb[1], op->nb[2],
                 s.out, true);
  }
}

// SOFT_MAX: rows of scores, with ggml's mask and sinks. It is attention without -fa, whose sums count cells.
bool supports_soft_max(Tensor op) {
  const Tensor x = op->src[0], mask = op->src[1], sinks = op->src[2];
  if (x->type != GGML_TYPE_F32 || op->type != GGML_TYPE_F32 || !has_dense_rows(x) || !has_dense_rows(op))
    return false;
  if (!has_whole_strides(x) || !has_whole_strides(op)) return false;
  if (sinks && (sinks->type != GGML_TYPE_F32 || !is_contiguous(sinks))) return false;
  return !mask || (is_type(mask, {GGML_TYPE_F16, GGML_TYPE_F32}) && has_dense_rows(mask));
}

void soft_max(Graph &graph, Tensor op) {
  const Tensor x = op->src[0], mask = op->src[1], sinks = op->src[2];
  const std::size_t cols = extent(x, 0), heads = extent(x, 2);
  if (mask && !mask->view_src && (mask->flags & GGML_TENSOR_FLAG_INPUT)) {
    not_our_bits("attention without -fa on counts keys by cell: other cells, other bits");
  }
  const float max_bias = float_param(op, 1);
  const std::vector<float> slopes = slopes_of(max_bias, heads);
  graph.engine.split(row_count(x), 4 * element_count(x), [&](std::size_t first, std::size_t last) {
    std::vector<float> bias(mask ? cols : 0);
    for (std::size_t r = first; r < last; ++r) {
      const auto [query, head, b] = place_of_row(x, r);
      rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
      options.scale = float_param(op, 0);
      if (mask) {
        mask_row(mask, b, head, query, bias.data());
        if (max_bias != 0) {
          for (float &number : bias) number *= slopes[head];
        }
        options.bias = bias.data();
      }
      if (sinks) options.sinks = elements_of<float>(bytes_of(sinks)) + head;
      const std::ptrdiff_t step = static_cast<std::ptrdiff_t>(cols);
      must(rapt_softmax_f32(elements_of<float>(row_of(x, r)), step, elements_of<float>(row_of(op, r)), step,
                            1, cols, &options));
    }
  });
}

}  // namespace rapt_ggml
