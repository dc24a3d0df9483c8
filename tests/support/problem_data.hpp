// The inputs and option arrays of a problem, made only from the problem.
#pragma once

#include <cstdint>
#include <vector>

#include "support/elements.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// A kernel's main inputs, dense, of all rows of the problem: a and b, or x; the query and the rows of
// dot_rows; x, or y and dy of softmax; q and k of attention.
template <class T>
struct OperandValues {
  std::vector<T> first, second;
};

// Valid until the next call of the same type. Defined for all element types.
template <class T>
const OperandValues<T> &make_operands(Family family, const Problem &problem);

// The arrays that softmax options point to; empty where an option is not set. Defined for float and double.
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
