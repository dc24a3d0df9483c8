// The results of a tile by dimension, with rows in the vector lanes.
#pragma once

#include <cstddef>

#include "kernels/attention/panels.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/transposed.hpp"

namespace {

// +0 in the rows [from, to).
template <class A>
void clear_values(A *values, std::size_t dim, std::size_t from, std::size_t to) {
  using S = simd<A>;
  for (std::size_t d = 0; d < dim; ++d) {
    for (std::size_t r = from; r < to; r += S::width) {
      S::store(values + d * tile_pitch + r, typename S::batch(A(0)));
    }
  }
}

// Row r's values times rows.rescale to address(r); true if one is NaN.
template <class A, class Address>
[[gnu::always_inline]] inline bool store_values(const TileRows<A> &rows, const A *values, std::size_t dim,
                                                Address address) {
  using S = simd<A>;
  using batch = typename S::batch;
  batch all(A(0));
  for (std::size_t r = 0; r < rows.rows; r += S::width) {
    const batch factor = S::load(rows.rescale + r), seen = S::load(rows.seen + r);
    const std::size_t count = rows.rows - r < S::width ? rows.rows - r : S::width;
    decltype(address(r)) row[S::width];
    for (std::size_t i = 0; i < S::width; ++i) row[i] = address(i < count ? r + i : r);
    store_transposed(
        row, count, dim, [&](std::size_t d) __attribute__((always_inline)) {
          const batch v = rows.finished(S::load(values + d * tile_pitch + r), factor, seen);
          all = all + v;
          return v;
        });
  }
  return S::any(S::unordered(all, all));
}

// Whether store_values() would return true.
template <class A>
bool has_nan(const TileRows<A> &rows, const A *values, std::size_t dim) {
  using S = simd<A>;
  typename S::batch all(A(0));
  for (std::size_t r = 0; r < rows.rows; r += S::width) {
    const typename S::batch factor = S::load(rows.rescale + r), seen = S::load(rows.seen + r);
    for (std::size_t d = 0; d < dim; ++d) {
      all = all + rows.finished(S::load(values + d * tile_pitch + r), factor, seen);
    }
  }
  return S::any(S::unordered(all, all));
}

}  // namespace
