#include "support/rope_problems.hpp"

#include <algorithm>

#include "support/options.hpp"

namespace rapt::test {
namespace {

InputClass draw_input(Random &random) {
  return random.one_of({InputClass::gaussian, InputClass::gaussian, InputClass::gaussian, InputClass::uniform,
                        InputClass::gaussian_wide, InputClass::denormals, InputClass::huge,
                        InputClass::signed_zeros, InputClass::wide_exponents, InputClass::specials,
                        InputClass::minus_infinities, InputClass::nans});
}

// Draws usual heads and small ones, and some whose sines and cosines need several tables.
std::size_t draw_head_dim(Random &random) {
  const std::size_t kind = random.below(16);
  const std::size_t small = 2 + random.below(140), long_one = 1000 + random.below(3500);
  if (kind < 6) return random.one_of<std::size_t>({16, 32, 64, 80, 96, 128, 192, 256});
  return kind == 6 ? long_one : small;
}

}  // namespace

Problem draw_rope_problem(Random &random, std::size_t most_work) {
  RopeProblem made;
  made.cols = draw_head_dim(random);
  made.heads = random.one_of<std::size_t>({1, 1, 2, 3, 5, 8});
  made.batch = random.one_of<std::size_t>({1, 1, 2, 3});
  const std::size_t few = random.below(6), many = 1 + random.below(70);
  made.rows = random.one_in(3) ? many : few;
  const std::size_t part = 2 + random.below(made.cols - 1);
  if (random.one_in(3)) made.rotary_dim = part;
  while (made.cols * made.heads * made.batch * std::max<std::size_t>(made.rows, 1) > most_work) {
    (made.batch > 1 ? made.batch : made.heads > 1 ? made.heads : made.rows) -= 1;
    if (made.rows == 0) break;
  }
  made.scale = random.one_of({1.0, 1.0, 1.0, 0.0, 1.2079441541679836, -0.7, 0x1p-60, 0x1p60});
  draw(random, made);
  Problem problem;
  problem.input = draw_input(random);
  problem.seed = random.below(1u << 24);
  problem.of = made;
  return problem;
}

std::vector<Problem> rope_of_shapes(std::size_t step) {
  std::vector<Problem> problems;
  std::size_t count = 0;
  const auto add = [&](std::size_t pairs, std::size_t rows, std::size_t heads) {
    for (const bool in_pairs : {false, true}) {
      if (count++ % step != 0) continue;
      RopeProblem made;
      made.rows = rows;
      made.heads = heads;
      made.rotary_dim = 2 * pairs;
      made.cols = 2 * pairs + count / 2 % 3;
      made.in_pairs = in_pairs;
      made.positions = static_cast<RopePositions>(count / 2 % 3);
      made.scale = count % 5 == 0 ? 1.25 : 1;
      problems.push_back({InputClass::gaussian, 100 * pairs + rows, made});
    }
  };
  for (std::size_t pairs = 1; pairs <= 66; ++pairs) add(pairs, 1 + pairs % 4, 1 + pairs % 3);
  for (const std::size_t pairs : {511u, 512u, 513u, 1023u, 1024u, 1025u, 1100u}) add(pairs, 3, 2);
  // A table holds 16 tokens of 64 pairs in halves, and 8 of pairs side by side.
  for (const std::size_t rows : {7u, 8u, 9u, 15u, 16u, 17u, 33u}) add(64, rows, 2);
  return problems;
}

}  // namespace rapt::test
