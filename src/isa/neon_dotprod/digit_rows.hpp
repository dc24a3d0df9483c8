// Computes the products of kernels/attention/integer_rows.hpp with SDOT, which adds four products of bytes to
// a lane. A row of 16-bit integers becomes two rows of 8-bit digits, and keys and values stay bytes. Levels
// with SDOT use DigitRows instead of IntegerRows.
//
//   instructions for 64 products | to multiply, per query | to prepare bytes, once for all queries
//   SMLAL, 16 bits               | 16                     | 8 to widen
//   SDOT, 8 bits                 | 8                      | 0; 8 to interleave in column_sums()
//
// Neoverse N1 has one pipeline for SMLAL and two for SDOT. SMMLA (level neon_i8mm) would need half as many
// instructions, but two keys would have to be interleaved. One query would gain nothing; more queries would
// gain up to a third.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa/neon_dotprod/integer_simd.hpp"
#include "kernels/attention/integer_rows.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Sums columns as fours of products of bytes.
struct DigitColumns {
  using I = DotprodIntegers;
  static_assert(Int8Run::rows == I::digits);
  static constexpr std::size_t columns = 4, least = 2;
  // With this many vectors of columns at a time, two accumulators for each vector fit in the registers.
  template <std::size_t rows>
  static constexpr std::size_t together = rows == 1   ? 8
                                          : rows <= 3 ? 4
                                                      : 2;
  template <std::size_t vectors>
  using Sums = I::Sums[vectors];

  template <std::size_t vectors>
  RAPT_INNER static I::Sums at(const I::Sums (&sums)[vectors], std::size_t v) {
    return sums[v];
  }

  // The loop adds four rows at a time.
  template <std::size_t rows, std::size_t vectors, bool whole, class RowsAt>
  RAPT_INNER static void column_sums(const std::int16_t *weights, std::size_t pitch, RowsAt rows_at,
                                     std::size_t count, std::size_t column, std::size_t left,
                                     I::Sums (&sum)[rows][vectors]) {
    constexpr std::size_t line = 64, at_once = vectors < 4 ? vectors : 4;
    static_assert(vectors % at_once == 0);
    I::Sums high[rows][vectors];
    unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t v)
                                    RAPT_INNER { high[r][v] = sum[r][v] = I::zero(); });
    for (std::size_t i = 0; i < count; i += Int8Run::rows) {
      auto rows_of_run = rows_at(i / Int8Run::rows);
      const std::size_t end = count - i < Int8Run::rows ? count - i : Int8Run::rows;
      const auto *weight = reinterpret_cast<const std::int8_t *>(weights + i);
      for (std::size_t j = 0; j < end; j += 4, rows_of_run.advance(4), weight += 4) {
        const std::int8_t *row[4];
        unroll<4>([&](std::size_t k) RAPT_INNER { row[k] = rows_of_run.row(k); });
        if (end - j < 4) [[unlikely]] {
          unroll<3>([&](std::size_t k) RAPT_INNER { row[k + 1] = j + k + 1 < end ? row[k + 1] : row[k]; });
        }
        if (column % line == 0) {
          unroll<4>([&](std::size_t k) RAPT_INNER { rows_of_run.fetch(k, 0); });
        }
        I::Bytes columns[vectors / at_once][at_once];
        unroll<vectors / at_once>([&](std::size_t v) RAPT_INNER {
          I::Bytes bytes[4];
          unroll<4>([&](std::size_t k) RAPT_INNER {
            const std::int8_t *const at = row[k] + v * 4 * at_once;
            if constexpr (!whole) {
              bytes[k] = I::load_first(at, left);
            } else if constexpr (at_once == 2) {
              bytes[k] = I::load_eight(at);
            } else {
              bytes[k] = I::load_bytes(at);
            }
          });
          I::interleave(bytes, columns[v]);
        });
        unroll<rows>([&](std::size_t r) RAPT_INNER {
          const I::Bytes of_high = I::load_four(weight + 2 * r * pitch),
                         of_low = I::load_four(weight + I::digits + 2 * r * pitch);
          unroll<vectors>([&](std::size_t v) RAPT_INNER {
            const I::Bytes bytes = columns[v / at_once][v % at_once];
            high[r][v] = I::add_fours_by_first(high[r][v], bytes, of_high);
            sum[r][v] = I::add_fours_by_first(sum[r][v], bytes, of_low);
          });
        });
      }
    }
    unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t v)
                                    RAPT_INNER { sum[r][v] = I::joined(high[r][v], sum[r][v]); });
  }
};

