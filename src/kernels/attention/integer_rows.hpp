// Multiplies a few rows by a block of int8 keys or values. Queries and weights are 16-bit integers. Products
// are summed in 32 bits.
//
// Each instruction-set level defines a class Simd with these members:
//
//   Sums, Wide       vectors of as many 32-bit lanes as simd<float>, and of twice as many 16-bit lanes
//   widened(p)       loads `wide` bytes as 16 bits. widened_first(p, k) loads only k bytes, the others are 0
//   add_products(s, a, b)    adds products of a and b to s. A lane of s gets the same lanes in every call
//   fold_quarters(v), join_quarters(v)
//                    fold_quarters folds the accumulators of four keys, a quarter of a vector apart.
//                    join_quarters makes one vector of its results, with a lane per key
//   columns(a, b)    interleaves two rows. add_columns(sums, columns, pair) adds them, times two weights
//   in_order(sums)   sorts the sums of add_columns by column
//   greater_magnitude(m, v), largest(m)
//                    find the largest magnitude. They compare bits, so NaN is above infinity
//   store_rounded(to, v)
//                    stores numbers as 16-bit integers, rounded to nearest even
//   load_parts(p, apart)
//                    loads four floats from each of p, p + apart, p + 2 apart and so on
//   even_bytes(words), odd_bytes(words), transposed_rows
//                    optional (TransposesBytes): bytes 0 and 2 of each 32-bit word, as 16 bits; bytes 1
//                    and 3; the number of rows that share a transposed key
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "contract/attention.hpp"
#include "contract/int8_attention.hpp"
#include "kernels/attention/lines_ahead.hpp"
#include "kernels/attention/row_products.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

using Int8Run = RowRun<std::int8_t>;

// Describes a segment of up to 512 dimensions, and the factors that turn its sums into scores.
struct ScoreSegment {
  const std::int16_t *queries;  // at the segment's first dimension
  std::size_t pitch;
  const float *steps;  // one per row
  std::size_t step_pitch;
  const float *k_scales;  // one per key of the block
  std::size_t from, dim;
  bool is_first;
};

// Describes the weights of a block, which are integers with one step per row, and the dimensions [from, end)
// of a scale group that they multiply.
struct ValueSegment {
  const std::int16_t *weights;
  std::size_t weights_pitch;
  const float *steps, *rescale;
  std::size_t from, end;
  float *values;
  std::size_t pitch;
};

// Converts a segment's sums for a vector of keys to f32, and adds them to the scores of row r.
template <class I>
RAPT_INNER inline void add_segment(const ScoreSegment &of, std::size_t r, std::size_t j, typename I::Sums sum,
                                   float *scores) {
  using S = simd<float>;
  using batch = typename S::batch;
  float *const score = scores + r * rapt::attention_block + j;
  const batch before = of.is_first ? batch(0.0f) : S::load(score);
  const batch product = I::numbers(sum) * batch(of.steps[r * of.step_pitch]);
  S::store(score, S::fma(product, S::load(of.k_scales + j), before));
}

// Returns the distance from a key to the key to prefetch, which has the same place in a later run. Scattered keys have
// no such distance: fetch_row() prefetches, and 0 prefetches them again, which costs little.
inline std::uintptr_t distance_to_fetch(const Int8Run &run, const Int8Run &ahead) {
  if (run.scattered) [[unlikely]]
    return 0;
  return reinterpret_cast<std::uintptr_t>(ahead.first) - reinterpret_cast<std::uintptr_t>(run.first);
}
// Prefetches `dim` dimensions of a row, from dimension `from` on.
RAPT_INNER inline void fetch_row(const Int8Run &run, std::size_t row, std::size_t from, std::size_t dim) {
  const auto at = reinterpret_cast<std::uintptr_t>(run.row(row)) + from;
  for (std::size_t d = 0; d < dim; d += 64) fetch_line<Cache::l1>(at + d, run.to_l2);
}

template <class I>
concept TransposesBytes = requires(simd<float>::batch words) {
  I::even_bytes(words);
  I::odd_bytes(words);
};

