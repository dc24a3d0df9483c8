#include "support/problem_data.hpp"

#include <iterator>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "calls/convolution.hpp"
#include "calls/linear_values.hpp"
#include "calls/rope.hpp"
#include "support/attention_data.hpp"
#include "support/remembered.hpp"

namespace rapt::test {
namespace {

template <class T>
std::vector<T> make_values(InputClass input, Random &random, std::size_t rows, std::size_t cols) {
  std::vector<T> values(rows * cols);
  // Fills each row separately, because classes such as `specials` place their special values per row.
  for (std::size_t r = 0; r < rows; ++r) fill<T>(input, random, std::span(values).subspan(r * cols, cols));
  return values;
}

template <class T>
std::vector<T> make_probabilities(const Problem &problem, Random &random) {
  // With minus_infinities, dy has -inf elements. The zeros that fill_probabilities() draws exclude them.
  const bool ordinary = problem.input == InputClass::gaussian || problem.input == InputClass::uniform ||
                        problem.input == InputClass::minus_infinities;
  const std::size_t rows = problem.rows(), cols = problem.cols();
  if (!ordinary) return make_values<T>(problem.input, random, rows, cols);
  std::vector<T> values(rows * cols);
  for (std::size_t r = 0; r < rows; ++r) {
    fill_probabilities<T>(random, std::span(values).subspan(r * cols, cols));
  }
  return values;
}

template <class T>
void make_float_operands(Family family, const Problem &problem, Random &random, OperandValues<T> &values) {
  if (family == Family::softmax_backward) {
    values.first = make_probabilities<T>(problem, random);
    values.second = make_values<T>(problem.input, random, problem.rows(), problem.cols());
    return;
  }
  if (family == Family::linear) {
    const LinearNumbers<Number<T>> &made = make_linear<T>(problem);
    values.first = elements_of<T>(made.x);
    values.second = elements_of<T>(made.w);
    return;
  }
  const oracle::Attention<Number<T>> made = make_attention<T>(problem);
  values.first = elements_of<T>(made.q);
  values.second = elements_of<T>(made.k);
}

// Makes the second operand of a product. Unsigned bytes are multiplied by signed bytes.
template <class T>
std::vector<T> make_factors(InputClass input, Random &random, std::size_t rows, std::size_t cols) {
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    const auto factors = make_values<std::int8_t>(input, random, rows, cols);
    return {factors.begin(), factors.end()};
  } else {
    return make_values<T>(input, random, rows, cols);
  }
}

template <class T>
OperandValues<T> make_new_operands(Family family, const Problem &problem) {
  Random random(problem.seed);
  const std::size_t cols = problem.cols();
  const auto draw = [&](std::size_t rows) { return make_values<T>(problem.input, random, rows, cols); };
  OperandValues<T> values;
  switch (family) {
    case Family::vector:
      values.first = draw(1);
      break;
    case Family::two_vectors:
      values.first = draw(1);
      values.second = make_factors<T>(problem.input, random, 1, cols);
      break;
    case Family::dot_rows:
      values.first = draw(1);
      values.second = make_factors<T>(problem.input, random, problem.rows(), cols);
      for (std::size_t i = cols; problem.as<DotRowsProblem>().same_row && i < values.second.size(); ++i) {
        values.second[i] = values.second[i - cols];
      }
      break;
    case Family::softmax:
      values.first = draw(problem.rows());
      break;
    case Family::norm:
      if constexpr (sizeof(T) > 1) {
        values.first = draw(problem.rows());
        values.second = draw(problem.rows());
      }
      break;
    case Family::softmax_backward:
    case Family::attention:
    case Family::attention_backward:
    case Family::linear:
      if constexpr (sizeof(T) > 1) make_float_operands(family, problem, random, values);
      break;
    case Family::rope:
      if constexpr (sizeof(T) > 1) values.first = make_rope_values<T>(problem).x;
      break;
    case Family::reduce: {
      const ReduceProblem &wanted = problem.as<ReduceProblem>();
      values.first = draw(wanted.outer * wanted.middle * wanted.rows);
      break;
    }
    case Family::convolution: {
      const auto &wanted = problem.as<ConvolutionProblem>();
      values.first = make_values<T>(problem.input, random, 1, first_operand(wanted));
      values.second = make_values<T>(problem.input, random, 1, second_operand(wanted));
      break;
    }
    case Family::delta_rule:        // calls/delta_rule.cpp makes them
    case Family::quantized_linear:  // its operands have several types
      break;
  }
  return values;
}

template <class T>
OptionValues<T> make_new_option_values(const Problem &problem) {
  // A separate generator makes the options independent of the input class and the element type.
  Random random(problem.seed ^ 0x6f7074696f6e73u);
  const SoftmaxOptions &wanted = problem.as<SoftmaxProblem>().options;
  const std::size_t rows = problem.rows(), cols = problem.cols();
  const auto elements = [&](PerRow choice) {
    return choice == PerRow::none ? 0 : (choice == PerRow::each ? rows : 1) * cols;
  };
  constexpr T infinity = std::numeric_limits<T>::infinity();
  OptionValues<T> values;
  // Softmax computes a group of short rows differently if one of its rows has no visible element. Half of all
  // problems have no such row.
  const bool empty_rows = random.one_in(2);
  const auto exclude_rows = [&](auto &all, PerRow choice, auto excluded) {
    for (std::size_t r = 0; choice == PerRow::each && empty_rows && r < rows; ++r) {
      if (!random.one_in(16)) continue;
      for (std::size_t i = 0; i < cols; ++i) all[r * cols + i] = excluded;
    }
  };
  values.bias.resize(elements(wanted.bias));
  for (T &element : values.bias) {
    const bool excluded = random.one_in(8) && wanted.bias_excludes;
    const T value = static_cast<float>(2 * random.gaussian());
    element = excluded ? -infinity : value;
  }
  if (wanted.bias_excludes) exclude_rows(values.bias, wanted.bias, -infinity);
  values.mask.resize(elements(wanted.mask));
  for (std::uint8_t &element : values.mask) {
    element = static_cast<std::uint8_t>(random.one_in(4) ? 0 : 1 + random.below(255));
  }
  exclude_rows(values.mask, wanted.mask, std::uint8_t{0});
  for (std::size_t r = 0; wanted.row_lengths && r < rows; ++r) {
    const std::size_t least = empty_rows || cols == 0 ? 0 : 1;
    const std::size_t length = least + random.below(cols + 1 - least);
    values.lengths.push_back(r % 4 == 1 ? least : r % 4 == 2 ? cols : length);
  }
  for (std::size_t r = 0; wanted.sinks && r < rows; ++r) {
    constexpr T special[] = {infinity,
                             -infinity,
                             std::numeric_limits<T>::quiet_NaN(),
                             T(-0.0),
                             std::numeric_limits<T>::max(),
                             std::numeric_limits<T>::lowest()};
    const T ordinary = static_cast<float>(4 * random.gaussian());
    values.sinks.push_back(wanted.special_sinks ? special[r % std::size(special)] : ordinary);
  }
  return values;
}

}  // namespace

template <class T>
const OperandValues<T> &make_operands(Family family, const Problem &problem) {
  return remembered(std::pair(family, problem), [&] { return make_new_operands<T>(family, problem); });
}

template const OperandValues<float> &make_operands(Family, const Problem &);
template const OperandValues<double> &make_operands(Family, const Problem &);
template const OperandValues<F16> &make_operands(Family, const Problem &);
template const OperandValues<BF16> &make_operands(Family, const Problem &);
template const OperandValues<std::int8_t> &make_operands(Family, const Problem &);
template const OperandValues<std::uint8_t> &make_operands(Family, const Problem &);

template <class T>
const OptionValues<T> &make_option_values(const Problem &problem) {
  return remembered(problem, [&] { return make_new_option_values<T>(problem); });
}

template const OptionValues<float> &make_option_values(const Problem &);
template const OptionValues<double> &make_option_values(const Problem &);

}  // namespace rapt::test
