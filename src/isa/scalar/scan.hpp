// Implements the scalar reference of scans: groups of elements by doubling distances (contract/scan.hpp).
#pragma once

#include <cstddef>

#include "call/scan_call.hpp"
#include "contract/scan.hpp"

namespace {

template <class A>
void scan(const rapt::ScanCall *call) {
  constexpr std::size_t group = rapt::scan_group;
  const auto joined = [call](A a, A b) { return call->is_product ? a * b : a + b; };
  for (std::size_t column = 0; column < call->neighbours; ++column) {
    const A *const x = static_cast<const A *>(call->x) + column;
    A *const y = static_cast<A *>(call->y) + column;
    A &carry = static_cast<A *>(call->carry)[column];
    for (std::size_t first = 0; first < call->n; first += group) {
      const std::size_t left = call->n - first, count = left < group ? left : group;
      A prefix[group];
      for (std::size_t j = 0; j < count; ++j)
        prefix[j] = x[call->x_step * static_cast<std::ptrdiff_t>(first + j)];
      for (std::size_t distance = 1; distance < group; distance *= 2) {
        for (std::size_t j = count; j-- > distance;) prefix[j] = joined(prefix[j - distance], prefix[j]);
      }
      for (std::size_t j = 0; j < count; ++j)
        y[call->y_step * static_cast<std::ptrdiff_t>(first + j)] = joined(carry, prefix[j]);
      carry = joined(carry, prefix[count - 1]);
    }
  }
}

}  // namespace
