// Makes the tensors and option arrays of an attention problem. They depend only on the problem.
#pragma once

#include "oracle/attention.hpp"
#include "support/elements.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Makes queries, keys and values that are exact in E. If E is a byte, queries are any floats, and keys and
// values have scales. Keys that no query sees, and their values, are NaN or infinite. The result is valid
// until the next call with the same E. Defined for all element types.
template <class E>
const oracle::Attention<Number<E>> &make_attention(const Problem &problem);

// Returns what multiplies the bias of a head with bias_slopes. The products are exact.
inline double bias_slope(std::size_t head) { return head % 3 == 1 ? 0.5 : head % 3 == 2 ? 4 : 1; }

template <class E>
std::vector<E> elements_of(const std::vector<Number<E>> &numbers) {
  std::vector<E> made;
  made.reserve(numbers.size());
  for (const Number<E> number : numbers) made.push_back(E(number));
  return made;
}

// Returns the gradient of the output, as [batch][q_heads][q_len][v_dim].
template <class T>
std::vector<T> make_output_gradient(const Problem &problem, const oracle::Attention<T> &a);

}  // namespace rapt::test
