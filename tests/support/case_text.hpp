// Writes and reads a case as text that a command line takes: "rows=2 n=17 input=gaussian seed=5 …". The words
// are in options.cpp.
#pragma once

#include <string>

#include "support/problem.hpp"

namespace rapt::test {

// The text leaves out fields with their default values, except rows, n, input and seed.
std::string to_text(const Case &given);

// Returns an empty text if `text` is a case of the family. Otherwise returns what is wrong with `text`.
std::string parse_case(Family family, const std::string &text, Case &parsed);

// Returns false if `text` is not a valid Number. Defined for uint64_t, ptrdiff_t and double.
template <class Number>
bool parse_number(const std::string &text, Number &value);

}  // namespace rapt::test
