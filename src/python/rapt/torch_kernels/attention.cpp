// scaled_dot_product_attention, and the attention that PyTorch makes of it.
#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>

#include <algorithm>
#include <cstdlib>
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

rapt_strides strides_of(const Tensor &x) { return {x.stride(0), x.stride(1), x.stride(2)}; }

constexpr bool is_hidden(bool mask) { return !mask; }

template <class Number>
constexpr bool is_hidden(Number mask) {
  return mask == -std::numeric_limits<Number>::infinity();
}

// Queries of one sequence in a row, and the keys that they see.
struct Run {
  std::int64_t sequence, query, queries;
  std::int64_t start, end;
};

// Reads a mask of the type Number.
template <class Number>
class Visibility {
 public:
  explicit Visibility(const Tensor &mask) : mask_(mask), data_(mask.const_data_ptr<Number>()) {}

  // The first key that some head of a query sees, or the number of keys.
  std::int64_t first(std::int64_t sequence, std::int64_t query) const {
    std::int64_t first = mask_.size(3);
    for (std::int64_t head = 0; head < mask_.size(1); ++head) {
      const Number *const row = row_of(sequence, head, query);
      first = std::find_if(row, row + first, [](Number mask) { return !is_hidden(mask); }) - row;
    }
    return first;
  }

  // Past the last one.
  std::int64_t end(std::int64_t sequence, std::int64_t query) const {
    std::int64_t end = 0;
    for (std::int64_t head = 0; head < mask_.size(1); ++head) {
      const Number *const row = row_of(sequence, head, query);
      std::int64_t key = mask_.size(3);
      while (key > end && is_hidden(row[key - 1])) --key;
      end = std::max(end, key);
    }
    return end;
  }

 private:
  const Number *row_of(std::int64_t sequence, std::int64_t head, std::int64_t query) const {
    return data_ + (mask_.size(0) == 1 ? 0 : sequence) * mask_.stride(0) + head * mask_.stride(1) +
           (mask_.size(2) == 1 ? 0 : query) * mask_.stride(2);
  }

  const Tensor &mask_;
  const Number *data_;
};

// rapt sums keys in chunks of so many. Chunks begin at the first key that a query sees. So neither left padding nor
// keys that a window has left behind change a result, whether the tensors have them or not.
constexpr std::int64_t chunk = 512;

// One run for each sequence where its queries share the chunks; else several, of the queries that do.
template <class Number>
std::vector<Run> runs_of(const Tensor &mask, std::int64_t batch, std::int64_t q_len) {
  const Visibility<Number> visibility(mask);
  const std::int64_t kv_len = mask.size(3);
  std::vector<Run> runs;
  bool is_split = false;
  for (std::int64_t b = 0; b < batch; ++b) {
    if (b > 0 && mask.size(0) == 1) {  // all sequences have the mask of the first
      const std::size_t count = runs.size() / static_cast<std::size_t>(b);
      for (std::size_t i = 0; i < count; ++i) {
        runs.push_back(runs[i]);
        runs.back().sequence = b;
      }
      continue;
    }
    runs.push_back({b, 0, 0, kv_len, kv_len});
    for (std::int64_t i = 0; i < q_len; ++i) {
      const std::int64_t first = i > 0 && mask.size(2) == 1 ? kv_len : visibility.first(b, i);
      if (first < kv_len) {  // a query without keys goes with any
        if (runs.back().start == kv_len) runs.back().start = first;
        if (std::abs(first - runs.back().start) % chunk != 0) {
          runs.push_back({b, i, 0, first, kv_len});
          is_split = true;
        }
        runs.back().start = std::min(runs.back().start, first);
      }
      ++runs.back().queries;
    }
    if (runs.back().start == kv_len) runs.back().start = 0;
  }
  if (is_split) {
    for (Run &run : runs) {
      std::int64_t end = run.start + 1;
      for (std::int64_t i = 0; i < run.queries; ++i)
        end = std::max(end, visibility.end(run.sequence, run.query + i));
      run.end = end;
    }
  }
  return runs;
}

std::vector<Run> runs_of(const Tensor &mask, std::int64_t batch, std::int64_t q_len) {
  switch (mask.scalar_type()) {
    case at::kBool:
      return runs_of<bool>(mask, batch, q_len);
    case at::kDouble:
      return runs_of<double>(mask, batch, q_len);
    default:
      return runs_of<float>(mask, batch, q_len);
  }
}

// The arguments of rapt_attention().
struct Call {
  const char *q, *k, *v, *mask;
  char *out, *lse;
  rapt_attention_options options;
};

Call call_of(const Tensor &query, const Tensor &key, const Tensor &value, bool is_causal, const Tensor *mask,
             std::optional<double> scale, const Tensor &out, const Tensor *lse) {
  const auto read = [](const Tensor &x) { return static_cast<const char *>(x.const_data_ptr()); };
  const auto write = [](const Tensor &x) { return static_cast<char *>(x.mutable_data_ptr()); };
  Call call{read(query),
            read(key),
            read(value),
            mask ? read(*mask) : nullptr,
            write(out),
            lse ? write(*lse) : nullptr,
            RAPT_ATTENTION_OPTIONS_INIT};
  rapt_attention_options &options = call.options;
  options.q_type = type_of(query);
  options.batch = query.size(0);
  options.q_heads = query.size(1);
  options.kv_heads = key.size(1);
  options.q_len = query.size(2);
  options.kv_len = key.size(2);
  options.qk_dim = query.size(3);
  options.v_dim = value.size(3);
  options.q_strides = strides_of(query);
  options.k_strides = strides_of(key);
  options.v_strides = strides_of(value);
  options.out_strides = strides_of(out);
  options.scale = scale.value_or(0);
  options.causal = is_causal ? RAPT_CAUSAL_TOP_LEFT : 0;
  if (lse) options.lse_strides = strides_of(*lse);
  if (mask) {
    const rapt_strides strides{repeated(*mask, 0, query.size(0)), repeated(*mask, 1, query.size(1)),
                               repeated(*mask, 2, query.size(2))};
    (mask->scalar_type() == at::kBool ? options.mask_strides : options.bias_strides) = strides;
  }
  return call;
}

