// Runs f32's kernels on elements of 16 bits: blocks are widened into L1, and results are rounded to 16 bits once. So
// the kernels need not be compiled for them.
#pragma once

#include <cstddef>
#include <type_traits>

#include "contract/types.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

template <class E>
void widen_elements(const void *x, float *y, std::size_t n) {
  kernels().of<E>().widen(static_cast<const E *>(x), y, n);
}
template <class E>
void narrow_elements(const float *x, void *y, std::size_t n) {
  kernels().of<E>().narrow(x, static_cast<E *>(y), n);
}

// Three blocks of f32 take 12 KB of L1, which has 32 or more.
inline constexpr std::size_t half_block = 1024;

// Calls run(first, count) for the blocks of n elements.
template <class Run>
void for_each_block(std::size_t n, Run run) {
  for (std::size_t i = 0; i < n; i += half_block) run(i, n - i < half_block ? n - i : half_block);
}

}  // namespace
}  // namespace rapt
