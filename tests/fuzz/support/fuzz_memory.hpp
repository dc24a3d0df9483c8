// Holds the operands of a call in guarded memory, and restores them before each level's call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/guarded_slot.hpp"

namespace rapt::test {

// Describes the bytes of an operand's rows.
struct RowsOfBytes {
  const void *data = nullptr;
  std::ptrdiff_t stride = 0;  // in bytes
  std::size_t rows = 0, row_bytes = 0;

  bool empty() const { return data == nullptr || rows == 0 || row_bytes == 0; }
};

// Returns whether a byte belongs to rows of both operands.
bool share_bytes(const RowsOfBytes &a, const RowsOfBytes &b);
// Like share_bytes(), but the gaps between rows belong to the operands too.
bool extents_meet(const RowsOfBytes &a, const RowsOfBytes &b);

class FuzzMemory {
 public:
  static constexpr std::size_t operands = 11, capacity = std::size_t{1} << 17;

  FuzzMemory();
  // Returns memory for operand `index`, `offset` bytes from a guard page.
  unsigned char *place(std::size_t index, std::size_t bytes, Placement placement, std::size_t offset);
  void forget_all();

  // Each level begins with the contents that remember() has saved.
  void remember();
  void restore();
  // Returns whether every byte outside `output` is as remembered, and all canary bytes are intact.
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
