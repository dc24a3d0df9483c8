// Multiplies a few query rows by a block of keys, and their weights by its values. The vector lanes are keys
// for scores, and dimensions for values.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "contract/attention.hpp"
#include "contract/types.hpp"
#include "kernels/attention/lines_ahead.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Sets scores[r][j] to dot(query r, key j) for packed keys, as one chain of fused operations over the
// dimensions. Dimension d of the keys is at keys + 64 d. Only for more than two queries are lines prefetched
// here. With fewer, the hardware prefetchers are as good.
template <class A, std::size_t rows, class E>
[[gnu::noinline, gnu::flatten]] void packed_row_scores(const A *queries, const E *keys, std::size_t count,
                                                       std::size_t dim, const RowRun<E> *run,
                                                       const RowRun<E> *last, A *scores) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t block = rapt::attention_block;
  // Takes several vectors of keys at a time, so that their chains hide each other's latency.
  constexpr std::size_t together = rows >= 4 ? 2 : 4;
  LinesAhead<E, rows, rows <= 4 ? Cache::l1 : Cache::l2> lines(run, last);
  for (std::size_t i = 0; i < runs_per_block; ++i) fetch_pages<rows>(run + i, last);
  for (std::size_t j = 0; j < count; j += together * S::width) {
    batch score[together][rows];
    unroll_pairs<together, rows>([&](std::size_t g, std::size_t r) RAPT_INNER { score[g][r] = batch(A(0)); });
    const E *key = keys + j;
    for (std::size_t d = 0; d < dim; ++d, key += block) {
      if constexpr (rows > 2) lines.fetch();
      batch element[together];
      unroll<together>([&](std::size_t g) RAPT_INNER { element[g] = S::load(key + g * S::width); });
      unroll<rows>([&](std::size_t r) RAPT_INNER {
        const batch query((queries + r * dim)[d]);
        unroll<together>([&](std::size_t g)
                             RAPT_INNER { score[g][r] = S::fma(query, element[g], score[g][r]); });
      });
    }
    unroll_pairs<together, rows>([&](std::size_t g, std::size_t r) RAPT_INNER {
      S::store(scores + r * block + j + g * S::width, score[g][r]);
    });
  }
}

// Holds the addresses of up to `count` rows, from one key on. An x86 address can add one scaled register to a
// pointer. So four pointers and the distances of 4 and 12 rows reach the 16 rows of a run.
template <class E, std::size_t count>
class KeyRows {
 public:
  KeyRows(const RowRun<E> *keys, std::size_t from) : KeyRows(keys[from / RowRun<E>::rows].stride) {
    const std::ptrdiff_t stride = keys[from / RowRun<E>::rows].stride;
    unroll<runs>([&](auto run) RAPT_INNER {
      const RowRun<E> &of = keys[from / RowRun<E>::rows + run];
      set<run>(of.first + stride * static_cast<std::ptrdiff_t>(from % RowRun<E>::rows), stride);
    });
  }
  // This constructor is for contiguous rows of `width` elements each.
  KeyRows(const E *rows, std::ptrdiff_t width) : KeyRows(width) {
    unroll<runs>([&](auto run) RAPT_INNER {
      set<run>(rows + run * RowRun<E>::rows * static_cast<std::size_t>(width), width);
    });
  }

  RAPT_INNER const E *operator[](std::size_t i) const {
    const std::size_t of_run = i % RowRun<E>::rows, fours = of_run / 4;
    const E *row = first_[i / RowRun<E>::rows][of_run % 4];
    asm("" : "+r"(row));  // without this gcc computes a pointer per row, and keeps them on the stack
    const std::ptrdiff_t distance = fours == 3 ? twelve_ : static_cast<std::ptrdiff_t>(fours) * four_;
    return reinterpret_cast<const E *>(reinterpret_cast<const char *>(row) + distance);
  }
  RAPT_INNER void advance(std::size_t elements) {
    unroll<runs * pointers>([&](std::size_t i) RAPT_INNER {
      const E *&row = first_[i / pointers][i % pointers];
      row += elements;
      asm("" : "+r"(row));
    });
    asm("" : "+r"(four_), "+r"(twelve_));
  }

 private:
  static constexpr std::size_t runs = (count + RowRun<E>::rows - 1) / RowRun<E>::rows;
  static constexpr std::size_t pointers = count < 4 ? count : 4;

