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
  const auto rows = static_cast<std::ptrdiff_t>(operand.sizes[2]),
             cols = static_cast<std::ptrdiff_t>(operand.sizes[3]);
  if (rows <= 1) {
    limits.at(operand.stride_name, stride, {0, 1, -5, PTRDIFF_MAX, PTRDIFF_MIN});
    return;
  }
  if (!operand.has_gaps())
    limits.at(operand.stride_name, stride, {operand.has_default_stride ? 0 : cols, cols});
  if (!operand.has_default_stride && cols > 0)
    limits.past(operand.stride_name, stride, operand.bad_stride, {0});
  limits.past(operand.stride_name, stride, operand.bad_stride, {-1, -cols - 1});
  if (operand.may_repeat) {
    limits.at(operand.stride_name, stride, {RAPT_REPEAT});
  } else {
    limits.past(operand.stride_name, stride, operand.bad_stride, {PTRDIFF_MIN});
  }
  if (cols == 0) return;
  if (cols > 1) limits.past(operand.stride_name, stride, operand.bad_stride, {cols - 1});
  const auto farthest =
      (PTRDIFF_MAX / static_cast<std::ptrdiff_t>(size_of(operand.element)) - cols) / (rows - 1);
  limits.past(operand.stride_name, stride, RAPT_BAD_SIZE, {farthest + 1, PTRDIFF_MAX});
}

// Where an output lies beside another array: next to it, which is fine, or with one element in it.
void add_overlaps(Call &call, std::size_t output, std::size_t other, Limits &limits) {
  const Operand &a = call.operands()[output], &b = call.operands()[other];
  const rapt_status overlap = a.role == Role::scratch ? a.bad_overlap : b.bad_overlap;
  if (!call.has_work() || a.is_empty() || b.is_empty()) return;
  const auto step = static_cast<std::ptrdiff_t>(size_of(a.element));
  const auto end = static_cast<std::ptrdiff_t>(b.extent()), room = static_cast<std::ptrdiff_t>(a.extent());
  const auto add = [&](std::ptrdiff_t distance, rapt_status expected) {
    // The status of an output on the workspace names the workspace.
    const char *const field = expected != RAPT_OK && b.role == Role::scratch ? b.name : a.name;
    limits.add({field, only(expected), [=, &call] { call.place_near(output, other, distance); }});
  };
  const std::ptrdiff_t behind = (end + step - 1) / step * step;
  add(behind, RAPT_OK);
  add(-room, RAPT_OK);
  // The same element may be allowed. The first row of memory and the last may be none of the call's.
  if ((behind == step && room == step) || a.rows || b.rows) return;
  add(behind - step, overlap);
  add(step - room, overlap);
}

}  // namespace

std::vector<Limit> Call::limits() {
  Limits all;
  add_limits(all);
  all.are_of(Where::options);
  if (needs_options()) all.add({"options", only(RAPT_BAD_OPTIONS), [this] { leave_out_options(); }});
  all.are_of(Where::call);
  if (!has_status()) return all.take();
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].role == Role::aside) continue;
    add_pointer(*this, operands_[i], all);
    if (operands_[i].stride_fields[2] && operands_[i].bad_stride != RAPT_OK)
      add_row_stride(operands_[i], all);
    for (std::size_t j = 0; j < operands_.size() && operands_[i].is_written(); ++j) {
      if (j != i && operands_[j].role != Role::aside) add_overlaps(*this, i, j, all);
    }
  }
  return all.take();
}

}  // namespace rapt::test
