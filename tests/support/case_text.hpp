// Converts a case to and from a line of text for command lines: "rows=2 n=17 input=gaussian seed=5 …". The
// tables in options.cpp define its words.
#pragma once

#include <string>

#include "support/problem.hpp"

namespace rapt::test {

// Omits fields that have their default values, except rows, n, input and seed.
std::string to_text(const Case &given);

// Returns an error message, or an empty string if `text` is a case of the family.
std::string parse_case(Family family, const std::string &text, Case &parsed);

// Returns false if `text` is not a valid Number. Defined for uint64_t, ptrdiff_t and double.
template <class Number>
bool parse_number(const std::string &text, Number &value);

}  // namespace rapt::test