// Describes queries with several scale groups. They store every four dimensions in the order 0, 2, 1, 3.
struct GroupedScores {
  const std::int16_t *queries;
  std::size_t pitch;
  const float *steps;  // one per group, for each row
  std::size_t step_pitch;
  const float *k_scales;  // [groups][64]
  std::size_t group, dim;

  GroupedScores from_row(std::size_t r) const {
    GroupedScores rest = *this;
    rest.queries += r * pitch;
    rest.steps += r * step_pitch;
    return rest;
  }
};

// Reads rows of bytes as words of four bytes.
template <class Rows>
struct ByteWords {
  const Rows &rows;
  RAPT_INNER const float *operator[](std::size_t i) const { return reinterpret_cast<const float *>(rows[i]); }
};

// Holds the addresses of rows of a run, from a column on, and of the rows to prefetch meanwhile. Rows past the last one
// have no valid pointers, so the addresses to prefetch are integers.
class EvenColumns {
 public:
  EvenColumns(const Int8Run &run, const Int8Run &ahead, std::size_t column)
      : row_(run.first + column),
        stride_(run.stride),
        ahead_(reinterpret_cast<std::uintptr_t>(ahead.first) + column),
        ahead_stride_(static_cast<std::uintptr_t>(ahead.stride)) {}
  RAPT_INNER const std::int8_t *row(std::size_t i) const {
    return row_ + static_cast<std::ptrdiff_t>(i) * stride_;
  }
  RAPT_INNER void fetch(std::size_t i, std::size_t at) const {
    fetch_line<Cache::l1>(ahead_ + i * ahead_stride_ + at);
  }
  RAPT_INNER void advance(std::size_t rows) {
    row_ += static_cast<std::ptrdiff_t>(rows) * stride_;
    ahead_ += rows * ahead_stride_;
  }

 private:
  const std::int8_t *row_;
  std::ptrdiff_t stride_;
  std::uintptr_t ahead_, ahead_stride_;
};
// Does the work of EvenColumns for runs whose rows may be scattered.
class ScatteredColumns {
 public:
  ScatteredColumns(const Int8Run &run, const Int8Run &ahead, std::size_t column)
      : run_(run), ahead_(ahead), column_(column) {}
  RAPT_INNER const std::int8_t *row(std::size_t i) const { return run_.row(first_ + i) + column_; }
  RAPT_INNER void fetch(std::size_t i, std::size_t at) const {
    fetch_line<Cache::l1>(reinterpret_cast<std::uintptr_t>(ahead_.row(first_ + i)) + column_ + at,
                          ahead_.to_l2);
  }
  RAPT_INNER void advance(std::size_t rows) { first_ += rows; }

 private:
  const Int8Run &run_, &ahead_;
  std::size_t column_, first_ = 0;
};

// Multiplies by packed keys and by values, whose columns are in the lanes. Columns is a class with these members:
//
//   I                     the level's class
//   columns               the number of columns that are summed together: one vector of sums, or two
//   together<rows>, least how many times as many a pass takes for `rows` rows, and the last pass
//   Sums<vectors>         the sums of vectors * columns columns. at(sums, v) is vector v of them
//   column_sums<rows, vectors, whole>(weights, pitch, rows_at, count, column, left, sum)
//                         sums weight times row over `count` rows, for the columns from `column` on, of which only
//                         `left` exist unless `whole`. rows_at(i) returns the rows from 16 i on, as EvenColumns or
//                         ScatteredColumns. Weights of 0 follow the last one
template <class Columns>
struct ColumnRows {
  using I = typename Columns::I;

