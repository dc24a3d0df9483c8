#include "calls/draw.hpp"

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "calls/convolution.hpp"
#include "calls/delta_rule.hpp"
#include "calls/linear_problems.hpp"
#include "calls/norm.hpp"
#include "calls/quantized_values.hpp"
#include "calls/reduce.hpp"
#include "calls/rope.hpp"
#include "calls/softmax.hpp"
#include "calls/vectors.hpp"
#include "support/options.hpp"

namespace rapt::test {
namespace {

// Makes some layers of blocks of a file, which have other inputs.
Problem perhaps_in_blocks(Random &random, Problem problem) {
  QuantizedProblem &of = std::get<QuantizedProblem>(problem.of);
  constexpr int first = static_cast<int>(WeightType::q8_0),
                count = static_cast<int>(WeightType::f8_e4m3) - first;
  if (!random.one_in(3)) return problem;
  of.weights = static_cast<WeightType>(first + static_cast<int>(random.below(count)));
  const std::size_t inputs = oracle::size_of_block(file_type_of(of.weights)).inputs;
  of.cols = (of.cols + inputs - 1) / inputs * inputs;
  of.scales = of.zeros = of.offsets = of.codebook = of.integers = false;
  of.scale_group = 0;
  return problem;
}

// Gives some layers of 4 bits a codebook that both arithmetics have.
Problem perhaps_with_integers(Random &random, Problem problem) {
  QuantizedProblem &of = std::get<QuantizedProblem>(problem.of);
  if (of.weights != WeightType::u4 || !random.one_in(3)) return problem;
  of.zeros = false;
  of.codebook = of.integers = true;
  return problem;
}

Problem perhaps_in_unsigned_bytes(Random &random, Problem problem) {
  const bool is_i8 = std::get<QuantizedProblem>(problem.of).weights == WeightType::i8;
  return is_i8 && random.one_in(2) ? in_unsigned_bytes(random, std::move(problem)) : problem;
}

Problem perhaps_with_output_scales(Random &random, Problem problem) {
  std::get<LinearProblem>(problem.of).output_scales = random.one_in(4);
  return problem;
}

Problem draw_problem(Random &random, const KernelCase &kernel, std::size_t most) {
  const std::size_t multiplications = 20 * most;
  switch (kernel.traits.family) {
    case Family::vector:
    case Family::two_vectors:
      return draw_vector_problem(random, most);
    case Family::dot_rows:
      return draw_dot_rows_problem(random, most);
    case Family::softmax:
      return draw_softmax_problem(random, most);
    case Family::softmax_backward:
      return draw_softmax_backward_problem(random, most);
    case Family::norm:
      return draw_norm_problem(random, most);
    case Family::reduce:
      return draw_reduce_problem(random, most);
    case Family::convolution:
      return draw_convolution_problem(random, multiplications);
    case Family::delta_rule:
      return draw_delta_problem(random, most);
    case Family::rope:
      return draw_rope_problem(random, most);
    case Family::linear:
      return perhaps_with_output_scales(random, draw_linear_problem(random, multiplications));
    case Family::quantized_linear: {
      const bool in_i8 = std::strstr(kernel.name, "_i8") != nullptr;
      Problem problem = perhaps_with_integers(random, draw_quantized_problem(random, multiplications, in_i8));
      problem = with_later_options(random, perhaps_in_blocks(random, std::move(problem)), in_i8);
      return perhaps_in_unsigned_bytes(random, std::move(problem));
    }
    case Family::attention:
    case Family::attention_backward:
      break;
  }
  std::abort();  // nothing of it is described
}

}  // namespace

Case draw_case(Random &random, const KernelCase &kernel, std::size_t most) {
  const Problem problem = draw_problem(random, kernel, most);
  const KernelTraits &traits = kernel.traits;
  const bool has_order =
      traits.is_linear() || traits.is_quantized_linear() || traits.is_reduce() || traits.is_convolution();
  const auto draw_any = traits.is_rope()         ? draw_attention_layout
                        : traits.is_delta_rule() ? draw_delta_layout
                        : has_order              ? draw_linear_layout
                                                 : draw_layout;
  return {problem, draw_any(random, traits.element_size)};
}

}  // namespace rapt::test
