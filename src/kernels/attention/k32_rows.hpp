// Multiplies a few rows in RAPT_ARITHMETIC_BF16. The vector lanes are keys for scores, and dimensions for
// values. A 32-bit word has an even and an odd element of bf16. Transposed words of keys feed the even and
// the odd chain. Words of values feed two accumulators.
//
// Keys and values are read once, as bf16. FTZ and DAZ must be on.
#pragma once

#include <cstddef>
#include <type_traits>

#include "contract/bf16_arithmetic.hpp"
#include "kernels/attention/lines_ahead.hpp"
#include "kernels/attention/row_products.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Reads rows of bf16 as words of two elements.
template <class Rows>
struct WordRows {
  const Rows &rows;
  RAPT_INNER const float *operator[](std::size_t i) const { return reinterpret_cast<const float *>(rows[i]); }
};

// Multiplies values by weights. A strip is two vectors of a value's dimensions. One sums the even dimensions and the
// other the odd ones, or, if the strip is not whole, the first ones and those after them.
struct WideningStrips {
  using S = simd<float>;
  using batch = typename S::batch;

  // Adds weight times value for the keys [j, end) of a run, to one chain for even keys and one for odd ones. `values`
  // has these values from a dimension on. Only `left` dimensions exist from there on, unless `whole`.
  template <std::size_t rows, std::size_t strips, bool whole, class Values, class Ahead>
  RAPT_INNER static void add_rows(const float *weights, std::size_t j, std::size_t end, Values values,
                                  std::size_t left, Ahead &ahead, batch (&chain)[2][rows][strips][2]) {
    constexpr std::size_t strip = 2 * S::width, block = rapt::attention_block;
    const auto take = [&](std::size_t i, batch(&of)[rows][strips][2]) RAPT_INNER {
      const rapt::BF16 *const from = values.next();
      unroll<strips>([&](auto s) RAPT_INNER {
        if constexpr (s * strip * 2 % 64 == 0) ahead.fetch(s * strip * 2);
        batch v[2];
        load<whole>(from + s * strip, left, v);
        unroll<rows>([&](std::size_t r) RAPT_INNER {
          const batch weight((weights + r * block)[i]);
          of[r][s][0] = S::fma(weight, v[0], of[r][s][0]);
          of[r][s][1] = S::fma(weight, v[1], of[r][s][1]);
        });
      });
      ahead.next_row();
    };
    std::size_t i = j;
    for (; end - i >= 2; i += 2) {
      take(i, chain[0]);
      take(i + 1, chain[1]);
    }
    if (i < end) take(i, chain[0]);
  }
  // Puts a strip's sums in the order of its dimensions. Those of a strip that is not whole were loaded in order.
  template <bool whole>
  RAPT_INNER static void in_order(batch &a, batch &b) {
    if constexpr (whole) S::interleave(a, b);
  }

 private:
  // One load of words brings both vectors of a whole strip. Of other strips, elements are loaded.
  template <bool whole>
  RAPT_INNER static void load(const rapt::BF16 *from, std::size_t left, batch (&v)[2]) {
    if constexpr (whole) {
      const batch words = S::load(reinterpret_cast<const float *>(from));
      v[0] = S::lower_bf16(words);
      v[1] = S::upper_bf16(words);
    } else {
      v[0] = S::load_first(from, left);
      v[1] = left > S::width ? S::load_first(from + S::width, left - S::width) : batch(0.0f);
    }
  }
};

// Adds the weighted values of a block. Strips is WideningStrips, or a level's replacement such as BfmlalStrips.
template <class Strips>
struct K32Values {
  template <std::size_t rows>
  RAPT_INNER static void values(const float *weights, const RowRun<rapt::BF16> *value, std::size_t keys,
                                const RowRun<rapt::BF16> *last, std::size_t dim, float *values,
                                std::size_t pitch) {
    if (any_scattered(value)) [[unlikely]]
      return run_values<rows, true>(weights, value, keys, last, dim, values, pitch);
    run_values<rows, false>(weights, value, keys, last, dim, values, pitch);
  }

