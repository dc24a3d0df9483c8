// Attention, to which PyTorch brings scaled_dot_product_attention.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <limits>
#include <tuple>
#include <vector>

#include "kernels.hpp"

namespace rapt_torch {
namespace {

using Mask = std::optional<Tensor>;
using Attended = std::tuple<Tensor, Tensor>;

bool is_operand(const Tensor &x, const Tensor &query) {
  return x.dim() == 4 && x.scalar_type() == query.scalar_type() && has_elements(x) && has_strides(x) &&
         x.stride(3) == 1;
}

// Whether the arrays of scores have the mask's type, and its strides are those of rapt.
bool is_bias(const Tensor &mask, const Tensor &query, const Tensor &key) {
  const at::ScalarType type = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return mask.dim() == 4 && mask.scalar_type() == type && mask.stride(3) == 1 &&
         mask.size(3) == key.size(2) && (mask.size(0) == 1 || mask.size(0) == query.size(0)) &&
         (mask.size(1) == 1 || mask.size(1) == query.size(1)) && mask.size(2) == query.size(2) &&
         mask.stride(0) >= 0 && mask.stride(1) >= 0 && mask.stride(2) >= 0;
}

ptrdiff_t repeated(const Tensor &mask, std::int64_t dim, std::int64_t length) {
  return length > 1 && (mask.size(dim) == 1 || mask.stride(dim) == 0) ? RAPT_REPEAT
         : mask.stride(dim) > 0                                       ? mask.stride(dim)
                                                                      : 1;
}

template <class Number>
bool all_hidden(const Tensor &mask, std::int64_t sequence, std::int64_t key) {
  const Number *data = mask.const_data_ptr<Number>() + sequence * mask.stride(0) + key * mask.stride(3);
  for (std::int64_t head = 0; head < mask.size(1); ++head) {
    for (std::int64_t query = 0; query < mask.size(2); ++query) {
      if (data[head * mask.stride(1) + query * mask.stride(2)] != -std::numeric_limits<Number>::infinity())
        return false;
    }
  }
  return true;
}

// The first key of each sequence that some query sees: left padding. Empty: no sequence has any.
template <class Number>
std::vector<std::int32_t> first_keys(const Tensor &mask, std::int64_t batch) {
  std::vector<std::int32_t> starts(batch, 0);
  bool is_padded = false;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t sequence = mask.size(0) == 1 ? 0 : b;
    std::int64_t key = 0;
    while (key < mask.size(3) && all_hidden<Number>(mask, sequence, key)) ++key;
    starts[b] = static_cast<std::int32_t>(key == mask.size(3) ? 0 : key);
    is_padded = is_padded || key > 0;
  }
  if (!is_padded) starts.clear();
  return starts;
}

rapt_strides strides_of(const Tensor &x) { return {x.stride(0), x.stride(1), x.stride(2)}; }

Attended attend(const Tensor &query, const Tensor &key, const Tensor &value, double dropout_p, bool is_causal,
                const Mask &mask, std::optional<double> scale) {
  static Counter counter("_scaled_dot_product_flash_attention_for_cpu");
  const bool has_mask = mask && mask->defined();
  if (dropout_p == 0 && is_operand(query, query) && is_operand(key, query) && is_operand(value, query) &&
      key.size(0) == query.size(0) && value.size(0) == query.size(0) && key.size(3) == query.size(3) &&
      key.size(1) == value.size(1) && key.size(2) == value.size(2) && query.size(1) % key.size(1) == 0 &&
      value.size(3) == query.size(3) && (!scale || *scale != 0) &&
      (!has_mask || is_bias(*mask, query, key))) {
    counter.add();
    const std::int64_t batch = query.size(0), heads = query.size(1), q_len = query.size(2);
    Tensor out = at::empty_like(query);
    const bool is_double = query.scalar_type() == at::kDouble;
    Tensor lse = at::empty({batch, q_len, heads}, query.options().dtype(is_double ? at::kDouble : at::kFloat))
                     .transpose(1, 2);
    rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
    options.q_type = type_of(query);
    // The log-sum-exp of products in bf16 is too coarse for gradients.
    if (options.q_type == RAPT_BF16) options.arithmetic = RAPT_ARITHMETIC_F32;
    options.batch = batch;
    options.q_heads = heads;
    options.kv_heads = key.size(1);
    options.q_len = q_len;
    options.kv_len = key.size(2);
    options.qk_dim = query.size(3);
    options.v_dim = value.size(3);
    options.q_strides = strides_of(query);
    options.k_strides = strides_of(key);
    options.v_strides = strides_of(value);
    options.out_strides = strides_of(out);
    options.scale = scale.value_or(0);
    options.causal = is_causal ? RAPT_CAUSAL_TOP_LEFT : 0;
    options.lse = lse.mutable_data_ptr();
    options.lse_strides = strides_of(lse);
    std::vector<std::int32_t> starts;
    if (has_mask) {
      options.bias = mask->const_data_ptr();
      options.bias_strides = {repeated(*mask, 0, batch), repeated(*mask, 1, heads),
                              repeated(*mask, 2, q_len)};
      starts = is_double ? first_keys<double>(*mask, batch) : first_keys<float>(*mask, batch);
      if (!starts.empty()) options.kv_starts = starts.data();
    }
    const rapt_pool pool = pool_for(2.0 * double(query.numel()) * double(key.size(2)));
    const void *q = query.const_data_ptr(), *k = key.const_data_ptr(), *v = value.const_data_ptr();
    if (pool.threads > 1) {
      check(rapt_parallel_attention(q, k, v, out.mutable_data_ptr(), &options, &pool));
    } else {
      std::size_t bytes = 0;
      check(rapt_attention_workspace(&options, &bytes));
      check(rapt_attention(q, k, v, out.mutable_data_ptr(), &options, workspace(bytes), bytes));
    }
    return {out, lse};
  }
  static const InPython<Attended(const Tensor &, const Tensor &, const Tensor &, double, bool, const Mask &,
                                 std::optional<double>)>
      in_python("_scaled_dot_product_flash_attention_for_cpu");
  return in_python(query, key, value, dropout_p, is_causal, mask, scale);
}

}  // namespace

void add_attention(torch::Library &library) {
  library.impl("_scaled_dot_product_flash_attention_for_cpu", TORCH_FN(attend));
}

}  // namespace rapt_torch
