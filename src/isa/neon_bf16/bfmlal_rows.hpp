// Multiplies a few rows in RAPT_ARITHMETIC_BF16 with BFMLALB and BFMLALT. These instructions take keys and
// values without conversion, and multiply them by lanes of queries or weights. Levels with these instructions
// use BfmlalRows instead of K32Rows.
//
//   vector instructions per query, 8 of which multiply | FMLA                      | BFMLAL
//   scores of keys that are not packed                 | 8 + 16 / queries          | 8 + 8 / queries
//   scores of packed keys                              | 8 + 16 / queries          | 8
//   values                                             | 8 + 8 / queries           | 8
//
// Tiles of many rows still use FMLA. There, 64 rows share each widened block, and FMLA multiplies as fast as
// BFMLAL.
#pragma once

#include <cstddef>
#include <cstring>

#include "isa/neon_bf16/simd.hpp"
#include "kernels/attention/k32_rows.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Reads rows first, first + 1, … as 32-bit words. Each word holds two elements of bf16.
template <class Rows>
struct WordSquare {
  const Rows &rows;
  std::size_t first;
  RAPT_INNER const float *operator[](std::size_t i) const {
    return reinterpret_cast<const float *>(rows[first + i]);
  }
};

// Splits the 32 dimensions at d into squares of S::width keys by S::width words, and calls f(rows, first
// dimension) for each. A square that reaches past the last dimension is copied, and filled up with 0.
template <class Rows, class F>
RAPT_INNER inline void each_square(const Rows &rows, std::size_t d, std::size_t dim, F f) {
  using S = simd<float>;
  constexpr std::size_t width = S::width, words = 2 * width;
  constexpr std::size_t k32 = rapt::Bf16Contract::k32;
  alignas(64) rapt::BF16 copy[width * words];
  for (std::size_t at = d; at < dim && at < d + k32; at += words) {
    if (dim - at >= words) {
      f(WordRows<Rows>{rows}, at);
      continue;
    }
    std::memset(copy, 0, sizeof copy);
    for (std::size_t r = 0; r < width; ++r) {
      std::memcpy(copy + r * words, rows[r], (dim - at) * sizeof *copy);
    }
    const KeyRows<rapt::BF16, width> copies(copy, words);
    f(WordRows<KeyRows<rapt::BF16, width>>{copies}, at);
  }
}

// Multiplies a strip as one vector of bf16.
struct BfmlalStrips {
  using S = simd<float>;
  using N = NeonBf16;
  using batch = S::batch;
  static_assert(N::width == 2 * S::width);

  // Weights past the last key are 0, and their memory exists, so whole vectors can be loaded.
  template <std::size_t rows, std::size_t strips, bool whole, class Values, class Ahead>
  RAPT_INNER static void add_rows(const float *weights, std::size_t j, std::size_t end, Values values,
                                  std::size_t left, Ahead &ahead, batch (&chain)[2][rows][strips][2]) {
    constexpr std::size_t width = S::width, block = rapt::attention_block;
    for (std::size_t i = j; i < end; i += width) {
      batch weight[rows];
      unroll<rows>([&](std::size_t r) RAPT_INNER { weight[r] = S::load(weights + r * block + i); });
      unroll_while<width>([&](auto k) RAPT_INNER {
        if (i + k >= end) return false;
        const rapt::BF16 *const from = values.next();
        unroll<strips>([&](auto s) RAPT_INNER {
          if constexpr (s * N::width * 2 % 64 == 0) ahead.fetch(s * N::width * 2);
          const auto element = whole ? N::load(from + s * N::width) : N::load_first(from, left);
          unroll<rows>([&](std::size_t r) RAPT_INNER {
            auto &sum = chain[k % 2][r][s];
            sum[0] = N::add_even_by_lane<k>(sum[0], element, weight[r]);
            sum[1] = N::add_odd_by_lane<k>(sum[1], element, weight[r]);
          });
        });
        ahead.next_row();
        return true;
      });
    }
  }
  template <bool>
  RAPT_INNER static void in_order(batch &a, batch &b) {
    S::interleave(a, b);
  }
};