 private:
  template <std::size_t rows, bool scattered>
  [[gnu::noinline, gnu::flatten]] static void run_values(const float *weights,
                                                         const RowRun<rapt::BF16> *value, std::size_t keys,
                                                         const RowRun<rapt::BF16> *last, std::size_t dim,
                                                         float *values, std::size_t pitch) {
    // Four accumulators per row and strip must be in registers.
    constexpr std::size_t registers = simd<float>::registers == 32 ? 16 : 8;
    constexpr std::size_t strips = rows * 4 >= registers ? 1 : registers / (rows * 4);
    LinesAhead<rapt::BF16, rows, Cache::l1> lines(value, last);
    values_from<rows, strips, scattered>(weights, value, keys, lines, 0, dim, values, pitch);
  }

  // Adds the weighted values of a block to values[r][d ...], for `strips` strips of dimensions.
  template <std::size_t rows, std::size_t strips, bool whole, bool scattered>
  RAPT_INNER static void values_of(const float *weights, const RowRun<rapt::BF16> *value, std::size_t keys,
                                   LinesAhead<rapt::BF16, rows, Cache::l1> &lines, std::size_t d,
                                   std::size_t left, float *values, std::size_t pitch) {
    using S = simd<float>;
    using batch = typename S::batch;
    using E = rapt::BF16;
    constexpr std::size_t k32 = rapt::Bf16Contract::k32;
    constexpr std::size_t strip = 2 * S::width, size = RowRun<E>::rows;
    constexpr bool in_passes = strips * strip < 128;
    using Rows = std::conditional_t<scattered, ScatteredRows<E>, EvenRows<E>>;
    using Ahead = std::conditional_t<scattered, ScatteredRowsAhead<E, rows, in_passes>, RowsAhead<E, rows>>;
    const auto each = [](auto f) RAPT_INNER { unroll_pairs<rows, strips>(f); };
    for (std::size_t first = 0; first < keys; first += k32) {
      batch chain[2][rows][strips][2];
      each([&](std::size_t r, std::size_t s) RAPT_INNER {
        chain[0][r][s][0] = chain[0][r][s][1] = chain[1][r][s][0] = chain[1][r][s][1] = batch(0.0f);
      });
      const std::size_t k32_end = keys - first < k32 ? keys : first + k32;
      for (std::size_t j = first; j < k32_end; j += size, ++value) {
        if (d == 0) fetch_pages<rows>(value, lines.last());
        const std::size_t end = k32_end - j < size ? k32_end : j + size;
        Ahead ahead(value, lines, d);
        Strips::template add_rows<rows, strips, whole>(weights, j, end, Rows(*value, d), left, ahead, chain);
      }
      each([&](std::size_t r, std::size_t s) RAPT_INNER {
        batch a = chain[0][r][s][0] + chain[1][r][s][0], b = chain[0][r][s][1] + chain[1][r][s][1];
        Strips::template in_order<whole>(a, b);
        float *const to = values + r * pitch + d + s * strip;
        S::store(to, S::load(to) + a);
        if (whole || left > S::width) S::store(to + S::width, S::load(to + S::width) + b);
      });
    }
  }

  template <std::size_t rows, std::size_t strips, bool scattered>
  RAPT_INNER static void values_from(const float *weights, const RowRun<rapt::BF16> *value, std::size_t keys,
                                     LinesAhead<rapt::BF16, rows, Cache::l1> &lines, std::size_t d,
                                     std::size_t dim, float *values, std::size_t pitch) {
    constexpr std::size_t strip = 2 * simd<float>::width;
    for (; dim - d >= strips * strip; d += strips * strip) {
      values_of<rows, strips, true, scattered>(weights, value, keys, lines, d, 0, values, pitch);
    }
    if constexpr (strips > 1) {
      values_from<rows, strips / 2, scattered>(weights, value, keys, lines, d, dim, values, pitch);
    } else if (d < dim) {
      values_of<rows, 1, false, scattered>(weights, value, keys, lines, d, dim - d, values, pitch);
    }
  }
};

// The chains of the 32 dimensions at hand: one for even and one for odd dimensions.
template <std::size_t rows>
struct K32Chains {
  using S = simd<float>;
  using batch = typename S::batch;

