// Makes the tensors and option arrays of a problem of attention, which depend only on the problem.
#pragma once

#include "oracle/attention.hpp"
#include "support/elements.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Queries, keys and values are exact in E. For bytes, queries are any numbers, and keys and values have
// scales. Keys that no query sees, and their values, are NaN or infinite. The result is valid until the next
// call of the same type. The function is defined for all element types.
template <class E>
const oracle::Attention<Number<E>> &make_attention(const Problem &problem);

template <class E>
std::vector<E> elements_of(const std::vector<Number<E>> &numbers) {
  std::vector<E> made;
  made.reserve(numbers.size());
  for (const Number<E> number : numbers) made.push_back(E(number));
  return made;
}

// Returns the gradient of the output, [batch][q_heads][q_len][v_dim].
template <class T>
std::vector<T> make_output_gradient(const Problem &problem, const oracle::Attention<T> &a);

}  // namespace rapt::test
