#include "calls/linear_problems.hpp"

#include <algorithm>
#include <iterator>

#include "calls/quantized_values.hpp"
#include "support/effort.hpp"
#include "support/options.hpp"

namespace rapt::test {
namespace {

InputClass draw_input(Random &random) {
  constexpr InputClass inputs[] = {InputClass::gaussian,     InputClass::gaussian,
                                   InputClass::gaussian,     InputClass::gaussian,
                                   InputClass::uniform,      InputClass::gaussian_wide,
                                   InputClass::denormals,    InputClass::huge,
                                   InputClass::signed_zeros, InputClass::wide_exponents,
                                   InputClass::specials,     InputClass::minus_infinities,
                                   InputClass::tiny_rows,    InputClass::tiny_queries,
                                   InputClass::odd_rows,     InputClass::nans};
  return random.one_of(inputs);
}

// Draws small primes, numbers around the ends of groups of 512 inputs, and other numbers.
std::size_t draw_inputs(Random &random) {
  const std::size_t kind = random.below(8);
  if (kind < 2) return random.one_of<std::size_t>({1, 1, 2, 3, 5, 7, 11, 13, 17, 31, 37, 61});
  if (kind < 6) return 1 + random.below(80);
  if (kind == 6) return random.one_of<std::size_t>({511, 512, 513, 1023, 1024, 1025, 1030});
  return 1 + random.below(1100);
}
// Draws numbers around the ends of blocks of 64 outputs and of tasks, and other numbers.
std::size_t draw_outputs(Random &random) {
  const std::size_t kind = random.below(8);
  if (kind == 0) return random.one_of<std::size_t>({0, 1, 1, 2, 3, 5});
  if (kind < 4) return 1 + random.below(70);
  if (kind < 7) return random.one_of<std::size_t>({63, 64, 65, 127, 128, 129, 130, 192, 255, 257, 300});
  return 1 + random.below(400);
}
std::size_t draw_rows(Random &random) {
  const std::size_t kind = random.below(8);
  if (kind == 0) return random.one_of<std::size_t>({0, 1, 1, 2, 3});
  if (kind < 5) return 1 + random.below(14);
  if (kind < 7) return 1 + random.below(60);
  return random.one_of<std::size_t>({95, 96, 97, 100, 144, 193, 200});
}

// Draws the sizes of a layer, and the input of its problem, which does not yet have the layer.
template <class Layer>
Problem draw_shape(Random &random, std::size_t most_work, Layer &made) {
  made.cols = draw_inputs(random);
  made.outputs = draw_outputs(random);
  made.rows = draw_rows(random);
  const auto work = [&] {
    return made.cols * std::max<std::size_t>(made.outputs, 1) * std::max<std::size_t>(made.rows, 1);
  };
  while (work() > most_work) {
    const std::size_t kind = random.below(3);
    if (kind == 0) made.cols = 1 + random.below(made.cols);
    if (kind == 1) made.outputs = random.below(made.outputs + 1);
    if (kind == 2) made.rows = random.below(made.rows + 1);
  }
  Problem problem;
  problem.input = draw_input(random);
  problem.seed = random.below(1u << 24);
  return problem;
}

}  // namespace

Problem draw_linear_problem(Random &random, std::size_t most_work) {
  LinearProblem made;
  Problem problem = draw_shape(random, most_work, made);
  made.scale = random.one_of({1.0, 1.0, 1.0, 0.125, -0.3, 0.0, 0x1p-120, 0x1p100});
  draw(random, made);
  problem.of = made;
  return problem;
}

Problem draw_quantized_problem(Random &random, std::size_t most_work, bool in_i8) {
  QuantizedProblem made;
  Problem problem = draw_shape(random, most_work, made);
  made.types = static_cast<QuantizedTypes>(random.below(in_i8 ? 6 : 4));
  draw(random, made);
  if (in_i8) made.x_group = static_cast<XGroup>(random.below(4));
  if (!in_i8 && made.weights == WeightType::u4 && !made.zeros) made.codebook = random.one_in(2);
  problem.of = made;
  return problem;
}

Problem with_later_options(Random &random, Problem problem, bool in_i8) {
  QuantizedProblem &of = std::get<QuantizedProblem>(problem.of);
  of.output_scales = random.one_in(4);
  if (file_type_of(of.weights) != oracle::FileType::none) return problem;
  const bool in_f8 = random.one_in(3), is_e4m3 = random.one_in(2);
  if (in_f8 && !in_i8) {
    of.weights = is_e4m3 ? WeightType::f8_e4m3 : WeightType::f8_e5m2;
    of.zeros = of.codebook = of.integers = false;
  }
  const auto shared = static_cast<SharedScales>(random.below(std::size(names_of<SharedScales>)));
  if (of.scales && random.one_in(2)) of.shared = shared;
  return problem;
}

Problem in_unsigned_bytes(Random &random, Problem problem) {
  QuantizedProblem &of = std::get<QuantizedProblem>(problem.of);
  of.weights = WeightType::u8;
  of.zeros = !random.one_in(3);
  of.codebook = of.integers = false;
  return problem;
}

std::vector<Problem> linear_of_shapes(std::size_t step) {
  std::vector<Problem> problems;
  std::size_t count = 0;
  for (const std::size_t cols : Sizes{1, 2, 3, 7, 16, 31, 64, 65, 511, 512, 513, 1030}) {
    for (const std::size_t rows : Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 18, 25}) {
      count += 1;
      if (count % step != 0) continue;
      LinearProblem made;
      made.rows = rows;
      made.cols = cols;
      // The steps of both lists have no common divisor with their lengths, so that all pairs occur.
      constexpr std::size_t outputs[] = {1, 63, 64, 65, 130, 7, 192, 16, 40, 257, 100};
      made.outputs = outputs[count * 3 % std::size(outputs)];
      made.bias = count % 2 == 0;
      made.row_scales = count % 5 == 0;
      made.add = static_cast<Addend>(count / 2 % 3);
      problems.push_back({InputClass::gaussian, 100 * cols + rows, made});
    }
  }
  return problems;
}

}  // namespace rapt::test