  RAPT_INNER K32Chains() {
    unroll<rows>([&](std::size_t r) RAPT_INNER { even[r] = odd[r] = batch(0.0f); });
  }
  // Adds a square of S::width keys by S::width words. Queries begin with the square's first dimension.
  template <class Square, class Lines>
  RAPT_INNER void add(const Square &square, const float *query, std::size_t pitch, Lines &lines) {
    S::each_transposed(WordRows<Square>{square}, 0, [&](auto i, batch words) RAPT_INNER {
      if constexpr (i * S::width * 4 % 64 == 0) lines.template fetch<0, 1>();
      const batch first = S::lower_bf16(words), second = S::upper_bf16(words);
      unroll<rows>([&](std::size_t r) RAPT_INNER {
        even[r] = S::fma(batch((query + r * pitch)[2 * i]), first, even[r]);
        odd[r] = S::fma(batch((query + r * pitch)[2 * i + 1]), second, odd[r]);
      });
    });
  }

  batch even[rows], odd[rows];
};

struct K32Rows : K32Values<WideningStrips> {
  // Sets scores[r][j] to the dot product of query r and key j. Queries are `pitch` elements apart, and padded
  // with zeros to a multiple of 32. last_scores() computes the keys after the last whole vector, and the dimensions
  // after the last whole 32.
  template <std::size_t rows>
  RAPT_INNER static void scores(const float *queries, std::size_t pitch, const RowRun<rapt::BF16> *keys,
                                const RowRun<rapt::BF16> *last, std::size_t count, std::size_t dim,
                                float *scores) {
    if constexpr (rows <= most_addressed) {
      if (any_scattered(keys)) [[unlikely]] {
        return run_scores<rows, LastKeyRows>(queries, pitch, keys, last, count, dim, scores);
      }
    }
    run_scores<rows, KeyRows>(queries, pitch, keys, last, count, dim, scores);
  }
  // Addresses is the class that holds the addresses of a vector of keys.
  template <std::size_t rows, template <class, std::size_t> class Addresses>
  [[gnu::noinline, gnu::flatten]] static void run_scores(const float *queries, std::size_t pitch,
                                                         const RowRun<rapt::BF16> *keys,
                                                         const RowRun<rapt::BF16> *last, std::size_t count,
                                                         std::size_t dim, float *scores) {
    using E = rapt::BF16;
    using S = simd<float>;
    using batch = typename S::batch;
    constexpr std::size_t width = S::width, words = 2 * width, block = rapt::attention_block;
    constexpr std::size_t k32 = rapt::Bf16Contract::k32;
    LinesAhead<E, rows, rows <= 4 ? Cache::l1 : Cache::l2> lines(keys, last);
    for (std::size_t j = 0; j < count; j += width) {
      if (j % RowRun<E>::rows == 0) fetch_pages<rows>(keys + j / RowRun<E>::rows, last);
      const std::size_t left = count - j < width ? count - j : width,
                        whole = left < width ? 0 : dim / k32 * k32;
      if (whole > 0) {
        Addresses<E, width> key_rows(keys, j);
        batch total[rows];
        unroll<rows>([&](std::size_t r) RAPT_INNER { total[r] = batch(0.0f); });
        for (std::size_t d = 0; d < whole; d += k32) {
          K32Chains<rows> chains;
          for (std::size_t at = d; at < d + k32; at += words, key_rows.advance(words)) {
            chains.add(key_rows, queries + at, pitch, lines);
          }
          unroll<rows>([&](std::size_t r)
                           RAPT_INNER { total[r] = total[r] + (chains.even[r] + chains.odd[r]); });
        }
        unroll<rows>([&](std::size_t r) RAPT_INNER { S::store(scores + r * block + j, total[r]); });
      }
      if (whole == dim) continue;
      // last_scores() prefetches nothing. So the lines that its part of the vector stands for are prefetched here.
      for (std::size_t d = whole; left == width && d < dim; d += words) {
        for (std::size_t i = 0; i < width * width * 4 / 64; ++i) lines.fetch();
      }
      by_four_rows<rows>([&](std::size_t r, auto some) RAPT_INNER {
        last_scores<some>(queries + r * pitch, pitch, keys, j, left, whole, dim, scores + r * block + j);
      });
    }
  }
  // Adds the dimensions [from, dim) of `left` keys to the scores, or sets them if `from` is 0 (by_four_rows).
  template <std::size_t rows>
  [[gnu::noinline, gnu::flatten]] static void last_scores(const float *queries, std::size_t pitch,
                                                          const RowRun<rapt::BF16> *keys, std::size_t first,
                                                          std::size_t left, std::size_t from, std::size_t dim,
                                                          float *scores) {
    using E = rapt::BF16;
    using S = simd<float>;
    constexpr std::size_t width = S::width, words = 2 * width, block = rapt::attention_block;
    constexpr std::size_t k32 = rapt::Bf16Contract::k32;
    const E *row[width];
    for (std::size_t i = 0; i < width; ++i) row[i] = row_of(keys, first + (i < left ? i : left - 1)) + from;
    typename S::batch total[rows];
    unroll<rows>([&](std::size_t r) RAPT_INNER {
      total[r] = from == 0 ? typename S::batch(0.0f) : S::load(scores + r * block);
    });
    NoLines lines;
    for (std::size_t d = from; d < dim; d += k32) {
      K32Chains<rows> chains;
      for (std::size_t at = d; at < dim && at < d + k32; at += words) {
        alignas(64) E copy[width][words];
        if (dim - at < words) fill_square(row, dim - at, copy);
        chains.add(row, queries + at, pitch, lines);
        for (std::size_t i = 0; i < width; ++i) row[i] += words;
      }
      unroll<rows>([&](std::size_t r) RAPT_INNER { total[r] = total[r] + (chains.even[r] + chains.odd[r]); });
    }
    unroll<rows>([&](std::size_t r) RAPT_INNER { S::store(scores + r * block, total[r]); });
  }

