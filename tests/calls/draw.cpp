#include "calls/draw.hpp"

#include <cstdlib>
#include <cstring>

#include "calls/linear_problems.hpp"
#include "calls/norm.hpp"
#include "calls/rope.hpp"
#include "calls/softmax.hpp"
#include "calls/vectors.hpp"
#include "support/options.hpp"

namespace rapt::test {

Case draw_case(Random &random, const KernelCase &kernel, std::size_t most) {
  switch (kernel.traits.family) {
    case Family::norm: {
      const Problem problem = draw_norm_problem(random, most);
      return {problem, draw_layout(random, kernel.traits.element_size)};
    }
    case Family::linear: {
      const Problem problem = draw_linear_problem(random, 20 * most);
      return {problem, draw_linear_layout(random, kernel.traits.element_size)};
    }
    case Family::quantized_linear: {
      const bool in_i8 = std::strstr(kernel.name, "_i8") != nullptr;
      const Problem problem = draw_quantized_problem(random, 20 * most, in_i8);
      return {problem, draw_linear_layout(random, kernel.traits.element_size)};
    }
    case Family::vector:
    case Family::two_vectors: {
      const Problem problem = draw_vector_problem(random, most);
      return {problem, draw_layout(random, kernel.traits.element_size)};
    }
    case Family::dot_rows: {
      const Problem problem = draw_dot_rows_problem(random, most);
      return {problem, draw_layout(random, kernel.traits.element_size)};
    }
    case Family::softmax: {
      const Problem problem = draw_softmax_problem(random, most);
      return {problem, draw_layout(random, kernel.traits.element_size)};
    }
    case Family::softmax_backward: {
      const Problem problem = draw_softmax_backward_problem(random, most);
      return {problem, draw_layout(random, kernel.traits.element_size)};
    }
    case Family::rope: {
      const Problem problem = draw_rope_problem(random, most);
      return {problem, draw_attention_layout(random, kernel.traits.element_size)};
    }
    default:
      std::abort();  // nothing of it is described
  }
}

}  // namespace rapt::test
