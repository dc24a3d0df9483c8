// Computes the two matrix products of a tile, with query rows in the vector lanes. Elements of keys and
// values are broadcast from the caller's memory. Nothing is copied.
#pragma once

#include <cstddef>
#include <limits>

#include "contract/attention.hpp"
#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// A tile's matrices have this many elements, one per query row, for each dimension or key.
constexpr std::size_t tile_pitch = rapt::attention_tile_rows;

// A panel's accumulators are `vectors` vectors of rows by this many keys or dimensions. With 32 registers, 4
// x 6 leaves room for four operands and two broadcasts, and needs 10 loads for 24 operations. 3 x 8 fits too,
// with 11 loads. 16 registers have room for 2 x 6.
template <class A, std::size_t vectors>
inline constexpr std::size_t panel_depth = vectors == simd<A>::panel_vectors ? 6 : 8;

// Describes rows that a product prefetches while it multiplies: `dim` elements of each. `dim` may be 0.
template <class E>
struct RowsToFetch {
  const E *const *rows;
  std::size_t dim;
  std::size_t panels = 1;  // this many panels share the prefetches
};

// Adds vector v of `row` times element(i) to sum[i][v].
template <class A, std::size_t depth, std::size_t vectors, class Element>
RAPT_INNER inline void add_outer_product(const A *row, Element element,
                                         typename simd<A>::batch (&sum)[depth][vectors]) {
  using S = simd<A>;
  typename S::batch v[vectors];
  unroll<vectors>([&](std::size_t i) RAPT_INNER { v[i] = S::load(row + i * S::width); });
  unroll<depth>([&](std::size_t i) RAPT_INNER {
    const typename S::batch factor(element(i));
    unroll<vectors>([&](std::size_t j) RAPT_INNER { sum[i][j] = S::fma(v[j], factor, sum[i][j]); });
  });
}

// Stores dot(query row, key j) to scores for `depth` keys, and updates each row's maximum. A dot product is
// one chain of fused operations over the dimensions, which are `step` elements apart in a key.
//
// Between the products, it prefetches a row of `fetch` per key, a few lines at a time. On AVX2, interrupting
// the loop for single lines costs more than it gains, so it prefetches four lines at a time. On AVX-512 four
// at a time would cost 8 % with keys in L3.
//
//   AVX-512, keys in L3, GFLOP/s         | no prefetch 154 | a block at once 145 | this one 165
//   AVX2, 512 tokens, share of the peak  | a line at a time 76 %                 | four lines 80 %
template <class A, std::size_t vectors, std::size_t depth, class E>
RAPT_INNER inline void panel_scores(const A *queries, const E *const *keys, std::ptrdiff_t step,
                                    std::size_t dim, RowsToFetch<E> fetch, A *scores,
                                    typename simd<A>::batch (&max)[vectors]) {
  using S = simd<A>;
  using batch = typename S::batch;
  batch score[depth][vectors];
  const E *key[depth];
  unroll<depth>([&](std::size_t j) RAPT_INNER { key[j] = keys[j]; });
  unroll_pairs<depth, vectors>([&](std::size_t j, std::size_t v) RAPT_INNER { score[j][v] = batch(A(0)); });
  std::ptrdiff_t at_key = 0;
  constexpr std::size_t line = 64 / sizeof(E), piece = S::fetches_by_line ? line : 4 * line;
  for (std::size_t d = 0; d < dim;) {
    const std::size_t end = dim - d < piece ? dim : d + piece;
    for (std::size_t at = d; at < end && at < fetch.dim; at += line) {
      unroll<depth>([&](std::size_t j) RAPT_INNER { __builtin_prefetch(fetch.rows[j] + at, 0, 2); });
    }
    for (; d < end; ++d, queries += tile_pitch, at_key += step) {
      add_outer_product<A>(
          queries, [&](auto j) RAPT_INNER { return rapt::widened(key[j][at_key]); }, score);
    }
  }
  unroll_pairs<depth, vectors>([&](std::size_t j, std::size_t v) RAPT_INNER {
    max[v] = S::max_number(score[j][v], max[v]);
    S::store(scores + j * tile_pitch + v * S::width, score[j][v]);
  });
}

