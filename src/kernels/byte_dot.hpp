// Computes dot and dot_rows of bytes, exactly for every length. 32-bit lanes sum the products, and are added
// to a 64-bit total before they overflow.
//
// Each instruction-set level defines ByteSimd<E>. The first factor has type E, and the second is a signed
// byte:
//
//   width            the number of elements that add() multiplies
//   Sums             32-bit lanes. add() adds at most most_per_step to the magnitude of each
//   together         the number of accumulators in dot
//   Factors          `width` first factors, converted for add()
//   factors(a)       converts `width` elements; factors_first(a, k) converts k < width, the others are 0
//   add(s, f, b)     returns s plus the products of f with `width` elements at b; add_first(s, f, b, k) loads
//                    only k elements of b
//   sum(s)           returns the sum of all lanes, in 64 bits
//
// Each level also defines RowSimd<E> for dot_rows, whose first factor is the query. It adds to ByteSimd<E>:
//
//   start, add_factors  each row's sum begins as start(), then add_factors(s, f) for the whole query
//   Four             the sums of four rows, which four(sums) makes from four Sums
//   quarter, load_quarters, repeat_quarter, store_quarters
//                    optional (ReadsShortRows): a register holds four rows of up to `quarter` bytes
//   fours            store(four, scale, out, count) stores this many Four, which hold `count` rows
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class E>
struct ByteSimd;

// A 32-bit lane can take the products of this many add() calls before it might overflow.
template <class S>
inline constexpr std::size_t most_byte_steps = (std::size_t{1} << 31) / S::most_per_step - 1;

template <class E>
struct RowSimd;

// Adds the members of RowSimd to a ByteSimd that does not bias its factors, so each sum begins with 0.
template <class Bytes>
struct UnbiasedRows : Bytes {
  static typename Bytes::Sums start() { return Bytes::zero(); }
  static typename Bytes::Sums add_factors(typename Bytes::Sums s, typename Bytes::Factors) { return s; }
};

// n is at most most_byte_steps * width, so that no 32-bit lane overflows.
template <class E>
RAPT_INNER inline std::int64_t byte_dot(const E *a, const std::int8_t *b, std::size_t n) {
  using S = ByteSimd<E>;
  typename S::Sums sum[S::together];
  unroll<S::together>([&](std::size_t t) RAPT_INNER { sum[t] = S::zero(); });
  constexpr std::size_t step = S::together * S::width;
  for (; n >= step; n -= step, a += step, b += step) {
    unroll<S::together>([&](std::size_t t) RAPT_INNER {
      sum[t] = S::add(sum[t], S::factors(a + t * S::width), b + t * S::width);
    });
  }
  unroll_while<S::together>([&](auto t) RAPT_INNER {
    constexpr std::size_t begin = t * S::width;
    if (n < begin + S::width) {
      if (n > begin) {
        sum[t] = S::add_first(sum[t], S::factors_first(a + begin, n - begin), b + begin, n - begin);
      }
      return false;
    }
    sum[t] = S::add(sum[t], S::factors(a + begin), b + begin);
    return true;
  });
  unroll<S::together - 1>([&](std::size_t t) RAPT_INNER { sum[0] = S::join(sum[0], sum[t + 1]); });
  return S::sum(sum[0]);
}

template <class E>
[[gnu::flatten, gnu::noinline]] std::int64_t dot(const E *a, const std::int8_t *b, std::size_t n) {
  // The accumulators are joined at the end, so one of them must hold the sum of all steps.
  constexpr std::size_t most = most_byte_steps<ByteSimd<E>> * ByteSimd<E>::width;
  std::int64_t total = 0;
  for (; n > most; n -= most, a += most, b += most) total += dot(a, b, most);
  return total + byte_dot(a, b, n);
}

