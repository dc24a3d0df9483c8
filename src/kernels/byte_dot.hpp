// dot and dot_rows of bytes, exact for every length: products are summed in lanes of 32 bits, and these now
// and then in 64.
//
// ByteSimd<E> is a level's: E is the type of the first factor, the second is a signed byte.
//
//   width            the elements of a step
//   Sums             lanes of 32 bits. A step adds at most most_per_step to the magnitude of each
//   Factors          the first factors of a step, converted
//   factors(a)       these of `width` elements; factors_first(a, k) of k < width, the others 0
//   add(s, f, b)     s plus the products of f with the `width` elements at b; add_first(s, f, b, k) of the
//   first k sum(s)           the sum of all lanes, in 64 bits
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/vector/unroll.hpp"

namespace {

template <class E>
struct ByteSimd;

// Steps that lanes of 32 bits take in.
template <class S>
inline constexpr std::size_t most_byte_steps = (std::size_t{1} << 31) / S::most_per_step - 1;

// The sums of `rows` rows with the first n elements of `a`, at most most_byte_steps steps. Each has
// `together` accumulators.
template <std::size_t rows, std::size_t together, class E>
[[gnu::always_inline]] inline void add_byte_dots(const E *a, const std::int8_t *const *b, std::size_t from,
                                                 std::size_t n, std::int64_t (&total)[rows]) {
  using S = ByteSimd<E>;
  typename S::Sums sum[rows][together];
  unroll<rows>([&](auto r) __attribute__((always_inline)) {
    unroll<together>([&](auto t) __attribute__((always_inline)) { sum[r][t] = S::zero(); });
  });
  std::size_t i = from;
  const std::size_t end = from + n;
  for (; end - i >= together * S::width; i += together * S::width) {
    unroll<together>([&](auto t) __attribute__((always_inline)) {
      const auto factors = S::factors(a + i + t * S::width);
      unroll<rows>([&](auto r) __attribute__((always_inline)) {
        sum[r][t] = S::add(sum[r][t], factors, b[r] + i + t * S::width);
      });
    });
  }
  for (; end - i >= S::width; i += S::width) {
    const auto factors = S::factors(a + i);
    unroll<rows>([&](auto r)
                     __attribute__((always_inline)) { sum[r][0] = S::add(sum[r][0], factors, b[r] + i); });
  }
  if (i < end) {
    const auto factors = S::factors_first(a + i, end - i);
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      sum[r][0] = S::add_first(sum[r][0], factors, b[r] + i, end - i);
    });
  }
  unroll<rows>([&](auto r) __attribute__((always_inline)) {
    unroll<together - 1>([&](auto t) __attribute__((always_inline)) {
      sum[r][0] = S::join(sum[r][0], sum[r][t + 1]);
    });
    total[r] += S::sum(sum[r][0]);
  });
}

template <std::size_t rows, std::size_t together, class E>
[[gnu::always_inline]] inline void byte_dots(const E *a, const std::int8_t *const *b, std::size_t n,
                                             std::int64_t (&total)[rows]) {
  // Joined accumulators hold the steps of all.
  constexpr std::size_t most = most_byte_steps<ByteSimd<E>> * ByteSimd<E>::width;
  unroll<rows>([&](auto r) __attribute__((always_inline)) { total[r] = 0; });
  std::size_t from = 0;
  for (; n - from > most; from += most) add_byte_dots<rows, together>(a, b, from, most, total);
  add_byte_dots<rows, together>(a, b, from, n - from, total);
}

template <class E>
[[gnu::flatten]] std::int64_t dot(const E *a, const std::int8_t *b, std::size_t n) {
  std::int64_t total[1];
  byte_dots<1, 4>(a, &b, n, total);
  return total[0];
}

// Four rows share the conversion of the query.
template <class E>
[[gnu::flatten]] void dot_rows(const E *query, const std::int8_t *rows, std::ptrdiff_t row_stride,
                               std::size_t row_count, std::size_t dim, float scale, float *out) {
  std::size_t r = 0;
  for (; row_count - r >= 4; r += 4, rows += 4 * row_stride) {
    const std::int8_t *const row[4] = {rows, rows + row_stride, rows + 2 * row_stride, rows + 3 * row_stride};
    std::int64_t total[4];
    byte_dots<4, 1>(query, row, dim, total);
    for (std::size_t j = 0; j < 4; ++j) out[r + j] = scale * static_cast<float>(total[j]);
  }
  for (; r < row_count; ++r, rows += row_stride) out[r] = scale * static_cast<float>(dot(query, rows, dim));
}

}  // namespace
