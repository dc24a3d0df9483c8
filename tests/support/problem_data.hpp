// Makes the inputs and option arrays of a problem. They depend only on the problem.
#pragma once

#include <cstdint>
#include <vector>

#include "support/elements.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Holds a kernel's main inputs without gaps, for all rows of the problem: a and b, x, query and rows
// (dot_rows), y and dy (softmax_backward), q and k (attention), or x and w (linear layers).
template <class T>
struct OperandValues {
  std::vector<T> first, second;
};

// The result is valid until the next call with the same T. Defined for all element types.
template <class T>
const OperandValues<T> &make_operands(Family family, const Problem &problem);

// Holds the arrays of the softmax options. An array is empty if its option is not set. Defined for float and
// double.
template <class T>
struct OptionValues {
  std::vector<T> bias;             // one row or all rows, without gaps
  std::vector<std::uint8_t> mask;  // one row or all rows, without gaps
  std::vector<std::size_t> lengths;
  std::vector<T> sinks;
};

template <class T>
const OptionValues<T> &make_option_values(const Problem &problem);

}  // namespace rapt::test
