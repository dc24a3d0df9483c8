// The operands of a call in guarded memory, restored for each level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/guarded_slot.hpp"

namespace rapt::test {

// The bytes of an operand, row by row.
struct RowsOfBytes {
  const void *data = nullptr;
  std::ptrdiff_t stride = 0;  // bytes
  std::size_t rows = 0, row_bytes = 0;

  bool empty() const { return data == nullptr || rows == 0 || row_bytes == 0; }
};

// Both have some byte.
bool share_bytes(const RowsOfBytes &a, const RowsOfBytes &b);
// The same with the gaps between the rows.
bool extents_meet(const RowsOfBytes &a, const RowsOfBytes &b);

class FuzzMemory {
 public:
  static constexpr std::size_t operands = 9, capacity = std::size_t{1} << 17;

  FuzzMemory();
  // Memory for operand `index`, `offset` bytes from a guard page.
  unsigned char *place(std::size_t index, std::size_t bytes, Placement placement, std::size_t offset);
  void forget_all();

  // Each level begins with the contents at remember().
  void remember();
  void restore();
  // Every byte outside `output` is as remembered, and the canaries are intact.
  bool unchanged_but(const RowsOfBytes &output) const;

 private:
  struct Operand {
    Operand() : slot(capacity) {}
    GuardedSlot slot;
    unsigned char *data = nullptr;
    std::size_t bytes = 0;
    Placement placement = Placement::ends_at_guard;
    std::size_t offset = 0;
    std::vector<unsigned char> remembered;
  };
  Operand operand_[operands];
};

}  // namespace rapt::test
