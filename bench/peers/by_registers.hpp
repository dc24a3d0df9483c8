// exp of a library that offers it for whole registers.
#pragma once

#include <algorithm>
#include <cstddef>

namespace {

// Register has `lanes`, and exp(x, y) of that many elements.
template <class Register, class T>
void exp_by_registers(const T *x, T *y, std::size_t n) {
  std::size_t i = 0;
  for (; i + Register::lanes <= n; i += Register::lanes) Register::exp(x + i, y + i);
  if (i == n) return;
  T tail[Register::lanes] = {};
  std::copy(x + i, x + n, tail);
  Register::exp(tail, tail);
  std::copy(tail, tail + (n - i), y + i);
}

}  // namespace
