// Makes the arrays of a call of rapt_expert_sum. They depend only on the problem.
#pragma once

#include <cstddef>
#include <vector>

#include "support/problem_data.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Holds all arrays without gaps. The rows are rotations of the problem's two vectors. The seed chooses how many there
// are, and whether there are weights and an addend.
template <class T>
struct ExpertSumNumbers {
  std::size_t tokens, slots;
  std::vector<T> x, add;           // [tokens * slots][cols], [tokens][cols] or empty
  std::vector<Number<T>> weights;  // [tokens][slots] or empty

  explicit ExpertSumNumbers(const Problem &problem) {
    const auto &[first, second] = make_operands<T>(Family::two_vectors, problem);
    Random random(problem.seed ^ 0x6d6f65u);
    slots = random.one_of<std::size_t>({1, 2, 2, 3, 4, 8});
    tokens = 1 + random.below(2);
    const bool has_weights = !random.one_in(3), has_add = random.one_in(2);
    const std::size_t n = first.size();
    const auto append = [n = n](std::vector<T> &to, const std::vector<T> &from, std::size_t turned_by) {
      for (std::size_t i = 0; i < n; ++i) to.push_back(from[(i + turned_by) % n]);
    };
    for (std::size_t row = 0; row < tokens * slots; ++row) append(x, row % 2 == 0 ? first : second, row);
    for (std::size_t token = 0; has_add && token < tokens; ++token) append(add, second, 3 * token + 5);
    for (std::size_t i = 0; has_weights && i < tokens * slots; ++i)
      weights.push_back(static_cast<Number<T>>(random.gaussian()));
  }
};

}  // namespace rapt::test
