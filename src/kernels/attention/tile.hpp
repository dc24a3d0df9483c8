// The two matrix products of a tile of rows, with rows in the vector lanes: keys and values are read as they
// lie, an element broadcast at a time, and nothing of them is copied.
#pragma once

#include <cstddef>

#include "contract/attention.hpp"
#include "kernels/attention/weight.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// A tile's matrices have a row of this many elements for each dimension or key.
constexpr std::size_t tile_pitch = rapt::attention_tile_rows;

// Accumulators of a register tile: `vectors` of rows by this many keys or dimensions. With 32 registers 4 x 6
// leave room for four operands and two broadcasts, and want 10 loads for 24 operations; 3 x 8 the same. 16
// registers hold 2 x 6.
template <class T, std::size_t vectors>
inline constexpr std::size_t tile_depth = vectors == simd<T>::panel_vectors ? 6 : 8;

// score[j][row] = dot(query row, key j), one chain of fused operations over the dimension, for `depth` keys.
// A dimension is `step` elements after the one before it.
template <class T, std::size_t vectors, std::size_t depth>
[[gnu::always_inline]] inline void scores_of_keys(const T *queries, const T *const *keys, std::ptrdiff_t step,
                                                  std::size_t dim, const T *const *next,
                                                  const T *const *values, std::size_t v_dim, bool fetch,
                                                  T *scores, typename simd<T>::batch (&max)[vectors]) {
  using S = simd<T>;
  using batch = typename S::batch;
  batch score[depth][vectors];
  const T *key[depth];
  unroll<depth>([&](auto j) __attribute__((always_inline)) {
    key[j] = keys[j];
    unroll<vectors>([&](auto v) __attribute__((always_inline)) { score[j][v] = batch(T(0)); });
  });
  std::ptrdiff_t at_key = 0;
  // Lines of this block's values and of the next block's keys are fetched on the way, a few at a time. With
  // keys in L3 (2048 to 8192 of 128 elements) 154 GFLOP/s became 165 by the values, 171 by both; all of a
  // block at once made it 145. AVX2 gains less by them than it loses by a loop that is cut in more pieces: it
  // takes four lines of each at a time (512 tokens: 80 % of the peak, 76 with one), which costs AVX-512 8 %
  // with keys in L3.
  constexpr std::size_t line = 64 / sizeof(T), piece = S::fetches_by_line ? line : 4 * line;
  for (std::size_t d = 0; d < dim;) {
    const std::size_t end = dim - d < piece ? dim : d + piece;
    if (fetch) {
      for (std::size_t at = d; at < end; at += line) {
        unroll<depth>([&](auto j) __attribute__((always_inline)) { __builtin_prefetch(next[j] + at, 0, 2); });
        if (at < v_dim) {
          unroll<depth>([&](auto j)
                            __attribute__((always_inline)) { __builtin_prefetch(values[j] + at, 0, 2); });
        }
      }
    }
    for (; d < end; ++d, queries += tile_pitch, at_key += step) {
      batch query[vectors];
      unroll<vectors>([&](auto v)
                          __attribute__((always_inline)) { query[v] = S::load(queries + v * S::width); });
      unroll<depth>([&](auto j) __attribute__((always_inline)) {
        const batch element(key[j][at_key]);
        unroll<vectors>([&](auto v) __attribute__((always_inline)) {
          score[j][v] = S::fma(query[v], element, score[j][v]);
        });
      });
    }
  }
  unroll<depth>([&](auto j) __attribute__((always_inline)) {
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      max[v] = S::max_number(score[j][v], max[v]);
      S::store(scores + j * tile_pitch + v * S::width, score[j][v]);
    });
  });
}

// The scores of keys [begin, end) of a block and the largest of each row; `keys` has the address of every
// key. Rows of `scores` after the last key, up to 7, are overwritten. Whether lines are fetched for later:
// once a block, not for every group of rows (AVX2 with four groups, 512 tokens: 83 % of the peak against 77).
template <class T, std::size_t vectors>
[[gnu::noinline]] void tile_scores(const T *queries, const T *const *keys, std::ptrdiff_t step,
                                   std::size_t dim, const T *const *next, const T *const *values,
                                   std::size_t v_dim, bool fetch, std::size_t begin, std::size_t end,
                                   T *scores, T *largest) {
  using S = simd<T>;
  constexpr std::size_t depth = tile_depth<T, vectors>;
  typename S::batch max[vectors];
  unroll<vectors>([&](auto v) __attribute__((always_inline)) {
    max[v] = typename S::batch(-std::numeric_limits<T>::infinity());
  });
  std::size_t j = begin;
  for (; end - j >= depth; j += depth) {
    scores_of_keys<T, vectors, depth>(queries, keys + j, step, dim, next + j, values + j, v_dim, fetch,
                                      scores + j * tile_pitch, max);
  }
  if (j < end) {
    // The last key counts again where others are missing, which leaves the maximum as it is.
    const T *last[depth];
    for (std::size_t i = 0; i < depth; ++i) last[i] = keys[j + i < end ? j + i : end - 1];
    // 64 keys are ten times 6 and 4.
    if (depth == 6 && end - j <= 4) {
      scores_of_keys<T, vectors, 4>(queries, last, step, dim, last, last, 0, false, scores + j * tile_pitch,
                                    max);
    } else {
      scores_of_keys<T, vectors, depth>(queries, last, step, dim, last, last, 0, false,
                                        scores + j * tile_pitch, max);
    }
  }
  unroll<vectors>([&](auto v) __attribute__((always_inline)) { S::store(largest + v * S::width, max[v]); });
}

