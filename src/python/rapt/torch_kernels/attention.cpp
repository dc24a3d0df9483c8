// scaled_dot_product_attention, and the attention that PyTorch makes of it.
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>

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

bool are_operands(const Tensor &query, const Tensor &key, const Tensor &value) {
  return is_operand(query, query) && is_operand(key, query) && is_operand(value, query) &&
         key.size(0) == query.size(0) && value.size(0) == query.size(0) && key.size(3) == query.size(3) &&
         key.size(1) == value.size(1) && key.size(2) == value.size(2) && query.size(1) % key.size(1) == 0;
}

// Whether rapt takes the mask as it is: booleans, or numbers of the type that scores have.
bool is_mask(const Tensor &mask, const Tensor &query, const Tensor &key) {
  const at::ScalarType type = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto is_repeatable = [&](std::int64_t dim) {
    return (mask.size(dim) == 1 || mask.size(dim) == query.size(dim)) && mask.stride(dim) >= 0;
  };
  return mask.dim() == 4 && (mask.scalar_type() == type || mask.scalar_type() == at::kBool) &&
         mask.stride(3) == 1 && mask.size(3) == key.size(2) && is_repeatable(0) && is_repeatable(1) &&
         is_repeatable(2);
}

ptrdiff_t repeated(const Tensor &mask, std::int64_t dim, std::int64_t length) {
  return length > 1 && (mask.size(dim) == 1 || mask.stride(dim) == 0) ? RAPT_REPEAT
         : mask.stride(dim) > 0                                       ? mask.stride(dim)
                                                                      : 1;
}

constexpr bool is_hidden(bool mask) { return !mask; }

template <class Number>
constexpr bool is_hidden(Number mask) {
  return mask == -std::numeric_limits<Number>::infinity();
}