  // Computes scores of packed keys. Dimension d of the block's keys is at keys + 64 d.
  template <std::size_t rows>
  [[gnu::noinline, gnu::flatten]] static void packed_scores(const ScoreSegment &of, const std::int8_t *keys,
                                                            float *scores) {
    using S = simd<float>;
    constexpr std::size_t block = rapt::attention_block, columns = Columns::columns;
    constexpr std::size_t most = Columns::template together<rows>;
    constexpr auto stride = static_cast<std::ptrdiff_t>(block);
    const std::int8_t *const first = keys + of.from * block;
    constexpr std::size_t vectors = most * columns < block ? most : block / columns;
    for (std::size_t j = 0; j < block; j += vectors * columns) {
      const auto rows_at = [&](std::size_t i) RAPT_INNER {
        const auto run = [&](std::size_t at) RAPT_INNER {
          return Int8Run{first + at * Int8Run::rows * block, stride, block, 0, false, false, nullptr};
        };
        return EvenColumns(run(i), run(i + 2), j);
      };
      typename Columns::template Sums<vectors> sum[rows];
      Columns::template column_sums<rows, vectors, true>(of.queries, of.pitch, rows_at, of.dim, j, 0, sum);
      unroll_pairs<rows, vectors * columns / S::width>([&](std::size_t r, std::size_t v) RAPT_INNER {
        add_segment<I>(of, r, j + v * S::width, Columns::at(sum[r], v), scores);
      });
    }
  }

  template <std::size_t rows>
  RAPT_INNER static void values(const ValueSegment &of, const Int8Run *run, const Int8Run *last,
                                std::size_t keys) {
    if constexpr (rows <= most_addressed) {
      if (any_scattered(run)) [[unlikely]] {
        return run_values<rows, ScatteredColumns>(of, run, last, keys);
      }
    }
    run_values<rows, EvenColumns>(of, run, last, keys);
  }

 private:
  template <std::size_t rows, class Rows>
  [[gnu::noinline, gnu::flatten]] static void run_values(const ValueSegment &of, const Int8Run *run,
                                                         const Int8Run *last, std::size_t keys) {
    if (of.from == 0) {
      for (std::size_t i = 0; i < runs_per_block; ++i) fetch_pages<rows>(run + i, last);
    }
    values_from<rows, Columns::template together<rows>, Rows>(of, run, last, keys, of.from);
  }
  template <std::size_t rows, std::size_t vectors, bool whole, class Rows>
  RAPT_INNER static void values_of(const ValueSegment &of, const Int8Run *run, const Int8Run *last,
                                   std::size_t keys, std::size_t column) {
    using S = simd<float>;
    const auto rows_at = [&](std::size_t i) RAPT_INNER {
      return Rows(run[i], *run_after(run + i, runs_ahead<rows>(run[i]), last), column);
    };
    typename Columns::template Sums<vectors> sum[rows];
    Columns::template column_sums<rows, vectors, whole>(of.weights, of.weights_pitch, rows_at, keys, column,
                                                        of.end - column, sum);
    unroll<rows>([&](std::size_t r) RAPT_INNER {
      const typename S::batch step(of.steps[r]), rescale(of.rescale[r]);
      unroll<vectors * Columns::columns / S::width>([&](std::size_t v) RAPT_INNER {
        const std::size_t at = column + v * S::width;
        if (!whole && at >= of.end) return;
        float *const out = of.values + r * of.pitch + at;
        S::store(out, S::fma(I::numbers(Columns::at(sum[r], v)), step, S::load(out) * rescale));
      });
    });
  }

  // Adds the weighted values to all dimensions from `column` on, at first `vectors` times Columns::columns at a time.
  template <std::size_t rows, std::size_t vectors, class Rows>
  RAPT_INNER static void values_from(const ValueSegment &of, const Int8Run *run, const Int8Run *last,
                                     std::size_t keys, std::size_t column) {
    constexpr std::size_t columns = vectors * Columns::columns;
    for (; of.end - column >= columns; column += columns) {
      values_of<rows, vectors, true, Rows>(of, run, last, keys, column);
    }
    if constexpr (vectors > Columns::least) {
      values_from<rows, vectors / 2, Rows>(of, run, last, keys, column);
    } else if (column < of.end) {
      values_of<rows, Columns::least, false, Rows>(of, run, last, keys, column);
    }
  }
};

// Sums columns as pairs of products of 16-bit integers.
template <class Simd>
struct PairColumns {
  using I = Simd;
  static constexpr std::size_t columns = I::wide, least = 1;
  template <std::size_t rows>
  static constexpr std::size_t together = I::template column_vectors<rows>;
  template <std::size_t vectors>
  using Sums = typename I::Sums[vectors][2];

  template <std::size_t vectors>
  RAPT_INNER static typename I::Sums at(const typename I::Sums (&sums)[vectors][2], std::size_t v) {
    return sums[v / 2][v % 2];
  }

