#include "calls/limits.hpp"

#include <algorithm>
#include <cstdint>

#include "calls/call.hpp"

namespace rapt::test {
namespace {

// A null pointer, where the call needs the array.
void add_pointer(const Call &call, const Operand &operand, Limits &limits) {
  if (operand.missing == RAPT_OK || !call.has_work()) return;
  limits.add({operand.name, only(operand.missing), [&operand] {
                const void *const null = nullptr;
                std::memcpy(operand.pointer, &null, sizeof null);
              }});
}

// The strides of a matrix: rows must not meet, and must fit the address space. That of a single row is not read.
void add_row_stride(const Operand &operand, Limits &limits) {
  std::ptrdiff_t &stride = *operand.stride_fields[2];
  const auto rows = static_cast<std::ptrdiff_t>(operand.sizes[2]), cols = static_cast<std::ptrdiff_t>(operand.sizes[3]);
  if (rows <= 1) {
    limits.at(operand.stride_name, stride, {0, 1, -5, PTRDIFF_MAX, PTRDIFF_MIN});
    return;
  }
  if (!operand.has_gaps()) limits.at(operand.stride_name, stride, {0, cols});
  limits.past(operand.stride_name, stride, operand.bad_stride, {-1, -cols - 1, PTRDIFF_MIN});
  if (cols == 0) return;
  if (cols > 1) limits.past(operand.stride_name, stride, operand.bad_stride, {cols - 1});
  const auto farthest = (PTRDIFF_MAX / static_cast<std::ptrdiff_t>(size_of(operand.element)) - cols) / (rows - 1);
  limits.past(operand.stride_name, stride, RAPT_BAD_SIZE, {farthest + 1, PTRDIFF_MAX});
}

// Where an output lies beside another array: next to it, which is fine, or with one element in it.
void add_overlaps(Call &call, std::size_t output, std::size_t other, Limits &limits) {
  const Operand &a = call.operands()[output], &b = call.operands()[other];
  if (!call.has_work()) return;
  const auto step = static_cast<std::ptrdiff_t>(size_of(a.element));
  const auto end = static_cast<std::ptrdiff_t>(b.extent()), room = static_cast<std::ptrdiff_t>(a.extent());
  const auto add = [&](std::ptrdiff_t distance, rapt_status expected) {
    limits.add({a.name, only(expected), [=, &call] { call.place_near(output, other, distance); }});
  };
  const std::ptrdiff_t behind = (end + step - 1) / step * step;
  add(behind, RAPT_OK);
  add(-room, RAPT_OK);
  if (behind != step || room != step) {  // else they would be the same element
    add(behind - step, RAPT_BAD_OVERLAP);
    add(step - room, RAPT_BAD_OVERLAP);
  }
}

}  // namespace

std::vector<Limit> Call::limits() {
  Limits all;
  add_limits(all);
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    add_pointer(*this, operands_[i], all);
    if (operands_[i].stride_fields[2] && operands_[i].bad_stride != RAPT_OK) add_row_stride(operands_[i], all);
    for (std::size_t j = 0; j < operands_.size() && operands_[i].role != Role::input; ++j) {
      if (j != i) add_overlaps(*this, i, j, all);
    }
  }
  return all.take();
}

}  // namespace rapt::test
