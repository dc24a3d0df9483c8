// The calls of rapt_embedding_bag and rapt_index_add, which pick rows by index. They depend only on the problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "calls/call.hpp"
#include "support/problem_data.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Rows of the problem's two vectors in turn, each turned by its number of elements.
template <class T>
std::vector<T> turned_rows(const Problem &problem, std::size_t rows) {
  const auto &[first, second] = make_operands<T>(Family::two_vectors, problem);
  const std::size_t n = first.size();
  std::vector<T> made;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < n; ++i) made.push_back((row % 2 == 0 ? first : second)[(i + row) % n]);
  }
  return made;
}

// -1, which leaves a row out, is as frequent as each row.
inline std::vector<std::int64_t> draw_indices(Random &random, std::size_t count, std::size_t rows) {
  std::vector<std::int64_t> indices;
  for (std::size_t i = 0; i < count; ++i)
    indices.push_back(static_cast<std::int64_t>(random.below(rows + 1)) - 1);
  return indices;
}

// Holds all arrays without gaps. The seed chooses the operation, the bags, and which arrays there are. Rows that no
// index names are NaN, because no call may read them.
template <class T>
struct BagNumbers {
  int operation;
  bool finds_rows;  // of maxima
  std::size_t rows;
  std::vector<T> w;  // [rows][cols]
  std::vector<std::size_t> offsets = {0};
  std::vector<std::int64_t> indices;
  std::vector<Number<T>> weights;  // one for each index, or empty

  explicit BagNumbers(const Problem &problem) {
    Random random(problem.seed ^ 0x626167u);
    operation = random.one_of<int>({RAPT_BAG_SUM, RAPT_BAG_SUM, RAPT_BAG_MEAN, RAPT_BAG_MAX});
    finds_rows = operation == RAPT_BAG_MAX && !random.one_in(3);
    const bool is_weighted = operation == RAPT_BAG_SUM && random.one_in(2);
    rows = 1 + random.below(5);
    const std::size_t bags = 1 + random.below(3);
    for (std::size_t bag = 0; bag < bags; ++bag) {
      const auto length = random.one_of<std::size_t>({0, 1, 2, 3, 4, 9});
      for (const std::int64_t index : draw_indices(random, length, rows)) indices.push_back(index);
      offsets.push_back(indices.size());
    }
    for (std::size_t i = 0; is_weighted && i < indices.size(); ++i)
      weights.push_back(static_cast<Number<T>>(random.gaussian()));
    w = turned_rows<T>(problem, rows);
    const std::size_t n = problem.cols();
    for (std::size_t row = 0; row < rows; ++row) {
      bool is_named = false;
      for (const std::int64_t index : indices) is_named = is_named || index == static_cast<std::int64_t>(row);
      for (std::size_t i = 0; !is_named && i < n; ++i)
        w[row * n + i] = T(std::numeric_limits<Number<T>>::quiet_NaN());
    }
  }
  std::size_t bags() const { return offsets.size() - 1; }
};

// Holds all arrays without gaps. `out` is as before the call.
template <class T>
struct IndexAddNumbers {
  std::size_t out_rows;
  std::vector<std::int64_t> indices;  // one for each row of x
  std::vector<T> x, out;              // [rows][cols], [out_rows][cols]

  explicit IndexAddNumbers(const Problem &problem) {
    Random random(problem.seed ^ 0x696e646578u);
    out_rows = 1 + random.below(3);
    indices = draw_indices(random, random.one_of<std::size_t>({1, 2, 3, 5, 8}), out_rows);
    const std::vector<T> rows = turned_rows<T>(problem, out_rows + indices.size());
    const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(out_rows * problem.cols());
    out.assign(rows.begin(), middle);
    x.assign(middle, rows.end());
  }
};

// The results are y, and behind it the rows of maxima where the numbers ask for them.
template <class T>
std::unique_ptr<Call> make_embedding_bag(const Problem &problem, const Layout &layout);
template <class T>
std::unique_ptr<Call> make_index_add(const Problem &problem, const Layout &layout);

}  // namespace rapt::test
