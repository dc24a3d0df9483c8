// Sums of outer products over the rows of a tile: what the gradients of keys and values are made of.
#pragma once

#include <cstddef>

#include "kernels/attention/tile.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// to[j][d] += sum over i in [begin, end) of factor[j][i] * row i [d], in that order, for `depth` keys and
// some vectors of dimensions from d on; the last one has `tail` elements.
template <class T, std::size_t vectors, std::size_t depth, bool whole>
[[gnu::always_inline]] inline void outer_products_of(const T *factors, const T *const *rows,
                                                     std::size_t begin, std::size_t end, std::size_t d,
                                                     std::size_t tail, T *const *to) {
  using S = simd<T>;
  using batch = typename S::batch;
  batch sum[depth][vectors];
  const auto is_whole = [](auto v) { return whole || v + 1 < vectors; };
  unroll<depth>([&](auto j) __attribute__((always_inline)) {
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      const T *from = to[j] + d + v * S::width;
      sum[j][v] = is_whole(v) ? S::load(from) : S::load_first(from, tail);
    });
  });
  for (std::size_t i = begin; i < end; ++i) {
    const T *const row = rows[i] + d;
    batch element[vectors];
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      element[v] = is_whole(v) ? S::load(row + v * S::width) : S::load_first(row + v * S::width, tail);
    });
    unroll<depth>([&](auto j) __attribute__((always_inline)) {
      const batch factor(factors[j * tile_pitch + i]);
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        sum[j][v] = S::fma(factor, element[v], sum[j][v]);
      });
    });
  }
  unroll<depth>([&](auto j) __attribute__((always_inline)) {
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      T *const address = to[j] + d + v * S::width;
      if (is_whole(v)) {
        S::store(address, sum[j][v]);
      } else {
        S::store_first(address, sum[j][v], tail);
      }
    });
  });
}

// Of `depth` keys and all dimensions.
template <class T, std::size_t depth>
[[gnu::noinline]] void outer_products(const T *factors, const T *const *rows, std::size_t begin,
                                      std::size_t end, std::size_t dim, T *const *to) {
  constexpr std::size_t width = simd<T>::width, vectors = simd<T>::panel_vectors;
  std::size_t d = 0;
  for (; dim - d >= vectors * width; d += vectors * width) {
    outer_products_of<T, vectors, depth, true>(factors, rows, begin, end, d, 0, to);
  }
  for (; dim - d >= width; d += width)
    outer_products_of<T, 1, depth, true>(factors, rows, begin, end, d, 0, to);
  if (d < dim) outer_products_of<T, 1, depth, false>(factors, rows, begin, end, d, dim - d, to);
}

}  // namespace
