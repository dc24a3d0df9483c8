// The numbers that a problem of attention stands for: a function of the problem alone.
#pragma once

#include "oracle/attention.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Keys that no query sees, and their values, are NaN or infinite. Defined for float and double.
template <class T>
oracle::Attention<T> make_attention(const Problem &problem);

// A gradient of its output, [batch][q_heads][q_len][v_dim].
template <class T>
std::vector<T> make_output_gradient(const Problem &problem, const oracle::Attention<T> &a);

}  // namespace rapt::test