  // Does the work of scores() for packed keys, whose dimension d is at keys + 64 d.
  template <std::size_t rows>
  [[gnu::noinline, gnu::flatten]] static void packed_scores(const float *queries, std::size_t pitch,
                                                            const rapt::BF16 *keys,
                                                            const RowRun<rapt::BF16> *run,
                                                            const RowRun<rapt::BF16> *last, std::size_t count,
                                                            std::size_t dim, float *scores) {
    using S = simd<float>;
    using batch = typename S::batch;
    using E = rapt::BF16;
    constexpr std::size_t block = rapt::attention_block, k32 = rapt::Bf16Contract::k32;
    constexpr std::size_t together = rows >= 4 ? 1 : 2;
    LinesAhead<E, rows, rows <= 4 ? Cache::l1 : Cache::l2> lines(run, last);
    for (std::size_t i = 0; i < runs_per_block; ++i) fetch_pages<rows>(run + i, last);
    const auto each = [](auto f) RAPT_INNER { unroll_pairs<together, rows>(f); };
    for (std::size_t j = 0; j < count; j += together * S::width) {
      batch total[together][rows];
      each([&](std::size_t g, std::size_t r) RAPT_INNER { total[g][r] = batch(0.0f); });
      for (std::size_t d = 0; d < dim; d += k32) {
        batch chain[2][together][rows];
        each([&](std::size_t g, std::size_t r) RAPT_INNER { chain[0][g][r] = chain[1][g][r] = batch(0.0f); });
        const std::size_t terms = dim - d < k32 ? dim - d : k32;
        const auto take = [&](std::size_t i, batch(&of)[together][rows]) RAPT_INNER {
          batch element[together];
          unroll<together>([&](std::size_t g) RAPT_INNER {
            element[g] = S::load(keys + (d + i) * block + j + g * S::width);
          });
          each([&](std::size_t g, std::size_t r) RAPT_INNER {
            of[g][r] = S::fma(batch((queries + r * pitch)[d + i]), element[g], of[g][r]);
          });
        };
        for (std::size_t i = 0; i < terms; i += 2) {
          lines.fetch();
          take(i, chain[0]);
          if (i + 1 < terms) take(i + 1, chain[1]);
        }
        each([&](std::size_t g, std::size_t r)
                 RAPT_INNER { total[g][r] = total[g][r] + (chain[0][g][r] + chain[1][g][r]); });
      }
      each([&](std::size_t g, std::size_t r)
               RAPT_INNER { S::store(scores + r * block + j + g * S::width, total[g][r]); });
    }
  }
};

}  // namespace
