// A case as text that a command line takes: "rows=2 n=17 input=gaussian seed=5 …". options.cpp has the words.
#pragma once

#include <string>

#include "support/problem.hpp"

namespace rapt::test {

// Leaves out fields with their default values, except rows, n, input and seed.
std::string to_text(const Case &given);

// Returns an empty text if `text` is a case of the family; otherwise what is wrong with it.
std::string parse_case(Family family, const std::string &text, Case &parsed);

// Defined for uint64_t, ptrdiff_t and double: false if `text` is no such number.
template <class Number>
bool parse_number(const std::string &text, Number &value);

}  // namespace rapt::test
