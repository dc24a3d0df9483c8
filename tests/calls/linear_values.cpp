#include "calls/linear_values.hpp"

#include <cmath>
#include <iterator>
#include <limits>
#include <span>

#include "support/remembered.hpp"

namespace rapt::test {
namespace {

// Returns whether every row gets values of the class. In other classes only one row in `share` does, because
// one special input affects all outputs of its row.
bool is_of_all_rows(InputClass input) {
  return input == InputClass::uniform || input == InputClass::gaussian ||
         input == InputClass::gaussian_wide || input == InputClass::denormals ||
         input == InputClass::signed_zeros || input == InputClass::exp_range ||
         input == InputClass::tiny_rows || input == InputClass::tiny_queries;
}

// Fills `row`. `is_weight` tells the operands apart where only their product is unusual.
template <class E>
void fill_row(InputClass input, bool is_weight, Random &random, std::span<E> row) {
  using Limits = std::numeric_limits<E>;
  const bool are_subnormal =
      !is_weight && (input == InputClass::tiny_rows || input == InputClass::tiny_queries);
  if (are_subnormal) return fill<E>(InputClass::denormals, random, row);
  if (input == InputClass::tiny_rows) return fill<E>(InputClass::uniform, random, row);
  if (input == InputClass::denormals && is_weight && random.one_in(2)) {
    return fill<E>(InputClass::gaussian, random, row);
  }
  fill<E>(input, random, row);
  if (input != InputClass::tiny_queries) return;
  // Weights near the largest number make ordinary products of subnormal inputs.
  for (E &value : row) {
    const bool is_negative = std::signbit(static_cast<Number<E>>(value));
    value = static_cast<E>((is_negative ? -0.5 : 0.5) * static_cast<double>(Limits::max()));
  }
}

template <class E>
std::vector<Number<E>> make_rows(InputClass input, bool is_weight, Random &random, std::size_t rows,
                                 std::size_t cols) {
  const std::size_t share = is_weight ? 16 : 3;
  std::vector<Number<E>> numbers;
  std::vector<E> row(cols);
  for (std::size_t r = 0; r < rows; ++r) {
    const bool is_of_class = is_of_all_rows(input) || random.one_in(share);
    fill_row<E>(is_of_class ? input : InputClass::gaussian, is_weight, random, row);
    for (const E value : row) numbers.push_back(static_cast<Number<E>>(value));
  }
  return numbers;
}

template <class A>
A draw_special(Random &random) {
  using Limits = std::numeric_limits<A>;
  const A special[] = {Limits::infinity(), -Limits::infinity(),  Limits::quiet_NaN(),
                       Limits::max(),      Limits::denorm_min(), -A(0)};
  return special[random.below(std::size(special))];
}

template <class A>
void make_options(const Problem &problem, LinearNumbers<A> &made) {
  // A separate generator keeps x and w as they are when an option is left out.
  Random random(problem.seed ^ 0x6f7074696f6e73u);
  const LinearProblem &wanted = problem.as<LinearProblem>();
  const bool are_special = problem.input == InputClass::specials,
             are_zero = problem.input == InputClass::signed_zeros;
  for (std::size_t n = 0; wanted.bias && n < wanted.outputs; ++n) {
    made.bias.push_back(static_cast<A>(2 * random.gaussian()));
    if (are_zero) made.bias.back() = random.one_in(2) ? A(0) : -A(0);
    if (are_special && random.one_in(8)) made.bias.back() = draw_special<A>(random);
  }
  for (std::size_t r = 0; wanted.row_scales && r < wanted.rows; ++r) {
    constexpr double factors[] = {1, 0.5, 1.75, -0.7, 0, 3};
    const double factor = factors[random.below(std::size(factors))] * (0.5 + random.uniform());
    made.row_scales.push_back(static_cast<A>(wanted.scale * factor));
    if (are_special && random.one_in(8)) made.row_scales.back() = draw_special<A>(random);
  }
  for (std::size_t n = 0; wanted.output_scales && n < wanted.outputs; ++n) {
    made.output_scales.push_back(static_cast<A>(random.gaussian()));
    if (are_zero) made.output_scales.back() = random.one_in(2) ? A(0) : -A(1);
    if (are_special && random.one_in(8)) made.output_scales.back() = draw_special<A>(random);
  }
}

template <class W>
LinearNumbers<Number<W>> make_new_linear(const Problem &problem) {
  const LinearProblem &shape = problem.as<LinearProblem>();
  LinearNumbers<Number<W>> made;
  with_linear_types<W>(shape.types, [&]<class X, class Y>(LinearTypes<X, Y>) {
    Random random(problem.seed);
    made.x = make_rows<X>(problem.input, false, random, shape.rows, shape.cols);
    made.w = make_rows<W>(problem.input, true, random, shape.outputs, shape.cols);
    // An addend of the same class would overwhelm the results.
    const bool is_plain = problem.input == InputClass::signed_zeros || problem.input == InputClass::specials;
    const InputClass of_add = is_plain ? problem.input : InputClass::gaussian;
    if (shape.add == Addend::like_x)
      made.add = make_rows<X>(of_add, false, random, shape.rows, shape.outputs);
    if (shape.add == Addend::like_y)
      made.add = make_rows<Y>(of_add, false, random, shape.rows, shape.outputs);
  });
  make_options(problem, made);
  return made;
}

}  // namespace

template <class W>
const LinearNumbers<Number<W>> &make_linear(const Problem &problem) {
  return remembered(problem, [&] { return make_new_linear<W>(problem); });
}

template const LinearNumbers<float> &make_linear<float>(const Problem &);
template const LinearNumbers<double> &make_linear<double>(const Problem &);
template const LinearNumbers<float> &make_linear<F16>(const Problem &);
template const LinearNumbers<float> &make_linear<BF16>(const Problem &);

}  // namespace rapt::test
