// The operands of a call in guarded memory, put back as they were for each level.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/guarded_slot.hpp"

namespace rapt::test {

// Rows of bytes: what an operand covers.
struct RowsOfBytes {
  const void *data = nullptr;
  std::ptrdiff_t stride = 0;  // bytes
  std::size_t rows = 0, row_bytes = 0;

  bool empty() const { return data == nullptr || rows == 0 || row_bytes == 0; }
};

// Some byte belongs to both.
bool share_bytes(const RowsOfBytes &a, const RowsOfBytes &b);
// What lies between the first and the last byte of each meets, gaps between the rows included.
bool extents_meet(const RowsOfBytes &a, const RowsOfBytes &b);

class FuzzMemory {
 public:
  static constexpr std::size_t operands = 8, capacity = std::size_t{1} << 17;

  FuzzMemory();
  // Memory for operand `index` of this input, flush at a guard page but for `offset`.
  unsigned char *place(std::size_t index, std::size_t bytes, Placement placement, std::size_t offset);
  void forget_all();

  // What place() and the harness have put there so far is what each level begins with.
  void remember();
  void restore();
  // Every byte outside `output`, and outside the operands, holds what it held; with no output, every byte.
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