void run(const Call &call, const rapt_pool &pool) {
  rapt_attention_options options = call.options;
  options.lse = call.lse;
  if (options.mask_strides.batch != 0) {
    options.mask = reinterpret_cast<const std::uint8_t *>(call.mask);
  } else {
    options.bias = call.mask;
  }
  const auto compute = [&] {
    if (pool.threads > 1) {
      check(rapt_parallel_attention(call.q, call.k, call.v, call.out, &options, &pool));
    } else {
      std::size_t bytes = 0;
      check(rapt_attention_workspace(&options, &bytes));
      check(rapt_attention(call.q, call.k, call.v, call.out, &options, workspace(bytes), bytes));
    }
  };
  if (options.q_type == RAPT_BF16 && call.lse) {
    // The log-sum-exp of products in bf16 is too coarse for gradients. Results are the same with it and without.
    options.arithmetic = RAPT_ARITHMETIC_F32;
    compute();
    options.arithmetic = RAPT_ARITHMETIC_DEFAULT;
    options.lse = nullptr;
    options.lse_strides = {};
  }
  compute();
}

// Where the first element is of a run's queries, or with `of_keys` of its keys.
std::ptrdiff_t place_of(const Tensor &x, const Run &run, bool of_keys) {
  const std::ptrdiff_t token = of_keys ? run.start : x.size(2) == 1 ? 0 : run.query;
  const std::ptrdiff_t place = (x.size(0) == 1 ? 0 : run.sequence * x.stride(0)) + token * x.stride(2);
  return place * static_cast<std::ptrdiff_t>(x.element_size());
}

// Into out, and the log-sum-exp into `lse` if there is one.
void attend(const Tensor &query, const Tensor &key, const Tensor &value, bool is_causal, const Tensor *mask,
            std::optional<double> scale, const Tensor &out, const Tensor *lse) {
  const std::int64_t batch = query.size(0);
  Call whole = call_of(query, key, value, is_causal, mask, scale, out, lse);
  const rapt_pool pool = pool_for(double(query.numel()) / double(query.size(3)) * double(key.size(2)) *
                                  double(query.size(3) + value.size(3)));
  const std::vector<Run> runs = mask ? runs_of(*mask, batch, query.size(2)) : std::vector<Run>();
  const std::int64_t count = static_cast<std::int64_t>(runs.size());
  if (count <= batch) {
    std::vector<std::int32_t> starts;
    for (const Run &one : runs) starts.push_back(static_cast<std::int32_t>(one.start));
    if (std::any_of(starts.begin(), starts.end(), [](std::int32_t start) { return start > 0; }))
      whole.options.kv_starts = starts.data();
    run(whole, pool);
    return;
  }
  in_parallel(count, pool.threads > 1 ? 1 : count, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const Run &one = runs[i];
      Call call = whole;
      call.q += place_of(query, one, false);
      call.k += place_of(key, one, true);
      call.v += place_of(value, one, true);
      call.out += place_of(out, one, false);
      call.mask +=
          place_of(*mask, one, false) + one.start * static_cast<std::ptrdiff_t>(mask->element_size());
      if (lse) call.lse += place_of(*lse, one, false);
      call.options.batch = 1;
      call.options.q_len = one.queries;
      call.options.kv_len = one.end - one.start;
      run(call, {nullptr, nullptr, 1});
    }
  });
}

Attended flash_attention(const Tensor &query, const Tensor &key, const Tensor &value, double dropout_p,
                         bool is_causal, const Mask &mask, std::optional<double> scale) {
  static Counter counter("_scaled_dot_product_flash_attention_for_cpu");
  const Tensor *const given = mask && mask->defined() ? &*mask : nullptr;
  if (dropout_p == 0 && are_operands(query, key, value) && value.size(3) == query.size(3) &&
      (!scale || *scale != 0) && (!given || (!is_causal && is_mask(*given, query, key)))) {
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

// Compilers call operators with tensors whose sizes are symbols.
bool has_sizes(const Tensor &x) { return !x.unsafeGetTensorImpl()->has_symbolic_sizes_strides(); }

// PyTorch's gradients are those of the attention that it makes of the call.
Tensor attention_above(const Tensor &query, const Tensor &key, const Tensor &value, const Mask &mask,
                       double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  if (are_operators_watched() || needs_parts(query) || needs_parts(key) || needs_parts(value) ||
      needs_parts(mask)) {
    const Tensor *const given = mask && mask->defined() ? &*mask : nullptr;
    if (has_sizes(query) && has_sizes(key) && has_sizes(value) && (!given || has_sizes(*given)) &&
        !needs_parts(mask) && value.size(-1) == query.size(-1) &&
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

void add_attention_above(torch::Library &library) {
  library.impl("scaled_dot_product_attention", TORCH_FN(attention_above));
}

}  // namespace rapt_torch
