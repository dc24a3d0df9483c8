// Applies the rule for strides of tensors. If all strides are 0, the tensor is contiguous. RAPT_REPEAT
// repeats a dimension. A stride of 0 among other strides is an error for every dimension longer than 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rapt/rapt.h"

namespace rapt {

// Dims are the dimensions [batch][heads][tokens] of rows of `row` elements. Packed sequences have no batch
// stride, and packed keys have no token stride.
struct Dims {
  std::size_t batch, heads, tokens, row;
  bool has_batch = true, has_tokens = true;
};

inline bool all_zero(const rapt_strides &s) { return s.batch == 0 && s.head == 0 && s.token == 0; }

enum class MayRepeat { no, yes };

// Turns `s` into strides for kernels: 0 for a dimension that repeats or has only one index. Returns `bad` for
// a missing or negative stride, and RAPT_BAD_SIZE for a contiguous tensor larger than memory.
inline rapt_status resolve_strides(rapt_strides &s, const Dims &dims, MayRepeat may_repeat, rapt_status bad) {
  struct Dim {
    std::ptrdiff_t &stride;
    std::size_t count;
  };
  if (dims.batch == 0 || dims.heads == 0 || dims.tokens == 0 || dims.row == 0) {
    s = {0, 0, 0};
    return RAPT_OK;
  }
  Dim outward[] = {{s.token, dims.tokens}, {s.head, dims.heads}, {s.batch, dims.batch}};
  if (!dims.has_batch) s.batch = 0;
  if (!dims.has_tokens) s.token = 0;
  const bool is_contiguous = all_zero(s);
  std::size_t contiguous = dims.row;
  for (Dim &dim : outward) {
    if (is_contiguous) {
      if (contiguous > std::size_t{PTRDIFF_MAX}) return RAPT_BAD_SIZE;
      dim.stride = static_cast<std::ptrdiff_t>(contiguous);
      if (__builtin_mul_overflow(contiguous, dim.count, &contiguous)) return RAPT_BAD_SIZE;
    } else if (dim.stride == RAPT_REPEAT && may_repeat == MayRepeat::yes) {
      dim.stride = 0;
    } else if (dim.count > 1 && dim.stride <= 0) {
      return bad;
    }
    if (dim.count == 1) dim.stride = 0;
  }
  return RAPT_OK;
}

}  // namespace rapt
