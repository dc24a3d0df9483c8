// The two matrix products of a few rows with a block: keys in the vector lanes for the scores, dimensions for
// the values.
#pragma once

#include <cstddef>

#include "contract/attention.hpp"
#include "contract/types.hpp"
#include "kernels/attention/lines_ahead.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// scores[r][j] = dot(query r, key j) for packed keys, one chain of fused operations over the dimension.
// Dimension d of the keys lies at keys + 64 d. Lines are fetched for more than two queries; with fewer a
// core's own prefetchers do as well.
template <class A, std::size_t rows, class E>
[[gnu::noinline, gnu::flatten]] void packed_row_scores(const A *queries, const E *keys, std::size_t count,
                                                       std::size_t dim, LinesAhead<E, Cache::l2> lines,
                                                       A *scores) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t block = rapt::attention_block;
  // Vectors of keys at a time: the chains hide their latency behind each other.
  constexpr std::size_t together = rows >= 4 ? 2 : 4;
  for (std::size_t j = 0; j < count; j += together * S::width) {
    batch score[together][rows];
    unroll<together>([&](auto g) __attribute__((always_inline)) {
      unroll<rows>([&](auto r) __attribute__((always_inline)) { score[g][r] = batch(A(0)); });
    });
    const E *key = keys + j;
    for (std::size_t d = 0; d < dim; ++d, key += block) {
      if constexpr (rows > 2) lines.fetch();
      batch element[together];
      unroll<together>([&](auto g)
                           __attribute__((always_inline)) { element[g] = S::load(key + g * S::width); });
      unroll<rows>([&](auto r) __attribute__((always_inline)) {
        const batch query(queries[r * dim + d]);
        unroll<together>([&](auto g) __attribute__((always_inline)) {
          score[g][r] = S::fma(query, element[g], score[g][r]);
        });
      });
    }
    unroll<together>([&](auto g) __attribute__((always_inline)) {
      unroll<rows>([&](auto r) __attribute__((always_inline)) {
        S::store(scores + r * block + j + g * S::width, score[g][r]);
      });
    });
  }
}

// The same from keys as they lie: squares of them are transposed in registers and multiplied there. With few
// rows two vectors of keys take turns, so that a chain has its latency while the other's square is
// transposed.
template <class A, std::size_t rows, class E>
[[gnu::noinline, gnu::flatten]] void row_scores(const A *queries, const RowRun<E> *keys,
                                                const RowRun<E> *last, std::size_t count, std::size_t dim,
                                                A *scores) {
  using S = simd<A>;
  using batch = typename S::batch;
  // Four on NEON: with one query two chains take 16 modelled cycles of a Neoverse N1 per 8 operations, four
  // take 12.
  constexpr std::size_t vectors = rows <= 2 && MultipliesByLane<S> ? 4 : rows <= 4 ? 2 : 1;
  constexpr std::size_t together = vectors * S::width;
  LinesAhead<E, rows <= 2 ? Cache::l1 : Cache::l2> lines(keys + (rows <= 2 ? 3 : 4), last);
  for (std::size_t j = 0; j < count; j += together) {
    const E *row[together];
    for (std::size_t r = 0; r < together; ++r) row[r] = row_of(keys, j + r < count ? j + r : count - 1);
    batch score[vectors][rows];
    unroll<vectors>([&](auto g) __attribute__((always_inline)) {
      unroll<rows>([&](auto r) __attribute__((always_inline)) { score[g][r] = batch(A(0)); });
    });
    const auto multiply = [&](auto g, std::size_t d, batch key) __attribute__((always_inline)) {
      unroll<rows>([&](auto r) __attribute__((always_inline)) {
        score[g][r] = S::fma(batch(queries[r * dim + d]), key, score[g][r]);
      });
    };
    std::size_t d = 0;
    for (; dim - d >= S::width; d += S::width) {
      batch query[rows];
      if constexpr (MultipliesByLane<S>) {
        unroll<rows>([&](auto r)
                         __attribute__((always_inline)) { query[r] = S::load(queries + r * dim + d); });
      }
      unroll<vectors>([&](auto g) __attribute__((always_inline)) {
        S::each_transposed(
            row + g * S::width, d, [&](auto i, batch key) __attribute__((always_inline)) {
              // One at a time: four together cost 2 to 9 % with keys in memory.
              if constexpr (i * S::width * sizeof(E) % 64 == 0) lines.fetch();
              if constexpr (MultipliesByLane<S>) {
                unroll<rows>([&](auto r) __attribute__((always_inline)) {
                  score[g][r] = S::template fma_by_lane<i>(query[r], key, score[g][r]);
                });
              } else {
                multiply(g, d + i, key);
              }
            });
      });
    }
    // The last dimensions of an odd number, one by one.
    for (; d < dim; ++d) {
      alignas(64) A column[together];
      for (std::size_t r = 0; r < together; ++r) column[r] = rapt::widened(row[r][d]);
      unroll<vectors>([&](auto g)
                          __attribute__((always_inline)) { multiply(g, d, S::load(column + g * S::width)); });
    }
    unroll<vectors>([&](auto g) __attribute__((always_inline)) {
      unroll<rows>([&](auto r) __attribute__((always_inline)) {
        S::store(scores + r * rapt::attention_block + j + g * S::width, score[g][r]);
      });
    });
  }
}

