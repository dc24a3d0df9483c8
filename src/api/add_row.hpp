// Adds a row to sums, for functions whose rows are named by indices.
#pragma once

#include <cstddef>

#include "dispatch/dispatch.hpp"
#include "rapt/rapt.h"

namespace rapt {
namespace {

// sums = sums + x, or sums + factor * x with both operations rounded, as map computes them. On a Zen 3 a row of 16
// takes 5 ns by the loop and 24 by map's kernel, and one of 64 takes 10 by each.
template <class A>
void add_row(A *sums, const A *x, const A *factor, std::size_t count) {
  constexpr std::size_t from_kernel = 64;
  if (count >= from_kernel) {
    const A parameters[3] = {factor ? *factor : A(0), 0, 0};
    return kernels().of<A>().map(factor ? RAPT_MAP_ADD_SCALED : RAPT_MAP_ADD, sums, x, nullptr, sums,
                                 parameters, count);
  }
  if (!factor) {
    for (std::size_t i = 0; i < count; ++i) sums[i] = sums[i] + x[i];
    return;
  }
  const A by = *factor;
  for (std::size_t i = 0; i < count; ++i) sums[i] = sums[i] + by * x[i];
}

}  // namespace
}  // namespace rapt
