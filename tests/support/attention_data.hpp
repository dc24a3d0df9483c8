// The numbers that a problem of attention stands for: a function of the problem alone.
#pragma once

#include "oracle/attention.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Keys that no query sees, and their values, are NaN or infinite. Defined for float and double.
template <class T>
oracle::Attention<T> make_attention(const Problem &problem);

}  // namespace rapt::test