// values[r][d] = rescale[r] * values[r][d] + sum over j of weights[r][j] * value j [d], in key order, for
// some vectors of dimensions from d on. The last vector has `tail` elements unless it is whole.
template <class A, std::size_t rows, std::size_t vectors, bool whole, class E>
[[gnu::always_inline]] inline void row_values_of(const A *weights, const RowRun<E> *value, std::size_t keys,
                                                 LinesAhead<E, Cache::l1> &lines, const A *rescale,
                                                 std::size_t d, std::size_t tail, A *values,
                                                 std::size_t pitch) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t block = rapt::attention_block, size = RowRun<E>::rows;
  batch sum[rows][vectors];
  unroll<rows>([&](auto r) __attribute__((always_inline)) {
    const batch factor(rescale[r]);
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      sum[r][v] = S::load(values + r * pitch + d + v * S::width) * factor;
    });
  });
  for (std::size_t j = 0; j < keys; j += size, ++value) {
    const std::size_t end = keys - j < size ? keys : j + size;
    std::size_t i = j;
    if constexpr (whole && MultipliesByLane<S>) {  // a load takes the weights of several keys
      for (; end - i >= S::width; i += S::width) {
        batch weight[rows];
        unroll<rows>([&](auto r)
                         __attribute__((always_inline)) { weight[r] = S::load(weights + r * block + i); });
        const E *from = row_of(value, i - j) + d;
        unroll<S::width>([&](auto k) __attribute__((always_inline)) {
          unroll<vectors>([&](auto v) __attribute__((always_inline)) {
            if constexpr (v * S::width * sizeof(E) % 64 == 0) lines.fetch();
            const batch element = S::load(from + v * S::width);
            unroll<rows>([&](auto r) __attribute__((always_inline)) {
              sum[r][v] = S::template fma_by_lane<k>(weight[r], element, sum[r][v]);
            });
          });
          from += value->stride;
        });
      }
    }
    for (; i < end; ++i) {
      const E *const from = row_of(value, i - j) + d;
      batch element[vectors];
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        if constexpr (v * S::width * sizeof(E) % 64 == 0) lines.fetch();
        element[v] = whole || v + 1 < vectors ? S::load(from + v * S::width)
                                              : S::load_first(from + v * S::width, tail);
      });
      unroll<rows>([&](auto r) __attribute__((always_inline)) {
        const batch weight(weights[r * block + i]);
        unroll<vectors>([&](auto v) __attribute__((always_inline)) {
          sum[r][v] = S::fma(weight, element[v], sum[r][v]);
        });
      });
    }
  }
  unroll<rows>([&](auto r) __attribute__((always_inline)) {
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      S::store(values + r * pitch + d + v * S::width, sum[r][v]);
    });
  });
}

// The same for all dimensions from d on, by so many vectors and then by fewer.
template <class A, std::size_t rows, std::size_t vectors, class E>
[[gnu::always_inline]] inline void row_values_from(const A *weights, const RowRun<E> *value, std::size_t keys,
                                                   LinesAhead<E, Cache::l1> &lines, const A *rescale,
                                                   std::size_t d, std::size_t dim, A *values,
                                                   std::size_t pitch) {
  constexpr std::size_t width = simd<A>::width;
  for (; dim - d >= vectors * width; d += vectors * width) {
    row_values_of<A, rows, vectors, true>(weights, value, keys, lines, rescale, d, 0, values, pitch);
  }
  if constexpr (vectors > 1) {
    row_values_from<A, rows, vectors / 2>(weights, value, keys, lines, rescale, d, dim, values, pitch);
  } else if (d < dim) {
    row_values_of<A, rows, 1, false>(weights, value, keys, lines, rescale, d, dim - d, values, pitch);
  }
}
template <class A, std::size_t rows, class E>
[[gnu::noinline]] void row_values(const A *weights, const RowRun<E> *value, std::size_t keys,
                                  LinesAhead<E, Cache::l1> lines, const A *rescale, std::size_t dim,
                                  A *values, std::size_t pitch) {
  // As many accumulators as leave registers for an element and a weight; a few in memory cost less than
  // another pass over the values. With a vector of weights per row, 8 rows leave registers for two.
  constexpr std::size_t vectors = simd<A>::panel_vectors == 4 ? (rows <= 2                                 ? 8
                                                                 : rows <= 4                               ? 4
                                                                 : rows <= 6 && !MultipliesByLane<simd<A>> ? 4
                                                                 : rows <= 14                              ? 2
                                                                              : 1)
                                                              : (rows <= 1   ? 8
                                                                 : rows <= 4 ? 4
                                                                             : 2);
  row_values_from<A, rows, vectors>(weights, value, keys, lines, rescale, 0, dim, values, pitch);
}

}  // namespace