  explicit KeyRows(std::ptrdiff_t stride)
      : four_(4 * stride * static_cast<std::ptrdiff_t>(sizeof(E))), twelve_(3 * four_) {}
  template <std::size_t run>
  RAPT_INNER void set(const E *row, std::ptrdiff_t stride) {
    unroll<pointers>([&](std::size_t i) RAPT_INNER {
      first_[run][i] = row;
      if (i + 1 < pointers) row += stride;
    });
  }

  const E *first_[runs][pointers];
  std::ptrdiff_t four_, twelve_;  // distances of 4 and 12 rows, in bytes
};

// Holds the addresses of scattered rows, or of the last ones. If only `left` exist, the last one replaces missing ones.
template <class E, std::size_t count>
class LastKeyRows {
 public:
  LastKeyRows(const RowRun<E> *keys, std::size_t from, std::size_t left = count) {
    for (std::size_t i = 0; i < count; ++i) row_[i] = row_of(keys, from + (i < left ? i : left - 1));
  }
  RAPT_INNER const E *operator[](std::size_t i) const { return row_[i] + at_; }
  RAPT_INNER void advance(std::size_t elements) { at_ += elements; }

 private:
  const E *row_[count];
  std::size_t at_ = 0;
};

// Copies the last `left` elements of a vector of rows to a square, and fills it up with 0. `row` becomes the rows
// of the square. Whole words are one load, because memcpy of a variable length is a call.
template <class E, std::size_t width, std::size_t elements>
[[gnu::noinline, gnu::flatten]] void fill_square(const E *(&row)[width], std::size_t left,
                                                 E (&square)[width][elements]) {
  using S = simd<float>;
  static_assert(sizeof square[0] == S::width * sizeof(float));
  const std::size_t bytes = left * sizeof(E), words = bytes / sizeof(float);
  for (std::size_t i = 0; i < width; ++i) {
    auto *const to = reinterpret_cast<float *>(square[i]);
    S::store(to, S::load_first(reinterpret_cast<const float *>(row[i]), words));
    if (bytes % sizeof(float) != 0)
      std::memcpy(to + words, row[i] + words * (sizeof(float) / sizeof(E)), bytes % sizeof(float));
    row[i] = square[i];
  }
}

template <class Rows>
struct RowsFrom {
  const Rows &rows;
  std::size_t first;
  RAPT_INNER auto operator[](std::size_t i) const { return rows[first + i]; }
};

// Sets columns[i][j] to dimension i of row j, for the last `left` dimensions of a vector of rows. One copy of
// this code serves all numbers of queries: the compiler's time for the scores is a third less.
template <class A, class E>
[[gnu::noinline, gnu::flatten]] void last_columns(const E *const *row, std::size_t left,
                                                  A (*columns)[simd<A>::width]) {
  using S = simd<A>;
  typename S::batch column[S::width];
  unroll<S::width>([&](std::size_t r) RAPT_INNER { column[r] = S::load_first(row[r], left); });
  S::transpose(column);
  unroll<S::width>([&](std::size_t i) RAPT_INNER { S::store(columns[i], column[i]); });
}

// Multiplies a square of a vector of keys and as many dimensions by the queries' dimensions from `queries` on.
// The accumulators are a parameter, because gcc 12 leaves them in memory if lambdas in lambdas capture them.
template <class A, std::size_t rows, class Square, class Lines>
RAPT_INNER inline void add_square(const Square &square, const A *queries, std::size_t dim, Lines &lines,
                                  typename simd<A>::batch (&score)[rows]) {
  using S = simd<A>;
  using batch = typename S::batch;
  using E = std::remove_cvref_t<decltype(*square[0])>;
  constexpr std::size_t lines_of_square = S::width * S::width * sizeof(E) / 64,
                        group = lines_of_square < 1   ? 1
                                : lines_of_square < 4 ? lines_of_square
                                                      : 4;
  batch query[rows];
  if constexpr (MultipliesByLane<S>) {
    unroll<rows>([&](std::size_t r) RAPT_INNER { query[r] = S::load(queries + r * dim); });
  }
  S::each_transposed(square, 0, [&](auto i, batch key) RAPT_INNER {
    constexpr std::size_t bytes = i * S::width * sizeof(E);
    if constexpr (bytes % 64 == 0) lines.template fetch<bytes / 64 % group, group>();
    unroll<rows>([&](std::size_t r) RAPT_INNER {
      if constexpr (MultipliesByLane<S>) {
        score[r] = S::template fma_by_lane<i>(query[r], key, score[r]);
      } else {
        score[r] = S::fma(batch((queries + r * dim)[i]), key, score[r]);
      }
    });
  });
}

