// Implements rapt_expert_lists. It checks its arguments before it writes anything.
#include <cstddef>
#include <cstdint>

#include "api/matrix.hpp"
#include "rapt/rapt.h"

namespace rapt {
namespace {

rapt_status expert_lists(const std::int32_t *ids, std::ptrdiff_t ids_stride, std::size_t tokens,
                         std::size_t slots, std::size_t experts, std::size_t *offsets,
                         std::size_t *token_rows, std::size_t *entry_rows) {
  constexpr std::size_t most = PTRDIFF_MAX / sizeof(std::size_t);
  if (experts == 0 || slots == 0) return RAPT_BAD_SHAPE;
  if (experts >= most || tokens > most / slots) return RAPT_BAD_SIZE;
  const Matrix from{ids, ids_stride == 0 ? static_cast<std::ptrdiff_t>(slots) : ids_stride, tokens, slots,
                    sizeof *ids};
  if (!from.stride_fits()) return RAPT_BAD_IDS_STRIDE;
  std::size_t bytes;
  if (!from.extent(bytes)) return RAPT_BAD_SIZE;
  if (!offsets) return RAPT_BAD_EXPERT_OFFSETS;
  if (!ids && tokens > 0) return RAPT_BAD_IDS;
  const std::size_t entries = tokens * slots;
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
      for (std::size_t slot = 0; slot < slots; ++slot) f(token, slot);
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
  // end. So the lists need no memory besides.
  for (std::size_t e = 0, end = 0; e <= experts; ++e) offsets[e] = end += offsets[e];
  for (std::size_t entry = entries; entry-- > 0;) {
    const std::size_t token = entry / slots, row = --offsets[expert_of(token, entry % slots)];
    if (token_rows) token_rows[row] = token;
    if (entry_rows) entry_rows[row] = entry;
  }
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

rapt_status rapt_expert_lists(const int32_t *ids, ptrdiff_t ids_stride, size_t tokens, size_t slots,
                              size_t experts, size_t *offsets, size_t *token_rows, size_t *entry_rows) {
  return rapt::expert_lists(ids, ids_stride, tokens, slots, experts, offsets, token_rows, entry_rows);
}
