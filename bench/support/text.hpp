// Cells and lines of tables, at most 80 columns wide.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rapt::bench {

[[gnu::format(printf, 1, 2)]] std::string text(const char *format, ...);

std::string left(const std::string &cell, int width);
std::string right(const std::string &cell, int width);
std::string centre(const std::string &cell, int width);

// Three significant digits.
std::string number(double value);
std::string time_text(double seconds);
std::string size_text(std::size_t bytes);
std::string join(const std::vector<std::string> &parts);

// Without the spaces at its end.
void print_line(std::string line);
// A name and what is to be said about it, wrapped at spaces.
void print_fact(const char *name, const std::string &fact, std::size_t name_width = 14);

}  // namespace rapt::bench