// Multiplies four rows, which share the conversion of the query. Shuffles sum the lanes of all four.
template <class E>
RAPT_INNER inline typename RowSimd<E>::Four four_byte_rows(const E *query, const std::int8_t *const (&row)[4],
                                                           std::size_t dim, typename RowSimd<E>::Sums start) {
  using S = RowSimd<E>;
  typename S::Sums sum[4] = {start, start, start, start};
  std::size_t i = 0;
  for (; dim - i >= S::width; i += S::width) {
    const auto factors = S::factors(query + i);
    unroll<4>([&](std::size_t r) RAPT_INNER { sum[r] = S::add(sum[r], factors, row[r] + i); });
  }
  if (i < dim) {
    const auto factors = S::factors_first(query + i, dim - i);
    unroll<4>([&](std::size_t r) RAPT_INNER { sum[r] = S::add_first(sum[r], factors, row[r] + i, dim - i); });
  }
  return S::four(sum);
}

template <class S>
concept ReadsShortRows = requires {
  S::quarter;
};

// Multiplies rows of up to 16 bytes, four in a register. On AVX512-VNNI a row takes .3 ns instead of 1.1.
// Past the end of the matrix, the last row is read again.
template <class E>
[[gnu::flatten, gnu::noinline]] void dot_short_rows(const E *query, const std::int8_t *rows,
                                                    std::ptrdiff_t row_stride, std::size_t row_count,
                                                    std::size_t dim, float scale, float *out) {
  using S = RowSimd<E>;
  const auto factors = S::repeat_quarter(query, dim);
  const auto start = S::add_factors(S::start(), factors);
  for (std::size_t r = 0; r < row_count; r += 16) {
    const std::size_t left = row_count - r;
    typename S::Sums sum[4];
    unroll<4>([&](std::size_t i) RAPT_INNER {
      const std::int8_t *row[4];
      unroll<4>([&](std::size_t j) RAPT_INNER {
        row[j] = rows;
        if (4 * i + j + 1 < left) rows += row_stride;
      });
      sum[i] = S::add_bytes(start, factors, S::load_quarters(row, dim));
    });
    S::store_quarters(sum, scale, out + r, left < 16 ? left : 16);
  }
}

template <class E>
[[gnu::flatten]] void dot_rows(const E *query, const std::int8_t *rows, std::ptrdiff_t row_stride,
                               std::size_t row_count, std::size_t dim, float scale, float *out) {
  using S = RowSimd<E>;
  if constexpr (ReadsShortRows<S>) {
    if (dim <= S::quarter) return dot_short_rows(query, rows, row_stride, row_count, dim, scale, out);
  }
  constexpr std::size_t together = 4 * S::fours;
  constexpr std::size_t most_in_32_bits = (std::size_t{1} << 31) / (255 * 128) - 1;
  if (dim > most_in_32_bits || row_count == 1) {
    for (std::size_t r = 0; r < row_count; ++r, rows += row_stride) {
      out[r] = scale * static_cast<float>(dot(query, rows, dim));
    }
    return;
  }
  auto start = S::start();
  std::size_t i = 0;
  for (; dim - i >= S::width; i += S::width) start = S::add_factors(start, S::factors(query + i));
  if (i < dim) start = S::add_factors(start, S::factors_first(query + i, dim - i));

  std::size_t r = 0;
  typename S::Four four[S::fours] = {};
  for (; row_count - r >= together; r += together) {
    unroll<S::fours>([&](std::size_t f) RAPT_INNER {
      const std::int8_t *const row[4] = {rows, rows + row_stride, rows + 2 * row_stride,
                                         rows + 3 * row_stride};
      four[f] = four_byte_rows<E>(query, row, dim, start);
      rows += 4 * row_stride;
    });
    S::store(four, scale, out + r, together);
  }
  if (r == row_count) return;
  for (std::size_t f = 0; r + 4 * f < row_count; ++f) {
    // Past the end of the matrix, the last row is read again.
    const std::int8_t *row[4];
    for (std::size_t j = 0; j < 4; ++j) {
      row[j] = rows;
      if (r + 4 * f + j + 1 < row_count) rows += row_stride;
    }
    four[f] = four_byte_rows<E>(query, row, dim, start);
  }
  S::store(four, scale, out + r, row_count - r);
}

}  // namespace