  template <std::size_t rows, std::size_t vectors, bool whole, class RowsAt>
  RAPT_INNER static void column_sums(const std::int16_t *weights, std::size_t pitch, RowsAt rows_at,
                                     std::size_t count, std::size_t column, std::size_t left,
                                     typename I::Sums (&sum)[rows][vectors][2]) {
    constexpr std::size_t line = 64;
    unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t v)
                                    RAPT_INNER { sum[r][v][0] = sum[r][v][1] = I::zero(); });
    for (std::size_t i = 0; i < count; i += Int8Run::rows) {
      auto rows_of_run = rows_at(i / Int8Run::rows);
      const std::size_t end = count - i < Int8Run::rows ? count - i : Int8Run::rows;
      for (std::size_t j = 0; j < end; j += 2, rows_of_run.advance(2)) {
        const std::int8_t *const a = rows_of_run.row(0), *const b = j + 1 < end ? rows_of_run.row(1) : a;
        typename I::Columns columns[vectors];
        unroll<vectors>([&](auto v) RAPT_INNER {
          constexpr std::size_t at = v * I::wide;
          if constexpr (at % line == 0) {
            if (column % line == 0) {
              rows_of_run.fetch(0, at);
              rows_of_run.fetch(1, at);
            }
          }
          if constexpr (whole || v + 1 < vectors) {
            columns[v] = I::columns(I::widened(a + at), I::widened(b + at));
          } else {
            columns[v] = I::columns(I::widened_first(a + at, left - at), I::widened_first(b + at, left - at));
          }
        });
        unroll<rows>([&](std::size_t r) RAPT_INNER {
          const auto pair = I::pair(weights + r * pitch + i + j);
          unroll<vectors>([&](std::size_t v) RAPT_INNER { I::add_columns(sum[r][v], columns[v], pair); });
        });
      }
    }
    unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t v) RAPT_INNER { I::in_order(sum[r][v]); });
  }
};

// Simd is the instruction-set level's class with the members above.
template <class Simd>
struct IntegerRows : ColumnRows<PairColumns<Simd>> {
  using I = Simd;

  // Computes the scores of keys that are not packed, with keys in the lanes. Squares of 32-bit words are
  // transposed once for all rows, and no sum needs a fold. With dimensions in the lanes, scale groups of 32
  // dimensions would need a fold per group and row.
  //
  //   AVX-512, uops per 16 keys and 32 dimensions | per row  | for all rows
  //   dimensions in the lanes (scores)            | 61       | 16
  //   keys in the lanes (this one)                | 16       | 56
  template <std::size_t rows>
  [[gnu::noinline, gnu::flatten]] static void transposed_scores(const GroupedScores &of, const Int8Run *run,
                                                                const Int8Run *last, std::size_t count,
                                                                float *scores) {
    using S = simd<float>;
    constexpr std::size_t width = S::width, square = 4 * width;
    LinesAhead<std::int8_t, rows, rows <= 4 ? Cache::l1 : Cache::l2> lines(run, last);
    for (std::size_t j = 0; j < count; j += width) {
      if (j % Int8Run::rows == 0) fetch_pages<rows>(run + j / Int8Run::rows, last);
      const std::size_t left = count - j < width ? count - j : width;
      const std::size_t whole =
          left < width || run[j / Int8Run::rows].scattered ? 0 : of.dim / square * square;
      typename I::Sums sum[rows];
      unroll<rows>([&](std::size_t r) RAPT_INNER { sum[r] = I::zero(); });
      KeyRows<std::int8_t, width> key_rows(run, j);
      for (std::size_t d = 0; d < whole; d += square, key_rows.advance(square)) {
        add_square<rows>(of, key_rows, d, j, lines, sum, scores + j);
      }
      if (whole == of.dim) continue;
      // last_transposed_scores() prefetches nothing. So the lines that its square stands for are prefetched here.
      for (std::size_t d = whole; left == width && d < of.dim; d += square) {
        for (std::size_t i = 0; i < square * width / 64; ++i) lines.fetch();
      }
      // A copy, so that the sums of the loop have no address, and stay in registers.
      typename I::Sums begun[rows];
      unroll<rows>([&](std::size_t r) RAPT_INNER { begun[r] = sum[r]; });
      by_four_rows<rows>([&](std::size_t r, auto some) RAPT_INNER {
        last_transposed_scores<some>(of.from_row(r), run, j, left, whole, begun + r,
                                     scores + r * rapt::attention_block + j);
      });
    }
  }
  // Adds the dimensions from `from` on of `left` keys to sums that were begun before (by_four_rows).
  template <std::size_t rows>
  [[gnu::noinline, gnu::flatten]] static void last_transposed_scores(const GroupedScores &of,
                                                                     const Int8Run *run, std::size_t first,
                                                                     std::size_t left, std::size_t from,
                                                                     const typename I::Sums *begun,
                                                                     float *scores) {
    constexpr std::size_t width = simd<float>::width, square = 4 * width;
    const std::int8_t *row[width];
    for (std::size_t i = 0; i < width; ++i) row[i] = row_of(run, first + (i < left ? i : left - 1)) + from;
    typename I::Sums sum[rows];
    unroll<rows>([&](std::size_t r) RAPT_INNER { sum[r] = begun[r]; });
    NoLines lines;
    for (std::size_t d = from; d < of.dim; d += square) {
      alignas(64) std::int8_t copy[width][square];
      if (of.dim - d < square) fill_square(row, of.dim - d, copy);
      add_square<rows>(of, row, d, first, lines, sum, scores);
      for (std::size_t i = 0; i < width; ++i) row[i] += square;
    }
  }

