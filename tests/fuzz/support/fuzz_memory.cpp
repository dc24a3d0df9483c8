#include "fuzz/support/fuzz_memory.hpp"

#include <cstring>

namespace rapt::test {
namespace {

std::uintptr_t first_of(const RowsOfBytes &rows, std::size_t r) {
  return reinterpret_cast<std::uintptr_t>(rows.data) + r * static_cast<std::size_t>(rows.stride);
}

bool contains(const RowsOfBytes &rows, const unsigned char *byte) {
  const auto address = reinterpret_cast<std::uintptr_t>(byte);
  for (std::size_t r = 0; !rows.empty() && r < rows.rows; ++r) {
    if (address - first_of(rows, r) < rows.row_bytes) return true;
  }
  return false;
}

}  // namespace

bool share_bytes(const RowsOfBytes &a, const RowsOfBytes &b) {
  if (a.empty() || b.empty()) return false;
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.rows; ++j) {
      const std::uintptr_t first = first_of(a, i), second = first_of(b, j);
      if (first < second + b.row_bytes && second < first + a.row_bytes) return true;
    }
  }
  return false;
}

bool extents_meet(const RowsOfBytes &a, const RowsOfBytes &b) {
  if (a.empty() || b.empty()) return false;
  const std::uintptr_t a_end = first_of(a, a.rows - 1) + a.row_bytes;
  const std::uintptr_t b_end = first_of(b, b.rows - 1) + b.row_bytes;
  return first_of(a, 0) < b_end && first_of(b, 0) < a_end;
}

FuzzMemory::FuzzMemory() = default;

unsigned char *FuzzMemory::place(std::size_t index, std::size_t bytes, Placement placement,
                                 std::size_t offset) {
  Operand &operand = operand_[index];
  operand.bytes = bytes;
  operand.placement = placement;
  operand.offset = offset;
  operand.data = operand.slot.place(bytes, placement, offset);
  return operand.data;
}

void FuzzMemory::forget_all() {
  for (Operand &operand : operand_) operand.data = nullptr;
}

void FuzzMemory::remember() {
  for (Operand &operand : operand_) {
    if (operand.data) operand.remembered.assign(operand.data, operand.data + operand.bytes);
  }
}

void FuzzMemory::restore() {
  for (Operand &operand : operand_) {
    if (!operand.data) continue;
    operand.slot.place(operand.bytes, operand.placement, operand.offset);
    if (operand.bytes != 0) std::memcpy(operand.data, operand.remembered.data(), operand.bytes);
  }
}

bool FuzzMemory::unchanged_but(const RowsOfBytes &output) const {
  for (const Operand &operand : operand_) {
    if (!operand.data) continue;
    if (!operand.slot.surroundings_intact()) return false;
    for (std::size_t i = 0; i < operand.bytes; ++i) {
      if (operand.data[i] != operand.remembered[i] && !contains(output, operand.data + i)) return false;
    }
  }
  return true;
}

}  // namespace rapt::test