// Computes scores like packed_row_scores(), but for `vectors` vectors of keys that are not packed. Squares of
// keys are transposed in registers and multiplied there.
template <class A, std::size_t rows, std::size_t vectors, class KeyRows, class Lines>
RAPT_INNER inline void transposed_scores(const A *queries, KeyRows key_rows, Lines &lines, std::size_t dim,
                                         A *scores) {
  using S = simd<A>;
  using batch = typename S::batch;
  using E = std::remove_cvref_t<decltype(*key_rows[0])>;
  batch score[vectors][rows];
  unroll_pairs<vectors, rows>([&](std::size_t g, std::size_t r) RAPT_INNER { score[g][r] = batch(A(0)); });
  std::size_t d = 0;
  for (; dim - d >= S::width; d += S::width) {
    const A *at = queries + d;
    unroll<vectors>([&](std::size_t g) RAPT_INNER {
      if constexpr (vectors > 1)
        asm("" : "+r"(at));  // without this gcc spills the broadcasts between vectors
      add_square<A, rows>(RowsFrom<KeyRows>{key_rows, g * S::width}, at, dim, lines, score[g]);
    });
    key_rows.advance(S::width);
  }
  if (d < dim) {
    unroll<vectors>([&](std::size_t g) RAPT_INNER {
      const E *row[S::width];
      unroll<S::width>([&](std::size_t r) RAPT_INNER { row[r] = key_rows[g * S::width + r]; });
      alignas(64) A columns[S::width][S::width];
      last_columns(row, dim - d, columns);
      for (std::size_t i = 0; i < dim - d; ++i) {
        unroll<rows>([&](std::size_t r) RAPT_INNER {
          score[g][r] = S::fma(batch((queries + r * dim + d)[i]), S::load(columns[i]), score[g][r]);
        });
      }
    });
  }
  unroll_pairs<vectors, rows>([&](std::size_t g, std::size_t r) RAPT_INNER {
    S::store(scores + r * rapt::attention_block + g * S::width, score[g][r]);
  });
}

// For one or two queries, the last one to four keys use a chain of scalar operations per score. That needs no
// transposition, and the CPU can begin the next call's chains while these wait.
inline constexpr std::size_t most_chained_keys = 4;
template <class A, std::size_t rows>
RAPT_INNER inline void chained_scores(const A *queries, const RowRun<A> *keys, std::size_t first,
                                      std::size_t left, std::size_t dim, A *scores) {
  const LastKeyRows<A, most_chained_keys> key(keys, first, left);
  A score[rows][most_chained_keys] = {};
  for (std::size_t d = 0; d < dim; ++d) {
    unroll<rows * most_chained_keys>([&](auto i) RAPT_INNER {
      constexpr std::size_t r = i / most_chained_keys, j = i % most_chained_keys;
      score[r][j] = std::fma(queries[r * dim + d], key[j][d], score[r][j]);
    });
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t j = 0; j < left; ++j) scores[r * rapt::attention_block + first + j] = score[r][j];
  }
}

// Prefetches nothing: no keys follow the last ones.
struct NoLines {
  template <std::size_t, std::size_t>
  RAPT_INNER void fetch() {}
};

// Calls f(first row, number of rows) for groups of up to 4 rows. Both numbers are constants. Code for the last keys
// goes by these groups, so that it exists for 1 to 4 queries only.
template <std::size_t rows, class F>
RAPT_INNER inline void by_four_rows(F f) {
  constexpr std::size_t most = 4;
  unroll<(rows + most - 1) / most>([&](auto group) RAPT_INNER {
    constexpr std::size_t r = group * most, some = rows - r < most ? rows - r : most;
    f(std::integral_constant<std::size_t, r>{}, std::integral_constant<std::size_t, some>{});
  });
}

// Computes the scores of the last keys, up to a vector (by_four_rows).
template <class A, std::size_t rows, class E>
[[gnu::noinline, gnu::flatten]] void last_scores(const A *queries, const RowRun<E> *keys, std::size_t first,
                                                 std::size_t left, std::size_t dim, A *scores) {
  using S = simd<A>;
  const LastKeyRows<E, S::width> last_rows(keys, first, left);
  NoLines lines;
  transposed_scores<A, rows, 1>(queries, last_rows, lines, dim, scores + first);
}

