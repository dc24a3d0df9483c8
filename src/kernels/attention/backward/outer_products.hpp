// Computes dk and dv as sums of outer products over the rows of a tile.
#pragma once

#include <cstddef>

#include "kernels/attention/panels.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Adds factors[j][i] * rows[i][d] for each i in [begin, end), in that order, to to[j][d]. It does this for
// `depth` keys and `vectors` vectors of dimensions from d on. The last vector has `tail` elements unless it
// is `whole`.
template <class A, std::size_t vectors, std::size_t depth, bool whole, class E>
RAPT_INNER inline void panel_outer_products(const A *factors, const E *const *rows, std::size_t begin,
                                            std::size_t end, std::size_t d, std::size_t tail, A *const *to) {
  using S = simd<A>;
  using batch = typename S::batch;
  batch sum[depth][vectors];
  const auto is_whole = [](auto v) { return whole || v + 1 < vectors; };
  const auto load = [&](const auto *from, auto v) RAPT_INNER {
    return is_whole(v) ? S::load(from + d + v * S::width) : S::load_first(from + d + v * S::width, tail);
  };
  unroll_pairs<depth, vectors>([&](std::size_t j, std::size_t v) RAPT_INNER { sum[j][v] = load(to[j], v); });
  for (std::size_t i = begin; i < end; ++i) {
    batch element[vectors];
    unroll<vectors>([&](std::size_t v) RAPT_INNER { element[v] = load(rows[i], v); });
    unroll<depth>([&](std::size_t j) RAPT_INNER {
      const batch factor(factors[j * tile_pitch + i]);
      unroll<vectors>([&](std::size_t v) RAPT_INNER { sum[j][v] = S::fma(factor, element[v], sum[j][v]); });
    });
  }
  unroll_pairs<depth, vectors>([&](std::size_t j, std::size_t v) RAPT_INNER {
    A *const address = to[j] + d + v * S::width;
    if (is_whole(v)) {
      S::store(address, sum[j][v]);
    } else {
      S::store_first(address, sum[j][v], tail);
    }
  });
}

// Calls panel_outer_products() for all dimensions.
template <class A, std::size_t depth, class E>
[[gnu::noinline, gnu::flatten]] void outer_products(const A *factors, const E *const *rows, std::size_t begin,
                                                    std::size_t end, std::size_t dim, A *const *to) {
  constexpr std::size_t width = simd<A>::width, vectors = simd<A>::panel_vectors;
  std::size_t d = 0;
  for (; dim - d >= vectors * width; d += vectors * width) {
    panel_outer_products<A, vectors, depth, true>(factors, rows, begin, end, d, 0, to);
  }
  for (; dim - d >= width; d += width)
    panel_outer_products<A, 1, depth, true>(factors, rows, begin, end, d, 0, to);
  if (d < dim) panel_outer_products<A, 1, depth, false>(factors, rows, begin, end, d, dim - d, to);
}

}  // namespace