struct DigitRows : ColumnRows<DigitColumns> {
  // Computes scores of keys that are not packed. With `together` keys at a time, the sums of both digits fit
  // in the registers.
  template <std::size_t rows, std::size_t fixed>
  [[gnu::noinline, gnu::flatten]] static void scores(const ScoreSegment &of, const Int8Run *run,
                                                     const Int8Run *last, std::size_t count, float *scores) {
    constexpr std::size_t keys = 4, together = rows <= 3 ? 4 : 2, line = 64;
    const std::size_t dim = fixed != 0 ? fixed : of.dim;
    for (std::size_t j = 0; j < count; j += keys) {
      const Int8Run &of_keys = run[j / Int8Run::rows],
                    &ahead = *run_after(&of_keys, runs_ahead<rows>(of_keys), last);
      if (j % Int8Run::rows == 0) fetch_pages<rows>(&of_keys, last);
      const std::uintptr_t to_next = distance_to_fetch(of_keys, ahead);
      const std::size_t left =
          count - j - 1;  // keys after key j; the last existing key replaces every missing key
      const std::int8_t *query[rows];
      unroll<rows>([&](std::size_t r) RAPT_INNER {
        query[r] = reinterpret_cast<const std::int8_t *>(of.queries + r * of.pitch);
      });
      I::Sums pairs[rows][keys / 2];
      unroll<keys / together>([&](auto part) RAPT_INNER {
        constexpr std::size_t begin = part * together;
        unroll<rows>([&](std::size_t r) RAPT_INNER {
          const std::int8_t *at = query[r];
          asm("" : "+r"(at));  // otherwise gcc spills loaded queries for the next part
          query[r] = at;
        });
        const std::int8_t *key[together];
        I::Sums high[rows][together], low[rows][together];
        unroll<together>([&](std::size_t i) RAPT_INNER {
          const std::size_t row = j % Int8Run::rows + (begin + i < left ? begin + i : left);
          key[i] = of_keys.row(row) + of.from;
          if (of_keys.scattered) [[unlikely]]
            fetch_row(ahead, row, of.from, dim);
          unroll<rows>([&](std::size_t r) RAPT_INNER { high[r][i] = low[r][i] = I::zero(); });
        });
        const auto fetch = [&](std::size_t d) RAPT_INNER {
          unroll<together>([&](std::size_t i) RAPT_INNER {
            fetch_line<Cache::l1>(reinterpret_cast<std::uintptr_t>(key[i]) + to_next + d);
          });
        };
        const auto add = [&](std::size_t d, auto bytes) RAPT_INNER {
          I::Bytes k[together];
          unroll<together>([&](std::size_t i) RAPT_INNER { k[i] = bytes(key[i] + d); });
          unroll<rows>([&](std::size_t r) RAPT_INNER {
            const I::Bytes of_high = I::load_bytes(query[r] + 2 * d),
                           of_low = I::load_bytes(query[r] + 2 * d + I::digits);
            unroll<together>([&](std::size_t i) RAPT_INNER {
              high[r][i] = I::add_fours(high[r][i], k[i], of_high);
              low[r][i] = I::add_fours(low[r][i], k[i], of_low);
            });
          });
        };
        const auto whole = [](const std::int8_t *at) RAPT_INNER { return I::load_bytes(at); };
        if constexpr (fixed != 0) {
          unroll<fixed / I::digits>([&](auto w) RAPT_INNER {
            if constexpr (w * I::digits % line == 0) fetch(w * I::digits);
            add(w * I::digits, whole);
          });
        } else {
          std::size_t d = 0;
          for (; dim - d >= I::digits; d += I::digits) {
            if ((of.from + d) % line == 0) fetch(d);
            add(d, whole);
          }
          if (d < dim) {
            if ((of.from + d) % line == 0) fetch(d);
            add(d, [&](const std::int8_t *at) RAPT_INNER { return I::load_first(at, dim - d); });
          }
        }
        unroll_pairs<rows, together / 2>([&](std::size_t r, std::size_t i) RAPT_INNER {
          pairs[r][begin / 2 + i] = I::joined(I::pair_sums(high[r][2 * i], high[r][2 * i + 1]),
                                              I::pair_sums(low[r][2 * i], low[r][2 * i + 1]));
        });
      });
      unroll<rows>([&](std::size_t r) RAPT_INNER {
        add_segment<I>(of, r, j, I::pair_sums(pairs[r][0], pairs[r][1]), scores);
      });
    }
  }
};

}  // namespace