// Computes the scores of a block some of whose rows are at no constant distance.
template <class A, std::size_t rows, std::size_t vectors, class E>
[[gnu::noinline, gnu::flatten]] void scattered_row_scores(const A *queries, const RowRun<E> *keys,
                                                          const RowRun<E> *last, std::size_t count,
                                                          std::size_t dim, A *scores) {
  constexpr std::size_t together = vectors * simd<A>::width;
  LinesAhead<E, rows, rows <= 4 ? Cache::l1 : Cache::l2> lines(keys, last);
  for (std::size_t j = 0; j < count; j += together) {
    const std::size_t left = count - j < together ? count - j : together;
    const LastKeyRows<E, together> key_rows(keys, j, left);
    transposed_scores<A, rows, vectors>(queries, key_rows, lines, dim, scores + j);
  }
}

// Computes the scores of keys that are not packed. With few rows, two vectors of keys alternate: while the
// chains of one wait, the square of the other is transposed. Scores after the last key, up to the end of its
// vector, are unspecified.
template <class A, std::size_t rows, class E>
[[gnu::noinline, gnu::flatten]] void row_scores(const A *queries, const RowRun<E> *keys,
                                                const RowRun<E> *last, std::size_t count, std::size_t dim,
                                                A *scores) {
  using S = simd<A>;
  // NEON uses four vectors. In a model of a Neoverse N1 with one query, two chains take 16 cycles per 8
  // operations, and four take 12. Two AVX-512 vectors of f32 keys are two runs, whose pointers and those of
  // four queries fill the registers.
  constexpr bool one_run = 2 * S::width <= RowRun<E>::rows;
  constexpr std::size_t vectors = rows <= 2 && MultipliesByLane<S> ? 4 : rows <= (one_run ? 4 : 2) ? 2 : 1;
  constexpr std::size_t together = vectors * S::width;
  static_assert(together <= 2 * RowRun<E>::rows);  // RunList scatters pairs of runs
  if (any_scattered(keys)) [[unlikely]] {
    return scattered_row_scores<A, rows, vectors>(queries, keys, last, count, dim, scores);
  }
  LinesAhead<E, rows, rows <= 4 ? Cache::l1 : Cache::l2> lines(keys, last);
  std::size_t j = 0;
  const auto fetch = [&](std::size_t keys_at_once) RAPT_INNER {
    for (std::size_t i = 0; i < keys_at_once; i += RowRun<E>::rows) {
      if ((j + i) % RowRun<E>::rows == 0) fetch_pages<rows>(keys + (j + i) / RowRun<E>::rows, last);
    }
  };
  if constexpr (rows <= 2 && vectors == 2 && S::width == RowRun<E>::rows) {
    if (keys->alone) {
      for (; count - j >= S::width; j += S::width) {
        transposed_scores<A, rows, 1>(queries, KeyRows<E, S::width>(keys, j), lines, dim, scores + j);
      }
    }
  }
  for (; count - j >= together; j += together) {
    fetch(together);
    transposed_scores<A, rows, vectors>(queries, KeyRows<E, together>(keys, j), lines, dim, scores + j);
  }
  if constexpr (std::is_same_v<A, E> && rows <= 2) {
    if (j < count && count - j <= most_chained_keys) {
      return chained_scores<A, rows>(queries, keys, j, count - j, dim, scores);
    }
  }
  if constexpr (vectors > 1) {
    if (count - j > S::width) {
      fetch(together);
      const LastKeyRows<E, together> last_rows(keys, j, count - j);
      return transposed_scores<A, rows, vectors>(queries, last_rows, lines, dim, scores + j);
    }
  }
  if (j < count) {
    fetch(S::width);
    by_four_rows<rows>([&](std::size_t r, auto some) RAPT_INNER {
      last_scores<A, some>(queries + r * dim, keys, j, count - j, dim, scores + r * rapt::attention_block);
    });
  }
}