  // Adds a square of keys by words to the sums, from dimension d on. At the end of a scale group, or of 512
  // dimensions, adds the sums to the scores of the keys from j on, and clears them.
  template <std::size_t rows, class Rows, class Lines>
  RAPT_INNER static void add_square(const GroupedScores &of, const Rows &key_rows, std::size_t d,
                                    std::size_t j, Lines &lines, typename I::Sums (&sum)[rows],
                                    float *scores) {
    using S = simd<float>;
    using batch = typename S::batch;
    constexpr std::size_t square = 4 * S::width, finest = square < 32 ? square : 32;
    constexpr std::size_t segment = rapt::Int8Attention::segment;
    const std::size_t part = of.group < segment ? of.group : segment;  // dimensions of one integer sum
    const std::int16_t *const queries = of.queries + d;
    const std::size_t left = of.dim - d;
    S::each_transposed(ByteWords<Rows>{key_rows}, 0, [&](auto i, batch keys) RAPT_INNER {
      if constexpr (i * square % 64 == 0) lines.template fetch<0, 1>();
      const typename I::Wide even = I::even_bytes(keys), odd = I::odd_bytes(keys);
      if (4 * i < left) {
        unroll<rows>([&](std::size_t r) RAPT_INNER {
          const std::int16_t *const query = queries + r * of.pitch + 4 * i;
          sum[r] = I::add_products(sum[r], even, I::pair(query));
          sum[r] = I::add_products(sum[r], odd, I::pair(query + 2));
        });
      }
      constexpr std::size_t end = 4 * (i + 1);
      if constexpr (end % finest == 0) {
        if (end < left ? (d + end) % part == 0 : end - finest < left) {
          const std::size_t last = end < left ? d + end : d + left, g = (last - 1) / of.group;
          const batch k_scale = S::load(of.k_scales + g * rapt::attention_block + j);
          unroll<rows>([&](std::size_t r) RAPT_INNER {
            float *const score = scores + r * rapt::attention_block;
            const batch before = last <= part ? batch(0.0f) : S::load(score);
            const batch product = I::numbers(sum[r]) * batch((of.steps + r * of.step_pitch)[g]);
            S::store(score, S::fma(product, k_scale, before));
            sum[r] = I::zero();
          });
        }
      }
    });
  }

