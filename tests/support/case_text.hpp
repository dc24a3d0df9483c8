// A case as text that a command line takes: "rows=2 n=17 input=gaussian seed=5 …". options.cpp has the words.
#pragma once

#include <string>

#include "support/problem.hpp"

namespace rapt::test {

// A field with its default value is left out, but for rows, n, input and seed.
std::string to_text(const Case &given);

// Empty if `text` is a case of the family; else what is wrong with it.
std::string parse_case(Family family, const std::string &text, Case &parsed);

// Defined for uint64_t, ptrdiff_t and double: false if `text` is no such number.
template <class Number>
bool parse_number(const std::string &text, Number &value);

}  // namespace rapt::test
