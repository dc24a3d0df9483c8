// Implements rapt_expert_lists and rapt_expert_sum. Each checks its arguments before it writes anything.
#include <cstddef>
#include <cstdint>

#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/matrix.hpp"
#include "api/read_options.hpp"
#include "call/element.hpp"
#include "dispatch/dispatch.hpp"
#include "rapt/rapt.h"

namespace rapt {
namespace {

rapt_status expert_lists(const std::int32_t *ids, std::ptrdiff_t ids_stride, std::size_t tokens,
                         std::size_t top_k, std::size_t experts, std::size_t *offsets,
                         std::size_t *token_rows, std::size_t *entry_rows) {
  constexpr std::size_t most = PTRDIFF_MAX / sizeof(std::size_t);
  if (experts == 0 || top_k == 0) return RAPT_BAD_SHAPE;
  if (experts >= most || tokens > most / top_k) return RAPT_BAD_SIZE;
  const Matrix from{ids, ids_stride == 0 ? static_cast<std::ptrdiff_t>(top_k) : ids_stride, tokens, top_k,
                    sizeof *ids};
  if (!from.stride_fits()) return RAPT_BAD_IDS_STRIDE;
  std::size_t bytes;
  if (!from.extent(bytes)) return RAPT_BAD_SIZE;
  if (!offsets) return RAPT_BAD_EXPERT_OFFSETS;
  if (!ids && tokens > 0) return RAPT_BAD_IDS;
  const std::size_t entries = tokens * top_k;
  const auto array = [](const std::size_t *data, std::size_t count) {
    return Matrix{data, 0, data ? std::size_t{1} : 0, count, sizeof *data};
  };
  const Matrix arrays[] = {from, array(offsets, experts + 1), array(token_rows, entries),
                           array(entry_rows, entries)};
  for (const Matrix &a : arrays) {
    for (const Matrix *b = arrays; b != &a; ++b) {
      if (overlap(a, *b) != Overlap::none) return RAPT_BAD_OVERLAP;
    }
  }
  const auto expert_of = [&](std::size_t token, std::size_t slot) {
    return static_cast<std::size_t>(
        ids[from.used_stride() * static_cast<std::ptrdiff_t>(token) + static_cast<std::ptrdiff_t>(slot)]);
  };
  const auto for_each_entry = [&](auto f) {
    for (std::size_t token = 0; token < tokens; ++token) {
      for (std::size_t slot = 0; slot < top_k; ++slot) f(token, slot);
    }
  };
  bool are_experts = true;  // a negative number is a large one
  for_each_entry([&](std::size_t token, std::size_t slot) {
    are_experts = are_experts && expert_of(token, slot) < experts;
  });
  if (!are_experts) return RAPT_BAD_IDS;
  for (std::size_t e = 0; e <= experts; ++e) offsets[e] = 0;
  for_each_entry([&](std::size_t token, std::size_t slot) { ++offsets[expert_of(token, slot)]; });
  // Each offset first becomes the end of its expert's rows, and goes back by one with each row that is filled from the
  // end. So the lists need no other memory.
  for (std::size_t e = 0, end = 0; e <= experts; ++e) offsets[e] = end += offsets[e];
  for (std::size_t entry = entries; entry-- > 0;) {
    const std::size_t token = entry / top_k, row = --offsets[expert_of(token, entry % top_k)];
    if (token_rows) token_rows[row] = token;
    if (entry_rows) entry_rows[row] = entry;
  }
  return RAPT_OK;
}

template <class E>
void run_sum(const Matrix &x, const Matrix &weights, const Matrix &add, void *y, std::ptrdiff_t y_stride) {
  using A = Arithmetic<E>;
  const auto kernel = kernels().of<E>().expert_sum;
  const std::size_t top_k = weights.cols;
  for (std::ptrdiff_t token = 0; token < static_cast<std::ptrdiff_t>(weights.rows); ++token) {
    const auto *const of_weights = static_cast<const A *>(weights.data);
    const auto *const of_add = static_cast<const E *>(add.data);
    kernel(static_cast<const E *>(x.data) + token * static_cast<std::ptrdiff_t>(top_k) * x.used_stride(),
           x.used_stride(), top_k, of_weights ? of_weights + token * weights.used_stride() : nullptr,
           of_add ? of_add + token * add.used_stride() : nullptr, static_cast<E *>(y) + token * y_stride,
           x.cols);
  }
}

rapt_status expert_sum(const void *x, void *y, const rapt_expert_sum_options *given) {
  rapt_expert_sum_options o = RAPT_EXPERT_SUM_OPTIONS_INIT;
  if (!given) return RAPT_BAD_OPTIONS;
  const rapt_status status = read_options(given, o);
  if (status != RAPT_OK) return status;
  if (resolve_float_type(o.type) != RAPT_OK) return RAPT_BAD_TYPE;
  if (o.top_k == 0) return RAPT_BAD_SHAPE;
  if (!o.add && o.add_stride != 0) return RAPT_BAD_ADD;
  if (!o.weights && o.weights_stride != 0) return RAPT_BAD_WEIGHTS_STRIDE;
  std::size_t entries;
  if (__builtin_mul_overflow(o.tokens, o.top_k, &entries) || o.top_k > std::size_t{PTRDIFF_MAX})
    return RAPT_BAD_SIZE;
  for (std::ptrdiff_t *const stride : {&o.x_stride, &o.y_stride, &o.add_stride}) {
    if (*stride == 0 && entries > 1 && o.cols > std::size_t{PTRDIFF_MAX}) return RAPT_BAD_SIZE;
    if (*stride == 0) *stride = static_cast<std::ptrdiff_t>(o.cols);
  }
  if (o.weights_stride == 0) o.weights_stride = static_cast<std::ptrdiff_t>(o.top_k);
  const std::size_t size = size_of(o.type);
  const Matrix rows{x, o.x_stride, entries, o.cols, size}, result{y, o.y_stride, o.tokens, o.cols, size},
      weights{o.weights, o.weights_stride, o.tokens, o.top_k, number_size(o.type)},
      add{o.add, o.add_stride, o.tokens, o.cols, size};
  if (!rows.stride_fits()) return RAPT_BAD_X_STRIDE;
  if (!result.stride_fits()) return RAPT_BAD_Y_STRIDE;
  if (!weights.stride_fits()) return RAPT_BAD_WEIGHTS_STRIDE;
  if (!add.stride_fits()) return RAPT_BAD_ADD;
  std::size_t bytes;
  for (const Matrix &matrix : {rows, result, weights, add}) {
    if (!matrix.extent(bytes)) return RAPT_BAD_SIZE;
  }
  if (o.tokens == 0 || o.cols == 0) return RAPT_OK;
  if (!x) return RAPT_BAD_X;
  if (!y) return RAPT_BAD_Y;
  const bool meets_others = overlap(rows, result) != Overlap::none ||
                            (weights.data && overlap(weights, result) != Overlap::none) ||
                            (add.data && overlap(add, result) == Overlap::partial);
  if (meets_others) return RAPT_BAD_OVERLAP;
  with_any_element(o.type, [&](auto element) {
    run_sum<typename decltype(element)::type>(rows, weights, add, y, result.used_stride());
  });
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

rapt_status rapt_expert_sum(const void *x, void *y, const rapt_expert_sum_options *options) {
  return rapt::in_default_mode([&] { return rapt::expert_sum(x, y, options); });
}

rapt_status rapt_expert_lists(const int32_t *ids, ptrdiff_t ids_stride, size_t tokens, size_t top_k,
                              size_t experts, size_t *offsets, size_t *token_rows, size_t *entry_rows) {
  return rapt::expert_lists(ids, ids_stride, tokens, top_k, experts, offsets, token_rows, entry_rows);
}
