// Rows of elements to and from a tile's matrices, in which rows are lanes.
#pragma once

#include <cstddef>

#include "kernels/attention/tile.hpp"
#include "kernels/unroll.hpp"

namespace {

// v[i] becomes, for each of a vector of rows, its element i; count elements exist.
template <class T, class RowAddress>
[[gnu::always_inline]] inline void load_transposed(typename simd<T>::batch (&v)[simd<T>::width],
                                                   RowAddress row, std::size_t count) {
  using S = simd<T>;
  if (count >= S::width) {
    unroll<S::width>([&](auto r) __attribute__((always_inline)) { v[r] = S::load(row(r)); });
  } else {
    unroll<S::width>([&](auto r) __attribute__((always_inline)) { v[r] = S::load_first(row(r), count); });
  }
  S::transpose(v);
}

}  // namespace