struct BfmlalRows : K32Values<BfmlalStrips> {
  // Computes the scores of `squares` squares of four keys and four words for each row. A square is
  // transposed, so that a vector has one word of each key. With more than one square, dim must be a multiple
  // of 8. There are enough squares to hide the latency of the chains.
  template <std::size_t rows, std::size_t squares, class KeyRows>
  RAPT_INNER static void square_scores(const float *queries, std::size_t pitch, KeyRows key_rows,
                                       std::size_t dim, auto &lines, float *scores) {
    using S = simd<float>;
    using N = NeonBf16;
    using batch = S::batch;
    constexpr std::size_t width = S::width, k32 = rapt::Bf16Contract::k32;
    const auto each = [](auto f) RAPT_INNER { unroll_pairs<squares, rows>(f); };
    batch total[squares][rows], even[squares][rows], odd[squares][rows];
    each([&](std::size_t g, std::size_t r) RAPT_INNER { total[g][r] = batch(0.0f); });
    const auto multiply = [&](auto g, auto square, std::size_t at) RAPT_INNER {
      S::each_transposed(square, 0, [&](auto i, batch words) RAPT_INNER {
        if constexpr (i == 0) lines.template fetch<g, squares>();
        unroll<rows>([&](std::size_t r) RAPT_INNER {
          const batch query = S::load(queries + r * pitch + at + i / 2 * width);
          constexpr int lane = i % 2 * 2;
          even[g][r] = N::add_even_by_lane<lane>(even[g][r], N::halves(words), query);
          odd[g][r] = N::add_odd_by_lane<lane + 1>(odd[g][r], N::halves(words), query);
        });
      });
    };
    for (std::size_t d = 0; d < dim; d += k32) {
      each([&](std::size_t g, std::size_t r) RAPT_INNER { even[g][r] = odd[g][r] = batch(0.0f); });
      if constexpr (squares == 1) {
        each_square(key_rows, d, dim, [&](auto square, std::size_t at) RAPT_INNER {
          multiply(std::integral_constant<std::size_t, 0>{}, square, at);
          key_rows.advance(2 * width);
        });
      } else {
        for (std::size_t at = d; at < dim && at < d + k32; at += 2 * width) {
          unroll<squares>([&](auto g) RAPT_INNER {
            multiply(g, WordSquare<KeyRows>{key_rows, g * width}, at);
          });
          key_rows.advance(2 * width);
        }
      }
      each([&](std::size_t g, std::size_t r)
               RAPT_INNER { total[g][r] = total[g][r] + (even[g][r] + odd[g][r]); });
    }
    each([&](std::size_t g, std::size_t r)
             RAPT_INNER { S::store(scores + r * rapt::attention_block + g * width, total[g][r]); });
  }

  template <std::size_t rows>
  RAPT_INNER static void scores(const float *queries, std::size_t pitch, const RowRun<rapt::BF16> *keys,
                                const RowRun<rapt::BF16> *last, std::size_t count, std::size_t dim,
                                float *scores) {
    if constexpr (rows > 4) return K32Rows::scores<rows>(queries, pitch, keys, last, count, dim, scores);
    const auto compute = any_scattered(keys) ? run_scores<rows, LastKeyRows> : run_scores<rows, KeyRows>;
    compute(queries, pitch, keys, last, count, dim, scores);
  }
  // Addresses is the class that holds the addresses of whole vectors of keys.
  template <std::size_t rows, template <class, std::size_t> class Addresses>
  [[gnu::noinline, gnu::flatten]] static void run_scores(const float *queries, std::size_t pitch,
                                                         const RowRun<rapt::BF16> *keys,
                                                         const RowRun<rapt::BF16> *last, std::size_t count,
                                                         std::size_t dim, float *scores) {
    using E = rapt::BF16;
    constexpr std::size_t squares = rows == 1 ? 4 : rows == 2 ? 2 : 1, width = simd<float>::width;
    constexpr std::size_t together = squares * width;
    LinesAhead<E, rows, Cache::l1> lines(keys, last);
    std::size_t j = 0;
    const auto fetch_ahead = [&] {
      if (j % RowRun<E>::rows == 0) fetch_pages<rows>(keys + j / RowRun<E>::rows, last);
    };
    if constexpr (squares > 1) {
      if (dim % NeonBf16::width == 0) {
        for (; count - j >= together; j += together) {
          fetch_ahead();
          square_scores<rows, squares>(queries, pitch, Addresses<E, together>(keys, j), dim, lines,
                                       scores + j);
        }
      }
    }
    for (; j < count; j += width) {
      fetch_ahead();
      if (count - j >= width) {
        square_scores<rows, 1>(queries, pitch, Addresses<E, width>(keys, j), dim, lines, scores + j);
      } else {
        square_scores<rows, 1>(queries, pitch, LastKeyRows<E, width>(keys, j, count - j), dim, lines,
                               scores + j);
      }
    }
  }