// Computes the dot products of the keys [begin, end) of a block with vectors of rows, and each row's largest.
// It overwrites the scores of up to 7 keys after the last one.
template <class A, std::size_t vectors, class E>
[[gnu::noinline, gnu::flatten]] void tile_scores(const A *queries, const E *const *keys, std::ptrdiff_t step,
                                                 std::size_t dim, RowsToFetch<E> fetch, std::size_t begin,
                                                 std::size_t end, A *scores, A *largest) {
  using S = simd<A>;
  constexpr std::size_t depth = panel_depth<A, vectors>;
  typename S::batch max[vectors];
  unroll<vectors>([&](std::size_t v)
                      RAPT_INNER { max[v] = typename S::batch(-std::numeric_limits<A>::infinity()); });
  std::size_t j = begin;
  for (; end - j >= depth; j += depth) {
    panel_scores<A, vectors, depth>(queries, keys + j, step, dim, RowsToFetch<E>{fetch.rows + j, fetch.dim},
                                    scores + j * tile_pitch, max);
  }
  if (j < end) {
    // The last key replaces missing keys, which does not change the maximum.
    const E *last[depth];
    for (std::size_t i = 0; i < depth; ++i) last[i] = keys[j + i < end ? j + i : end - 1];
    const RowsToFetch<E> none{last, 0};
    // So 64 keys take ten steps of 6 keys and one of 4.
    if (depth == 6 && end - j <= 4) {
      panel_scores<A, vectors, 4>(queries, last, step, dim, none, scores + j * tile_pitch, max);
    } else {
      panel_scores<A, vectors, depth>(queries, last, step, dim, none, scores + j * tile_pitch, max);
    }
  }
  unroll<vectors>([&](std::size_t v) RAPT_INNER { S::store(largest + v * S::width, max[v]); });
}

// Says what happens to earlier results when a block's values are added.
enum class Before {
  kept,
  rescaled,  // by a factor per row
  dropped    // because there are none
};

// Describes prefetches: one row's line at element `at`, for every key j with (j & between) == 0.
template <class E>
struct LinesToFetch {
  const E *const *rows;
  std::size_t at, between;
};

// Adds weight[j][row] * (value j)[d] for each key j, in key order, to out[d][row] for `depth` dimensions.
// `before` says whether out is first dropped or rescaled.
template <class A, std::size_t vectors, std::size_t depth, class E>
RAPT_INNER inline void panel_values(const A *weights, const E *const *values, std::size_t d, std::size_t keys,
                                    Before before, const A *rescale, A *out, LinesToFetch<E> fetch) {
  using S = simd<A>;
  using batch = typename S::batch;
  batch sum[depth][vectors];
  const auto each = [](auto f) RAPT_INNER { unroll_pairs<depth, vectors>(f); };
  if (before == Before::dropped) {
    each([&](std::size_t i, std::size_t v) RAPT_INNER { sum[i][v] = batch(A(0)); });
  } else {
    each([&](std::size_t i, std::size_t v)
             RAPT_INNER { sum[i][v] = S::load(out + i * tile_pitch + v * S::width); });
  }
  if (before == Before::rescaled) {
    unroll<vectors>([&](std::size_t v) RAPT_INNER {
      const batch factor = S::load(rescale + v * S::width);
      unroll<depth>([&](std::size_t i) RAPT_INNER { sum[i][v] = sum[i][v] * factor; });
    });
  }
  for (std::size_t j = 0; j < keys; ++j, weights += tile_pitch) {
    if ((j & fetch.between) == 0) __builtin_prefetch(*fetch.rows++ + fetch.at, 0, 2);
    const E *value = values[j] + d;
    add_outer_product<A>(
        weights, [&](auto i) RAPT_INNER { return rapt::widened(value[i]); }, sum);
  }
  each([&](std::size_t i, std::size_t v)
           RAPT_INNER { S::store(out + i * tile_pitch + v * S::width, sum[i][v]); });
}

// One line of every row is prefetched during this many calls of panel_values(). So all lines are prefetched
// before the last dimension.
template <class E>
constexpr std::size_t steps_per_line = 8 / sizeof(E);

// Calls panel_values() for all dimensions. The prefetches are spread evenly over the keys of the block.
template <class A, std::size_t vectors, class E>
[[gnu::noinline, gnu::flatten]] void tile_values(const A *weights, const E *const *values, std::size_t keys,
                                                 Before before, const A *rescale, std::size_t dim, A *out,
                                                 RowsToFetch<E> fetch) {
  constexpr std::size_t depth = panel_depth<A, vectors>, per_line = steps_per_line<E>;
  const std::size_t keys_per_fetch = per_line * fetch.panels;
  std::size_t d = 0, steps = 0;
  const auto step = [&](auto count) RAPT_INNER {
    const std::size_t at = steps / per_line * (64 / sizeof(E));
    LinesToFetch<E> lines{values, d, ~std::size_t{0}};
    if (at < fetch.dim) {
      lines = {fetch.rows + steps % per_line * (rapt::attention_block / keys_per_fetch), at,
               keys_per_fetch - 1};
    }
    panel_values<A, vectors, count>(weights, values, d, keys, before, rescale, out + d * tile_pitch, lines);
    d += count;
    ++steps;
  };
  while (dim - d >= depth) step(std::integral_constant<std::size_t, depth>{});
  if (dim - d >= 4) step(std::integral_constant<std::size_t, 4>{});
  if (dim - d >= 2) step(std::integral_constant<std::size_t, 2>{});
  if (dim - d >= 1) step(std::integral_constant<std::size_t, 1>{});
}

}  // namespace
