#include "support/rope_data.hpp"

#include <cmath>
#include <span>

#include "support/remembered.hpp"

namespace rapt::test {
namespace {

constexpr double half_pi = 0x1.921fb54442d18p0;

// Draws frequencies of a model, which fall from 1, and others: above 1, multiples of an eighth of a turn,
// tiny ones and 0.
double draw_frequency(Random &random, std::size_t i, std::size_t count) {
  const double of_model = std::ldexp(1 + random.uniform(), -static_cast<int>(14 * i / count));
  const std::size_t kind = random.below(16);
  const double number = random.uniform(), steps = static_cast<double>(1 + random.below(600));
  if (kind == 0) return 1024 * number;
  if (kind == 1) return steps * half_pi;
  if (kind == 2) return -number;
  if (kind == 3) return steps * half_pi / 2;
  if (kind == 4) return std::ldexp(number, -static_cast<int>(random.below(1070)));
  if (kind == 5) return random.one_of({0.0, -0.0, 1024.0, -1024.0, 1.0, 0x1p-1074});
  return of_model;
}

std::int64_t draw_position(Random &random) {
  constexpr std::int64_t farthest = std::int64_t{1} << 24;
  const std::size_t kind = random.below(8);
  const auto far = static_cast<std::int64_t>(random.below(2 * farthest + 1)) - farthest;
  if (kind < 3) return static_cast<std::int64_t>(random.below(200));
  if (kind < 6) return static_cast<std::int64_t>(random.below(200000));
  if (kind == 6) return random.one_of<std::int64_t>({farthest, -farthest, farthest - 1, 0, -1});
  return far;
}

template <class T>
RopeNumbers<T> make_new_rope(const Problem &problem) {
  const auto &shape = problem.as<RopeProblem>();
  Random random(problem.seed);
  RopeNumbers<T> made;
  made.x.resize(shape.batch * shape.heads * shape.rows * shape.cols);
  for (std::size_t i = 0; shape.cols > 0 && i < made.x.size(); i += shape.cols) {
    fill<T>(problem.input, random, std::span(made.x).subspan(i, shape.cols));
  }
  const std::size_t pairs = shape.turned() / 2;
  for (std::size_t i = 0; i < pairs; ++i) made.frequencies.push_back(draw_frequency(random, i, pairs));
  for (std::size_t b = 0; b < shape.batch; ++b) {
    for (std::size_t t = 0; t < shape.rows; ++t) {
      const std::int64_t drawn = draw_position(random);
      const auto counted = static_cast<std::int64_t>(shape.first_position) + static_cast<std::int64_t>(t);
      made.positions.push_back(shape.positions == RopePositions::counted           ? counted
                               : shape.positions == RopePositions::shared && b > 0 ? made.positions[t]
                                                                                   : drawn);
    }
  }
  return made;
}

}  // namespace

template <class T>
const RopeNumbers<T> &make_rope(const Problem &problem) {
  return remembered(problem, [&] { return make_new_rope<T>(problem); });
}

template const RopeNumbers<float> &make_rope<float>(const Problem &);
template const RopeNumbers<double> &make_rope<double>(const Problem &);
template const RopeNumbers<F16> &make_rope<F16>(const Problem &);
template const RopeNumbers<BF16> &make_rope<BF16>(const Problem &);

}  // namespace rapt::test
