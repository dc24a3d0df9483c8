// Applies a library's exp for whole registers to arrays of any length.
#pragma once

#include <algorithm>
#include <cstddef>

namespace {

// Register::exp(x, y) computes exp of Register::lanes elements.
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