// Of the weights first, first + step, first + 2 step, … of a vector of rows: by halves, as a fold of 64
// lanes.
template <class T, std::size_t first, std::size_t step>
[[gnu::always_inline]] inline typename simd<T>::batch sum_by_halves(const T *weights) {
  if constexpr (step == rapt::attention_block) {
    return simd<T>::load(weights + first * tile_pitch);
  } else {
    return sum_by_halves<T, first, step * 2>(weights) + sum_by_halves<T, first + step, step * 2>(weights);
  }
}

// Turns the scores of a vector of rows into weights, 0 outside of [begin, end); returns their sum.
template <class T>
[[gnu::noinline, gnu::flatten]] typename simd<T>::batch tile_weights(T *scores, std::size_t begin,
                                                                     std::size_t end,
                                                                     typename simd<T>::batch reference,
                                                                     typename simd<T>::batch to_log2,
                                                                     typename simd<T>::batch cutoff) {
  using S = simd<T>;
  using batch = typename S::batch;
  for (std::size_t j = 0; j < begin; ++j) S::store(scores + j * tile_pitch, batch(T(0)));
  for (std::size_t j = end; j < rapt::attention_block; ++j) S::store(scores + j * tile_pitch, batch(T(0)));
  const Weight<T> weight;
  const auto make = [&](std::size_t j) __attribute__((always_inline)) {
    T *const address = scores + j * tile_pitch;
    S::store(address, weight(S::load(address) - reference, to_log2, cutoff));
  };
  std::size_t j = begin;
  for (; end - j >= 4; j += 4) {
    unroll<4>([&](auto i) __attribute__((always_inline)) { make(j + i); });
  }
  for (; j < end; ++j) make(j);
  return sum_by_halves<T, 0, 1>(scores);
}

// What becomes of the results so far when a block's values are added.
enum class Before {
  kept,
  rescaled,  // by a factor a row
  dropped    // there are none
};

// out[d][row] = what was there + sum over j of weight[j][row] * value j [d], in key order, for `depth`
// dimensions.
template <class T, std::size_t vectors, std::size_t depth>
[[gnu::always_inline]] inline void values_of_dims(const T *weights, const T *const *values, std::size_t d,
                                                  std::size_t keys, Before before, const T *rescale, T *out) {
  using S = simd<T>;
  using batch = typename S::batch;
  batch sum[depth][vectors];
  if (before == Before::dropped) {
    unroll<depth>([&](auto i) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) { sum[i][v] = batch(T(0)); });
    });
  } else {
    unroll<depth>([&](auto i) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        sum[i][v] = S::load(out + i * tile_pitch + v * S::width);
      });
    });
  }
  if (before == Before::rescaled) {
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      const batch factor = S::load(rescale + v * S::width);
      unroll<depth>([&](auto i) __attribute__((always_inline)) { sum[i][v] = sum[i][v] * factor; });
    });
  }
  for (std::size_t j = 0; j < keys; ++j, weights += tile_pitch) {
    const T *value = values[j] + d;
    batch weight[vectors];
    unroll<vectors>([&](auto v)
                        __attribute__((always_inline)) { weight[v] = S::load(weights + v * S::width); });
    unroll<depth>([&](auto i) __attribute__((always_inline)) {
      const batch element(value[i]);
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        sum[i][v] = S::fma(weight[v], element, sum[i][v]);
      });
    });
  }
  unroll<depth>([&](auto i) __attribute__((always_inline)) {
    unroll<vectors>([&](auto v) __attribute__((always_inline)) {
      S::store(out + i * tile_pitch + v * S::width, sum[i][v]);
    });
  });
}

// Of all dimensions.
template <class T, std::size_t vectors>
[[gnu::noinline]] void tile_values(const T *weights, const T *const *values, std::size_t keys, Before before,
                                   const T *rescale, std::size_t dim, T *out) {
  constexpr std::size_t depth = tile_depth<T, vectors>;
  std::size_t d = 0;
  const auto step = [&](auto count) __attribute__((always_inline)) {
    values_of_dims<T, vectors, count>(weights, values, d, keys, before, rescale, out + d * tile_pitch);
    d += count;
  };
  while (dim - d >= depth) step(std::integral_constant<std::size_t, depth>{});
  if (dim - d >= 4) step(std::integral_constant<std::size_t, 4>{});
  if (dim - d >= 2) step(std::integral_constant<std::size_t, 2>{});
  if (dim - d >= 1) step(std::integral_constant<std::size_t, 1>{});
}

}  // namespace