  // Computes scores of packed keys. Dimension d of a block is at keys + 64 d. The even and the odd keys of a
  // vector have separate sums.
  template <std::size_t rows>
  [[gnu::noinline, gnu::flatten]] static void packed_scores(const float *queries, std::size_t pitch,
                                                            const rapt::BF16 *keys,
                                                            const RowRun<rapt::BF16> *run,
                                                            const RowRun<rapt::BF16> *last, std::size_t count,
                                                            std::size_t dim, float *scores) {
    using S = simd<float>;
    using N = NeonBf16;
    using E = rapt::BF16;
    using batch = S::batch;
    constexpr std::size_t block = rapt::attention_block, k32 = rapt::Bf16Contract::k32, width = S::width;
    constexpr std::size_t together = 4 / rows;  // number of vectors of keys at a time
    LinesAhead<E, rows, Cache::l1> lines(run, last);
    for (std::size_t i = 0; i < runs_per_block; ++i) fetch_pages<rows>(run + i, last);
    const auto each = [](auto f) RAPT_INNER { unroll_pairs<together, rows>(f); };
    for (std::size_t j = 0; j < count; j += together * N::width) {
      batch total[together][rows][2];
      each([&](std::size_t g, std::size_t r) RAPT_INNER { total[g][r][0] = total[g][r][1] = batch(0.0f); });
      for (std::size_t d = 0; d < dim; d += k32) {
        batch chain[2][together][rows][2];
        each([&](std::size_t g, std::size_t r) RAPT_INNER {
          chain[0][g][r][0] = chain[0][g][r][1] = chain[1][g][r][0] = chain[1][g][r][1] = batch(0.0f);
        });
        const std::size_t end = dim - d < k32 ? dim : d + k32;
        for (std::size_t at = d; at < end; at += width) {
          batch query[rows];
          unroll<rows>([&](std::size_t r) RAPT_INNER { query[r] = S::load(queries + r * pitch + at); });
          unroll_while<width>([&](auto i) RAPT_INNER {
            if (at + i >= end) return false;
            if constexpr (i % rows == 0) lines.template fetch<i / rows, width / rows>();
            unroll<together>([&](std::size_t g) RAPT_INNER {
              const auto key = N::load(keys + (at + i) * block + j + g * N::width);
              unroll<rows>([&](std::size_t r) RAPT_INNER {
                auto &sum = chain[i % 2][g][r];
                sum[0] = N::add_even_by_lane<i>(sum[0], key, query[r]);
                sum[1] = N::add_odd_by_lane<i>(sum[1], key, query[r]);
              });
            });
            return true;
          });
        }
        each([&](std::size_t g, std::size_t r) RAPT_INNER {
          unroll<2>([&](std::size_t half) RAPT_INNER {
            total[g][r][half] = total[g][r][half] + (chain[0][g][r][half] + chain[1][g][r][half]);
          });
        });
      }
      each([&](std::size_t g, std::size_t r) RAPT_INNER {
        float *const to = scores + r * block + j + g * N::width;
        S::interleave(total[g][r][0], total[g][r][1]);
        S::store(to, total[g][r][0]);
        S::store(to + width, total[g][r][1]);
      });
    }
  }
};

}  // namespace
