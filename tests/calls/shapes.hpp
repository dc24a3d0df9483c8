// Draws what the problems of several functions share.
#pragma once

#include <algorithm>
#include <iterator>

#include "support/problem.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Draws few elements, numbers around the ends of vectors and sections, or any number, up to `most`.
inline std::size_t draw_cols(Random &random, std::size_t most) {
  const std::size_t kind = random.below(16), dense = random.below(70), any = random.below(2000);
  const std::size_t near_end =
      random.one_of<std::size_t>({64, 128, 256, 1024, 2048, 4096, 16384, 32768, 131072}) - 1 +
      random.below(3);
  return std::min(kind < 11 ? dense : kind < 14 ? near_end : any, most);
}

// Draws rows, few or many, and perhaps a window of them.
inline void draw_rows(Random &random, std::size_t most, RowsProblem &made) {
  made.cols = draw_cols(random, most);
  const std::size_t few = random.below(6), many = random.below(40);
  made.rows = std::min(random.one_in(4) ? many : few, most / std::max<std::size_t>(made.cols, 1));
  if (made.rows == 0 || !random.one_in(4)) return;
  made.window.first = random.below(made.rows);
  made.window.count = 1 + random.below(made.rows - made.window.first);
}

// Draws the numbers of a problem.
template <class Of>
Problem with_numbers(Random &random, const Of &of) {
  Problem problem;
  problem.input = all_input_classes[random.below(std::size(all_input_classes))];
  problem.seed = random.below(1u << 24);
  problem.of = of;
  return problem;
}

}  // namespace rapt::test
