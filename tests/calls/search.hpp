// The calls of metrics: of pairs of vectors, and of some queries with some rows.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "calls/call.hpp"
#include "support/problem_data.hpp"

namespace rapt::test {

inline constexpr int metric_kinds = RAPT_METRIC_COSINE_DISTANCE + 1;
inline int metric_of(const Problem &problem) { return static_cast<int>(problem.seed / 2 % metric_kinds); }

// Row j of x in a call of rapt_metric_rows: the problem's vector, turned by j elements.
template <class T>
std::vector<T> turned(std::span<const T> vector, std::size_t j) {
  std::vector<T> made;
  for (std::size_t i = 0; i < vector.size(); ++i) made.push_back(vector[(i + j) % vector.size()]);
  return made;
}
inline std::size_t rows_of_metric(const Problem &problem) { return 1 + problem.seed / 7 % 3; }

template <class T>
std::unique_ptr<Call> make_metric(const Problem &problem, const Layout &layout);
template <class T>
std::unique_ptr<Call> make_metric_rows(const Problem &problem, const Layout &layout);

}  // namespace rapt::test
