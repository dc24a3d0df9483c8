// Describes scans that a kernel does in one go: along rows of neighbours, each of which is scanned alone.
#pragma once

#include <cstddef>

namespace rapt {

// All arrays have the arithmetic type. y may be x with the same step.
struct ScanCall {
  const void *x;
  void *y;
  void *carry;    // for each neighbour: what the elements before give. It becomes what they give with these
  std::size_t n;  // elements along the dimension: a multiple of the group, or all that are left
  std::size_t neighbours;         // they lie side by side
  std::ptrdiff_t x_step, y_step;  // from an element to the next, in elements
  bool is_product;
};

}  // namespace rapt
