// Makes the inputs and option arrays of a problem, which depend only on the problem.
#pragma once

#include <cstdint>
#include <vector>

#include "support/elements.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Holds a kernel's main inputs, dense, for all rows of the problem. The inputs are a and b, or x; in dot_rows
// the query and the rows; in softmax x, or y and dy; in attention q and k.
template <class T>
struct OperandValues {
  std::vector<T> first, second;
};

// The result is valid until the next call of the same type. The function is defined for all element types.
template <class T>
const OperandValues<T> &make_operands(Family family, const Problem &problem);

// Holds the arrays that softmax options point to. An array is empty if its option is not set. Defined for
// float and double.
template <class T>
struct OptionValues {
  std::vector<T> bias;             // dense, one row or all
  std::vector<std::uint8_t> mask;  // dense, one row or all
  std::vector<std::size_t> lengths;
  std::vector<T> sinks;
};

template <class T>
const OptionValues<T> &make_option_values(const Problem &problem);

}  // namespace rapt::test