  // Computes the scores of keys that are not packed, one vector of keys after the other. It takes four keys
  // of a vector at a time, which leaves registers for a few rows. `fixed` is the segment's length if that is
  // a constant, or 0.
  template <std::size_t rows, std::size_t fixed>
  [[gnu::noinline, gnu::flatten]] static void scores(const ScoreSegment &of, const Int8Run *run,
                                                     const Int8Run *last, std::size_t count, float *scores) {
    using S = simd<float>;
    constexpr std::size_t quarter = S::width / 4, line = 64;
    const std::size_t dim = fixed != 0 ? fixed : of.dim;
    for (std::size_t j = 0; j < count; j += S::width) {
      const Int8Run &of_keys = run[j / Int8Run::rows],
                    &ahead = *run_after(&of_keys, runs_ahead<rows>(of_keys), last);
      if (j % Int8Run::rows == 0) fetch_pages<rows>(&of_keys, last);
      const std::uintptr_t to_next = distance_to_fetch(of_keys, ahead);
      const std::int8_t *const first = of_keys.first + of.from;
      const std::ptrdiff_t stride = of_keys.stride;
      const bool is_whole_run = count - j >= S::width && !of_keys.scattered;
      typename I::Sums folded[rows][quarter];
      for (std::size_t g = 0; g < quarter; ++g) {
        const std::int8_t *key[4];
        const std::size_t in_run = j % Int8Run::rows + g;
        if (is_whole_run) [[likely]] {
          key[0] = first + stride * static_cast<std::ptrdiff_t>(in_run);
          unroll<3>([&](std::size_t i)
                        RAPT_INNER { key[i + 1] = key[i] + stride * static_cast<std::ptrdiff_t>(quarter); });
        } else if (of_keys.scattered) [[unlikely]] {
          unroll<4>([&](std::size_t i) RAPT_INNER {
            key[i] = of_keys.scattered[in_run + i * quarter] + of.from;
            fetch_row(ahead, in_run + i * quarter, of.from, dim);
          });
        } else {  // the last key replaces missing ones
          const std::size_t last_key = (count - 1) % Int8Run::rows;
          unroll<4>([&](std::size_t i) RAPT_INNER {
            const std::size_t row = in_run + i * quarter;
            key[i] = first + stride * static_cast<std::ptrdiff_t>(row < last_key ? row : last_key);
          });
        }
        typename I::Sums sum[rows][4];
        unroll_pairs<rows, 4>([&](std::size_t r, std::size_t i) RAPT_INNER { sum[r][i] = I::zero(); });
        const auto fetch = [&](std::size_t d) RAPT_INNER {
          unroll<4>([&](std::size_t i) RAPT_INNER {
            fetch_line<Cache::l1>(reinterpret_cast<std::uintptr_t>(key[i]) + to_next + d);
          });
        };
        const auto add = [&](std::size_t d, auto widened) RAPT_INNER {
          typename I::Wide keys[4];
          unroll<4>([&](std::size_t i) RAPT_INNER { keys[i] = widened(key[i] + d); });
          unroll<rows>([&](std::size_t r) RAPT_INNER {
            const auto factors = I::load(of.queries + r * of.pitch + d);
            unroll<4>([&](std::size_t i)
                          RAPT_INNER { sum[r][i] = I::add_products(sum[r][i], keys[i], factors); });
          });
        };
        const auto whole = [](const std::int8_t *at) RAPT_INNER { return I::widened(at); };
        if constexpr (fixed != 0) {
          unroll<fixed / I::wide>([&](auto w) RAPT_INNER {
            if constexpr (w * I::wide % line == 0) fetch(w * I::wide);
            add(w * I::wide, whole);
          });
        } else {
          std::size_t d = 0;
          for (; dim - d >= I::wide; d += I::wide) {
            if ((of.from + d) % line == 0) fetch(d);
            add(d, whole);
          }
          if (d < dim) {
            if ((of.from + d) % line == 0) fetch(d);
            const std::size_t tail = dim - d;
            add(d, [&](const std::int8_t *at) RAPT_INNER { return I::widened_first(at, tail); });
          }
        }
        unroll<rows>([&](std::size_t r) RAPT_INNER { folded[r][g] = I::fold_quarters(sum[r]); });
      }
      unroll<rows>([&](std::size_t r)
                       RAPT_INNER { add_segment<I>(of, r, j, I::join_quarters(folded[r]), scores); });
    }
  }
};

}  // namespace