template <class Number>
bool all_hidden(const Tensor &mask, std::int64_t sequence, std::int64_t key) {
  const Number *data = mask.const_data_ptr<Number>() + sequence * mask.stride(0) + key * mask.stride(3);
  for (std::int64_t head = 0; head < mask.size(1); ++head) {
    for (std::int64_t query = 0; query < mask.size(2); ++query) {
      if (!is_hidden(data[head * mask.stride(1) + query * mask.stride(2)])) return false;
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

std::vector<std::int32_t> first_keys(const Tensor &mask, std::int64_t batch) {
  switch (mask.scalar_type()) {
    case at::kBool:
      return first_keys<bool>(mask, batch);
    case at::kDouble:
      return first_keys<double>(mask, batch);
    default:
      return first_keys<float>(mask, batch);
  }
}

// Into out, and the log-sum-exp into `lse` if there is one.
void attend(const Tensor &query, const Tensor &key, const Tensor &value, bool is_causal, const Tensor *mask,
            std::optional<double> scale, const Tensor &out, const Tensor *lse) {
  const std::int64_t batch = query.size(0), heads = query.size(1), q_len = query.size(2);
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_type = type_of(query);
  // The log-sum-exp of products in bf16 is too coarse for gradients, and results are the same with gradients and without.
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
  if (lse) {
    options.lse = lse->mutable_data_ptr();
    options.lse_strides = strides_of(*lse);
  }
  std::vector<std::int32_t> starts;
  if (mask) {
    const rapt_strides strides{repeated(*mask, 0, batch), repeated(*mask, 1, heads),
                               repeated(*mask, 2, q_len)};
    if (mask->scalar_type() == at::kBool) {
      options.mask = static_cast<const std::uint8_t *>(mask->const_data_ptr());
      options.mask_strides = strides;
    } else {
      options.bias = mask->const_data_ptr();
      options.bias_strides = strides;
    }
    starts = first_keys(*mask, batch);
    if (!starts.empty()) options.kv_starts = starts.data();
  }
  const rapt_pool pool = pool_for(double(query.numel()) / double(query.size(3)) * double(key.size(2)) *
                                  double(query.size(3) + value.size(3)));
  const void *q = query.const_data_ptr(), *k = key.const_data_ptr(), *v = value.const_data_ptr();
  if (pool.threads > 1) {
    check(rapt_parallel_attention(q, k, v, out.mutable_data_ptr(), &options, &pool));
  } else {
    std::size_t bytes = 0;
    check(rapt_attention_workspace(&options, &bytes));
    check(rapt_attention(q, k, v, out.mutable_data_ptr(), &options, workspace(bytes), bytes));
  }
}

Attended flash_attention(const Tensor &query, const Tensor &key, const Tensor &value, double dropout_p,
                         bool is_causal, const Mask &mask, std::optional<double> scale) {
  static Counter counter("_scaled_dot_product_flash_attention_for_cpu");
  const Tensor *const given = mask && mask->defined() ? &*mask : nullptr;
  if (dropout_p == 0 && are_operands(query, key, value) && value.size(3) == query.size(3) &&
      (!scale || *scale != 0) && (!given || is_mask(*given, query, key))) {
    counter.add();
    Tensor out = at::empty_like(query);
    const at::ScalarType type = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    Tensor lse =
        at::empty({query.size(0), query.size(2), query.size(1)}, query.options().dtype(type)).transpose(1, 2);
    attend(query, key, value, is_causal, given, scale, out, &lse);
    return {out, lse};
  }
  static const InPython<Attended(const Tensor &, const Tensor &, const Tensor &, double, bool, const Mask &,
                                 std::optional<double>)>
      in_python("_scaled_dot_product_flash_attention_for_cpu");
  return in_python(query, key, value, dropout_p, is_causal, mask, scale);
}

using OfAttention = Tensor(const Tensor &, const Tensor &, const Tensor &, const Mask &, double, bool,
                           std::optional<double>, bool);

// Whether PyTorch would make one attention of it, but for the mask's type and its own rules of lengths.
bool is_one_attention(const Tensor &query, const Tensor &key, const Tensor &value, const Tensor *mask,
                      double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  return dropout_p == 0 && at::globalContext().userEnabledFlashSDP() && are_operands(query, key, value) &&
         (enable_gqa || query.size(1) == key.size(1)) && (!scale || *scale != 0) &&
         (!mask || (!is_causal && is_mask(*mask, query, key)));
}

Tensor attention(const Tensor &query, const Tensor &key, const Tensor &value, const Mask &mask,
                 double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  static Counter counter("scaled_dot_product_attention");
  const Tensor *const given = mask && mask->defined() ? &*mask : nullptr;
  if (is_one_attention(query, key, value, given, dropout_p, is_causal, scale, enable_gqa)) {
    counter.add();
    Tensor out =
        value.size(3) == query.size(3)
            ? at::empty_like(query)
            : at::empty({query.size(0), query.size(1), query.size(2), value.size(3)}, query.options());
    attend(query, key, value, is_causal, given, scale, out, nullptr);
    return out;
  }
  static const InPython<OfAttention> in_python("scaled_dot_product_attention");
  return in_python(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa);
}

// PyTorch's gradients are those of the attention that it makes of the call.
Tensor attention_with_history(const Tensor &query, const Tensor &key, const Tensor &value, const Mask &mask,
                              double dropout_p, bool is_causal, std::optional<double> scale,
                              bool enable_gqa) {
  if (has_history(query) || has_history(key) || has_history(value) || has_history(mask)) {
    const Tensor *const given = mask && mask->defined() ? &*mask : nullptr;
    if (!has_history(mask) && value.size(-1) == query.size(-1) &&
        is_one_attention(query, key, value, given, dropout_p, is_causal, scale, enable_gqa))
      return at::native::scaled_dot_product_attention(query, key, value, mask, dropout_p, is_causal, scale,
                                                      enable_gqa);
    static const InPython<OfAttention> in_python("scaled_dot_product_attention");
    return in_python(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa);
  }
  static const BelowAutograd<OfAttention> below("scaled_dot_product_attention");
  return below(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa);
}

}  // namespace

void add_attention(torch::Library &library) {
  library.impl("_scaled_dot_product_flash_attention_for_cpu", TORCH_FN(flash_attention));
  library.impl("scaled_dot_product_attention", TORCH_FN(attention));
}

void add_attention_with_history(torch::Library &library) {
  library.impl("scaled_dot_product_attention", TORCH_FN(attention_with_history));
}

}  // namespace rapt_torch
