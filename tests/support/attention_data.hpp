// The tensors and option arrays of a problem of attention, made from the problem alone.
#pragma once

#include "oracle/attention.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Keys that no query sees, and their values, are NaN or infinite. Defined for float and double.
template <class T>
oracle::Attention<T> make_attention(const Problem &problem);

// The gradient of the output, [batch][q_heads][q_len][v_dim].
template <class T>
std::vector<T> make_output_gradient(const Problem &problem, const oracle::Attention<T> &a);

}  // namespace rapt::test
