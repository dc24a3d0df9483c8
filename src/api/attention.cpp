// Implements rapt_attention and its stages. Each call checks its arguments before it writes anything.
#include "api/attention_arrays.hpp"
#include "api/attention_run.hpp"
#include "call/attention_tile.hpp"
#include "call/packed_keys.hpp"

namespace rapt {
namespace {

struct Counts {
  std::size_t tasks = 0, partials = 0;  // partials counts elements

  // Counts tasks and partial results. Returns false if the partial results are larger than memory.
  bool count(const AttentionCall &call) {
    const rapt_attention_options &o = call.options;
    tasks = call.tiles();
    if (call.stage == AttentionStage::whole) return true;
    std::size_t bytes;
    if (__builtin_mul_overflow(o.batch * o.q_heads * o.q_len, call.chunks(), &partials) ||
        __builtin_mul_overflow(partials, o.v_dim + 2, &partials) ||
        __builtin_mul_overflow(partials, number_size(o.q_type), &bytes) || bytes > std::size_t{PTRDIFF_MAX}) {
      return false;
    }
    // There are no more tiles than rows, so the product of tiles and chunks fits as well.
    if (call.stage == AttentionStage::partial) tasks *= call.chunks();
    return true;
  }
};

rapt_status check_arrays(AttentionCall &call, std::size_t partials_bytes, Strided workspace) {
  Arrays arrays(call);
  const rapt_attention_options &o = call.options;
  rapt_status status = arrays.resolve_common();
  if (status != RAPT_OK) return status;
  Arrays::Inputs in = arrays.inputs();
  Strided partials(call.partials, partials_bytes, 1);
  if (!in.measure() || !partials.measure() || !workspace.measure()) return RAPT_BAD_SIZE;
  if (call.stage == AttentionStage::partial) {
    status = arrays.check_overlap(in, partials);
    return status == RAPT_OK ? arrays.check_workspace(in, workspace, {&partials}) : status;
  }
  Strided out = arrays.of_queries(call.out, o.out_strides, o.v_dim, size_of(o.out_type)), lse = arrays.lse();
  status = arrays.check_output(in, out, RAPT_BAD_OUT_STRIDES, true);
  if (status == RAPT_OK) status = arrays.check_output(in, lse, RAPT_BAD_LSE_STRIDES);
  if (status != RAPT_OK) return status;
  if (lse.overlaps(out) || out.overlaps(partials) || lse.overlaps(partials)) return RAPT_BAD_OVERLAP;
  return arrays.check_workspace(in, workspace, {&out, &lse, &partials});
}

rapt_status check_pointers(const AttentionCall &call) {
  const rapt_attention_options &o = call.options;
  if (o.q_len == 0) return RAPT_OK;
  const bool any_keys = o.kv_len > 0;
  if (call.stage != AttentionStage::merge) {
    if (!call.q) return RAPT_BAD_Q;
    if (any_keys && !call.k) return RAPT_BAD_K;
    if (any_keys && !call.v) return RAPT_BAD_V;
    const bool lack_scales = (has_scales(o.kv_type) && !o.k_scales) || (has_scales(o.v_type) && !o.v_scales);
    if (any_keys && lack_scales) return RAPT_BAD_KV_SCALES;
  }
  if (call.stage != AttentionStage::whole && any_keys && !call.partials) return RAPT_BAD_PARTIALS;
  if (call.stage != AttentionStage::partial && !call.out) return RAPT_BAD_OUT;
  return RAPT_OK;
}

// Checks the lengths of all lists that some query has.
rapt_status check_list_lengths(const AttentionCall &call) {
  const rapt_attention_options &o = call.options;
  if (!o.key_list_lengths) return RAPT_OK;
  const rapt_strides &s = o.key_list_length_strides;
  for (std::size_t b = 0; b < o.batch; ++b) {
    const std::size_t queries =
        o.q_offsets ? static_cast<std::size_t>(o.q_offsets[b + 1] - o.q_offsets[b]) : o.q_len;
    for (std::size_t h = 0; h < o.kv_heads; ++h) {
      for (std::size_t l = 0; l * call.queries_per_list() < queries; ++l) {
        const std::int32_t length = o.key_list_lengths[at(s.batch, b) + at(s.head, h) + at(s.token, l)];
        if (length < 0 || static_cast<std::size_t>(length) > o.kv_len) return RAPT_BAD_KEY_LIST_LENGTHS;
      }
    }
  }
  return RAPT_OK;
}

// Returns whether the entries of lists that the tasks read are all -1 or tokens of the cache. A list of several tiles
// is checked once.
bool are_lists_of_tokens(const AttentionCall &call, const Tasks &tasks) {
  if (!call.options.key_lists || call.stage == AttentionStage::merge || call.tiles() == 0) return true;
  const std::size_t tiles_per_list = call.tiles_per_list();
  for (std::size_t task = tasks.first; task < tasks.last; ++task) {
    if (task != tasks.first && task % tiles_per_list != 0) continue;
    const AttentionTile tile(call, task % call.tiles());
    const std::size_t first =
        call.stage == AttentionStage::partial ? task / call.tiles() * attention_chunk : 0;
    const std::size_t count = call.stage == AttentionStage::partial ? attention_chunk : tile.kv_len();
    if (tile.rows() > 0 && !tile.lists_only_tokens(first, first + count)) return false;
  }
  return true;
}

struct Run {
  AttentionCall call;
  const rapt_attention_options *options;
  Tasks tasks;
  Workspace workspace;

