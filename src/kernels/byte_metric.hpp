// Sums for the metrics of bytes, by the exact products of dot.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/metric_rows.hpp"
#include "contract/metric.hpp"
#include "kernels/byte_dot.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Templates, because some levels define ByteSimd after this.
struct ByteSums {
  std::int64_t product, of_row;
};

// n is at most most_byte_steps * width, so that no 32-bit lane overflows. Each element of the row is loaded once.
template <class E>
RAPT_INNER inline ByteSums byte_sums(const E *query, const E *row, std::size_t n) {
  using S = ByteSimd<E>;
  constexpr std::size_t together = S::together / 2, step = together * S::width;
  typename S::Sums product[together], of_row[together];
  unroll<together>([&](std::size_t t) RAPT_INNER { product[t] = of_row[t] = S::zero(); });
  const auto add = [&](std::size_t t, std::size_t at) RAPT_INNER {
    const auto factors = S::factors(row + at);
    product[t] = S::add(product[t], factors, query + at);
    of_row[t] = S::add(of_row[t], factors, row + at);
  };
  std::size_t i = 0;
  for (; n - i >= step; i += step)
    unroll<together>([&](std::size_t t) RAPT_INNER { add(t, i + t * S::width); });
  for (; n - i >= S::width; i += S::width) add(0, i);
  if (i < n) {
    const auto factors = S::factors_first(row + i, n - i);
    product[0] = S::add_first(product[0], factors, query + i, n - i);
    of_row[0] = S::add_first(of_row[0], factors, row + i, n - i);
  }
  unroll<together - 1>([&](std::size_t t) RAPT_INNER {
    product[0] = S::join(product[0], product[t + 1]);
    of_row[0] = S::join(of_row[0], of_row[t + 1]);
  });
  return {S::sum(product[0]), S::sum(of_row[0])};
}
template <class E>
[[gnu::flatten, gnu::noinline]] ByteSums sums_of_bytes(const E *query, const E *row, std::size_t n) {
  constexpr std::size_t most = most_byte_steps<ByteSimd<E>> * ByteSimd<E>::width;
  ByteSums total{};
  for (; n > 0;) {
    const std::size_t count = n < most ? n : most;
    const ByteSums sums = byte_sums(query, row, count);
    total.product += sums.product, total.of_row += sums.of_row;
    n -= count, query += count, row += count;
  }
  return total;
}

template <class E>
double squares(const E *a, std::size_t n) {
  return static_cast<double>(dot(a, a, n));
}

// Integers do not round: so this is the sum of the squared differences.
inline double squared_distance(std::int64_t of_query, const ByteSums &sums) {
  return static_cast<double>(of_query + sums.of_row - 2 * sums.product);
}
template <class E>
double squared_distance(const E *a, const E *b, std::size_t n) {
  return squared_distance(dot(a, a, n), sums_of_bytes(a, b, n));
}

struct CosineSums {
  double product, of_a, of_b;
};
template <class E>
CosineSums cosine_sums(const E *a, const E *b, std::size_t n) {
  const ByteSums sums = sums_of_bytes(a, b, n);
  return {static_cast<double>(sums.product), squares(a, n), static_cast<double>(sums.of_row)};
}

// All metrics but RAPT_METRIC_DOT. Sums of squares are those of a query or of a row, and are computed once.
template <class E>
void metric_rows_of_bytes(const rapt::MetricRows &c) {
  const auto at = [](const void *rows, std::ptrdiff_t stride, std::size_t i) {
    return static_cast<const E *>(rows) + stride * static_cast<std::ptrdiff_t>(i);
  };
  std::int64_t of_query[rapt::MetricRows::most_queries];
  double root[rapt::MetricRows::most_queries];
  for (std::size_t i = 0; i < c.query_count; ++i) {
    const E *const query = at(c.queries, c.query_stride, i);
    of_query[i] = dot(query, query, c.dim);
    root[i] = rapt::square_root(static_cast<double>(of_query[i]));
  }
  for (std::size_t j = 0; j < c.row_count; ++j) {
    const E *const row = at(c.rows, c.row_stride, j);
    ByteSums sums{};
    double root_of_row = 0;
    for (std::size_t i = 0; i < c.query_count; ++i) {
      const E *const query = at(c.queries, c.query_stride, i);
      if (i > 0 || c.kind == RAPT_METRIC_DOT_DISTANCE) {
        sums.product = dot(query, row, c.dim);
      } else {
        sums = sums_of_bytes(query, row, c.dim);
        root_of_row = rapt::square_root(static_cast<double>(sums.of_row));
      }
      const double product = static_cast<double>(sums.product);
      const double result = c.kind == RAPT_METRIC_L2_SQUARED ? squared_distance(of_query[i], sums)
                            : rapt::is_cosine(c.kind)        ? rapt::cosine(product, root[i], root_of_row)
                                                             : product;
      static_cast<float *>(
          c.out)[c.out_stride * static_cast<std::ptrdiff_t>(i) + static_cast<std::ptrdiff_t>(j)] =
          static_cast<float>(rapt::is_distance(c.kind) ? 1 - result : result);
    }
  }
}

}  // namespace

#include "kernels/metric_rows.hpp"
