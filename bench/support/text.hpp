// Formats numbers and prints lines of the tables on the terminal, which are at most 80 columns wide.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace rapt::bench {

// Formats a number with about three significant digits.
std::string number(double value);
std::string time_text(double seconds);
std::string size_text(std::size_t bytes);

// Prints the following lines to `stream`. Until print_to() is called, lines go to stdout.
void print_to(std::FILE *stream);
// Prints a line without the spaces at its end.
void print_text(std::string_view line);
template <class... Arguments>
void print_line(fmt::format_string<Arguments...> format, Arguments &&...arguments) {
  print_text(fmt::format(format, std::forward<Arguments>(arguments)...));
}
void print_rule(std::size_t width);
// Prints a name and a fact about it, wrapped at spaces.
void print_fact(std::string_view name, const std::string &fact, std::size_t name_width = 14);

}  // namespace rapt::bench