  rapt_status operator()() {
    const rapt_attention_options &o = call.options;
    rapt_status status = resolve(options, call.options);
    if (status == RAPT_OK) status = check_pointers(call);
    if (status == RAPT_OK) status = check_lengths(o);
    if (status == RAPT_OK) status = check_starts(o);
    if (status == RAPT_OK) status = check_pages(o);
    if (status == RAPT_OK) status = check_list_lengths(call);
    if (status != RAPT_OK) return status;
    Counts counts;
    if (!counts.count(call)) return RAPT_BAD_SIZE;
    if (!tasks.fit(counts.tasks)) return RAPT_BAD_TASKS;
    const std::size_t bytes = workspace_bytes(forward_workspace_length, o);
    if (!workspace.holds(bytes)) return RAPT_BAD_WORKSPACE;
    if (o.q_len == 0) return RAPT_OK;
    status = check_arrays(call, counts.partials * number_size(o.q_type), workspace.memory(bytes));
    if (status != RAPT_OK || tasks.first == tasks.last) return status;
    if (!are_lists_of_tokens(call, tasks)) return RAPT_BAD_KEY_LISTS;
    if (dequantizes(o)) count_strides_in_bytes(call.options);
    run_tasks(call, tasks, workspace);
    return RAPT_OK;
  }
};

rapt_status count_tasks(AttentionStage stage, const rapt_attention_options *options, size_t *tasks,
                        size_t *partials_length) {
  return in_default_mode([&] {
    AttentionCall call{.stage = stage};
    const rapt_status status = resolve(options, call.options);
    if (status != RAPT_OK) return status;
    Counts counts;
    if (!counts.count(call)) return RAPT_BAD_SIZE;
    if (!tasks && !partials_length) return RAPT_BAD_OUT;
    if (tasks) *tasks = counts.tasks;
    if (partials_length) *partials_length = counts.partials;
    return RAPT_OK;
  });
}

rapt_status check_and_pack_keys(const void *k, std::ptrdiff_t token_stride, std::size_t first,
                                std::size_t tokens, const rapt_attention_options *options, void *packed) {
  rapt_attention_options o;
  const rapt_status bad_options = resolve(options, o);
  if (bad_options != RAPT_OK) return bad_options;
  if (dequantizes(o)) return RAPT_BAD_PACKED_KEYS;
  if (tokens == 0) return RAPT_OK;
  if (!k) return RAPT_BAD_K;
  if (!packed) return RAPT_BAD_OUT;
  const std::size_t size = size_of(o.kv_type);
  std::size_t end, elements, bytes;
  if (__builtin_add_overflow(first, tokens, &end) || __builtin_add_overflow(end, attention_block - 1, &end) ||
      __builtin_mul_overflow(end / attention_block * attention_block, o.qk_dim, &elements) ||
      __builtin_mul_overflow(elements, size, &bytes) || bytes > std::size_t{PTRDIFF_MAX}) {
    return RAPT_BAD_SIZE;
  }
  const Dims dims{1, 1, tokens, o.qk_dim};
  rapt_strides strides{0, 0, token_stride};
  const rapt_status bad_stride = resolve_strides(strides, dims, MayRepeat::yes, RAPT_BAD_K_STRIDES);
  if (bad_stride != RAPT_OK) return bad_stride;
  Strided keys(k, strides, Reach::of_all(1, tokens), 1, o.qk_dim, o.qk_dim, size);
  if (!keys.measure()) return RAPT_BAD_SIZE;
  if (keys.overlaps(packed, bytes)) return RAPT_BAD_OVERLAP;
  const auto pack = [&]<class E>(const E *keys, E *to) {
    pack_keys(keys, strides.token, first, tokens, o.qk_dim, to);
  };
  switch (size) {  // elements are only moved, so only their size matters
    case 1:
      pack(static_cast<const std::int8_t *>(k), static_cast<std::int8_t *>(packed));
      break;
    case 2:
      pack(static_cast<const std::uint16_t *>(k), static_cast<std::uint16_t *>(packed));
      break;
    case 8:
      pack(static_cast<const double *>(k), static_cast<double *>(packed));
      break;
    default:
      pack(static_cast<const float *>(k), static_cast<float *>(packed));
  }
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_attention_workspace(const rapt_attention_options *options, size_t *bytes) {
  return workspace_bytes_of(forward_workspace_length, options, bytes);
}

rapt_status rapt_attention_tasks(const rapt_attention_options *options, size_t *tasks) {
  return count_tasks(AttentionStage::whole, options, tasks, nullptr);
}

rapt_status rapt_attention_partial_tasks(const rapt_attention_options *options, size_t *tasks,
                                         size_t *partials_length) {
  return count_tasks(AttentionStage::partial, options, tasks, partials_length);
}

rapt_status rapt_attention(const void *q, const void *k, const void *v, void *out,
                           const rapt_attention_options *options, void *workspace, size_t workspace_size) {
  return in_default_mode(
      Run{{.q = q, .k = k, .v = v, .out = out}, options, all_tasks, {workspace, workspace_size}});
}

rapt_status rapt_attention_run(const void *q, const void *k, const void *v, void *out,
                               const rapt_attention_options *options, size_t first, size_t last,
                               void *workspace, size_t workspace_size) {
  return in_default_mode(
      Run{{.q = q, .k = k, .v = v, .out = out}, options, {first, last}, {workspace, workspace_size}});
}

rapt_status rapt_attention_partial(const void *q, const void *k, const void *v, void *partials,
                                   const rapt_attention_options *options, size_t first, size_t last,
                                   void *workspace, size_t workspace_size) {
  return in_default_mode(Run{{.q = q, .k = k, .v = v, .partials = partials, .stage = AttentionStage::partial},
                             options,
                             {first, last},
                             {workspace, workspace_size}});
}

// The merge's kernel only reads partials, so casting the const away is safe.
rapt_status rapt_attention_merge(const void *partials, void *out, const rapt_attention_options *options,
                                 size_t first, size_t last, void *workspace, size_t workspace_size) {
  return in_default_mode(
      Run{{.out = out, .partials = const_cast<void *>(partials), .stage = AttentionStage::merge},
          options,
          {first, last},
          {workspace, workspace_size}});
}

rapt_status rapt_attention_pack_keys(const void *k, ptrdiff_t token_stride, size_t first, size_t tokens,
                                     const rapt_attention_options *options, void *packed) {
  return in_default_mode(
      [&] { return check_and_pack_keys(k, token_stride, first, tokens, options, packed); });
}
