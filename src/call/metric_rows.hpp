// Describes a checked comparison of some queries with some rows.
#pragma once

#include <cstddef>

namespace rapt {

struct MetricRows {
  int kind;
  const void *queries;
  std::ptrdiff_t query_stride;
  std::size_t query_count;  // at most most_queries
  const void *rows;
  std::ptrdiff_t row_stride;
  std::size_t row_count;  // few enough to stay in the caches while they are read more than once
  std::size_t dim;
  void *out;  // [query_count][row_count] of MetricResult
  std::ptrdiff_t out_stride;

  static constexpr std::size_t most_queries = 16;
};

}  // namespace rapt
