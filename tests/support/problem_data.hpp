// The numbers that a problem stands for: a function of the problem alone.
#pragma once

#include <cstdint>
#include <vector>

#include "support/problem.hpp"

namespace rapt::test {

// What a kernel's main inputs are.
enum class Operands {
  vector,                       // x
  two_vectors,                  // a, b
  query_and_rows,               // query, then the rows
  rows,                         // x, row by row
  probabilities_and_gradients,  // y, dy, row by row
  attention,                    // q and k
};

// Dense, of all rows of the problem.
template <class T>
struct OperandValues {
  std::vector<T> first, second;
};

// Defined for float and double.
template <class T>
OperandValues<T> make_operands(Operands operands, const Problem &problem);

// The arrays that softmax options point to; empty where an option is not set. Defined for float and double.
template <class T>
struct OptionValues {
  std::vector<T> bias;             // dense, one row or all
  std::vector<std::uint8_t> mask;  // likewise
  std::vector<std::size_t> lengths;
  std::vector<T> sinks;
};

template <class T>
OptionValues<T> make_option_values(const Problem &problem);

}  // namespace rapt::test