// Multiplies values[r][d] by rescale[r], and adds weights[r][j] * (value j)[d] for each key j, in key order.
// It does this for `vectors` vectors of dimensions from d on. The last vector has `tail` elements unless it
// is `whole`.
template <class A, std::size_t rows, std::size_t vectors, bool whole, class E>
RAPT_INNER inline void row_values_of(const A *weights, const RowRun<E> *value, std::size_t keys,
                                     LinesAhead<E, rows, Cache::l1> &lines, const A *rescale, std::size_t d,
                                     std::size_t tail, A *values, std::size_t pitch) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t block = rapt::attention_block, size = RowRun<E>::rows;
  batch sum[rows][vectors];
  unroll<rows>([&](std::size_t r) RAPT_INNER {
    const batch factor(rescale[r]);
    unroll<vectors>([&](std::size_t v)
                        RAPT_INNER { sum[r][v] = S::load(values + r * pitch + d + v * S::width) * factor; });
  });
  for (std::size_t j = 0; j < keys; j += size, ++value) {
    if (d == 0) fetch_pages<rows>(value, lines.last());
    const std::size_t run_end = keys - j < size ? keys : j + size;
    const RowRun<E> &next = RowsAhead<E, rows>::run_of(value, lines);
    for (std::size_t i = j; i < run_end;) {  // scattered rows are taken one by one
      const std::size_t end = value->scattered ? i + 1 : run_end;
      const E *from = (value->scattered ? value->scattered[i - j] : value->first) + d;
      RowsAhead<E, rows> ahead(next, lines, d, i - j);
      if constexpr (whole && MultipliesByLane<S>) {  // one load has the weights of several keys
        for (; end - i >= S::width; i += S::width) {
          batch weight[rows];
          unroll<rows>([&](std::size_t r) RAPT_INNER { weight[r] = S::load(weights + r * block + i); });
          unroll<S::width>([&](auto k) RAPT_INNER {
            unroll<vectors>([&](auto v) RAPT_INNER {
              constexpr std::size_t bytes = v * S::width * sizeof(E);
              if constexpr (bytes % 64 == 0) ahead.fetch(bytes);
              const batch element = S::load(from + v * S::width);
              unroll<rows>([&](std::size_t r) RAPT_INNER {
                sum[r][v] = S::template fma_by_lane<k>(weight[r], element, sum[r][v]);
              });
            });
            from += value->stride;
            ahead.next_row();
          });
        }
      }
      for (; i < end; ++i, from += value->stride, ahead.next_row()) {
        batch element[vectors];
        unroll<vectors>([&](auto v) RAPT_INNER {
          constexpr std::size_t bytes = v * S::width * sizeof(E);
          if constexpr (bytes % 64 == 0) ahead.fetch(bytes);
          element[v] = whole || v + 1 < vectors ? S::load(from + v * S::width)
                                                : S::load_first(from + v * S::width, tail);
        });
        unroll<rows>([&](std::size_t r) RAPT_INNER {
          const batch weight((weights + r * block)[i]);
          unroll<vectors>([&](std::size_t v)
                              RAPT_INNER { sum[r][v] = S::fma(weight, element[v], sum[r][v]); });
        });
      }
    }
  }
  unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t v)
                                  RAPT_INNER { S::store(values + r * pitch + d + v * S::width, sum[r][v]); });
}

// Calls row_values_of() for all dimensions from d on, first `vectors` vectors at a time, then fewer.
template <class A, std::size_t rows, std::size_t vectors, class E>
RAPT_INNER inline void row_values_from(const A *weights, const RowRun<E> *value, std::size_t keys,
                                       LinesAhead<E, rows, Cache::l1> &lines, const A *rescale, std::size_t d,
                                       std::size_t dim, A *values, std::size_t pitch) {
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
[[gnu::noinline, gnu::flatten]] void row_values(const A *weights, const RowRun<E> *value, std::size_t keys,
                                                const RowRun<E> *last, const A *rescale, std::size_t dim,
                                                A *values, std::size_t pitch) {
  // Accumulators for this many vectors per row leave registers for an element and a weight. Keeping a few
  // accumulators in memory costs less than another pass over the values. With MultipliesByLane, each row has
  // a vector of weights, so 8 rows leave registers for only two vectors.
  constexpr std::size_t vectors = simd<A>::registers == 32 ? (rows <= 2                                 ? 8
                                                              : rows <= 4                               ? 4
                                                              : rows <= 6 && !MultipliesByLane<simd<A>> ? 4
                                                              : rows <= 14                              ? 2
                                                                                                        : 1)
                                                           : (rows <= 1   ? 8
                                                              : rows <= 4 ? 4
                                                                          : 2);
  LinesAhead<E, rows, Cache::l1> lines(value, last);
  row_values_from<A, rows, vectors>(weights, value, keys, lines, rescale, 0, dim, values, pitch);
}

}  // namespace
