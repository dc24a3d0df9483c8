#include "support/problem.hpp"

#include <type_traits>

namespace rapt::test {

RowsProblem *Problem::of_rows() {
  return std::visit(
      [](auto &problem) -> RowsProblem * {
        if constexpr (std::is_base_of_v<RowsProblem, std::remove_reference_t<decltype(problem)>>) {
          return &problem;
        } else {
          return nullptr;
        }
      },
      of);
}

std::size_t Problem::rows() const { return of_rows() ? of_rows()->rows : 1; }

std::size_t Problem::cols() const {
  return std::visit([](const auto &problem) { return problem.cols; }, of);
}

void Problem::set_cols(std::size_t cols) {
  std::visit([cols](auto &problem) { problem.cols = cols; }, of);
}

Problem make_problem(Family family, const Numbers &numbers) {
  Problem problem{numbers.input, numbers.seed, {}};
  switch (family) {
    case Family::two_vectors:
    case Family::vector:
      problem.of = VectorProblem{numbers.cols, numbers.scale, numbers.shift};
      return problem;
    case Family::dot_rows:
      problem.of = DotRowsProblem{};
      break;
    case Family::softmax:
      problem.of = SoftmaxProblem{};
      break;
    case Family::softmax_backward:
      problem.of = SoftmaxBackwardProblem{};
      break;
    case Family::norm:
      problem.of = NormProblem{};
      break;
    case Family::attention:
    case Family::attention_backward:
      problem.of = AttentionProblem{};
      break;
    case Family::linear:
      problem.of = LinearProblem{};
      break;
    case Family::quantized_linear:
      problem.of = QuantizedProblem{};
      break;
    case Family::rope:
      problem.of = RopeProblem{};
      break;
    case Family::reduce:
      problem.of = ReduceProblem{};
      break;
    case Family::convolution:
      problem.of = ConvolutionProblem{};
      break;
    case Family::delta_rule:
      problem.of = DeltaProblem{};
      break;
  }
  *problem.of_rows() = {numbers.rows, numbers.cols, numbers.scale};
  return problem;
}

}  // namespace rapt::test
