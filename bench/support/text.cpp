#include "support/text.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

namespace rapt::bench {
namespace {

constexpr std::size_t page_width = 80;

}  // namespace

std::string text(const char *format, ...) {
  char buffer[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

std::string left(const std::string &cell, int width) { return text("%-*s", width, cell.c_str()); }
std::string right(const std::string &cell, int width) { return text("%*s", width, cell.c_str()); }
std::string centre(const std::string &cell, int width) {
  const int before = (width - static_cast<int>(cell.size())) / 2;
  return left(std::string(static_cast<std::size_t>(std::max(before, 0)), ' ') + cell, width);
}

void print_line(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  std::puts(line.c_str());
}

std::string number(double value) {
  const int digits = value < 0.1 ? 4 : value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return text("%.*f", digits, value);
}

std::string time_text(double seconds) {
  if (seconds < 1e-6) return number(seconds * 1e9) + " ns";
  if (seconds < 1e-3) return number(seconds * 1e6) + " us";
  return number(seconds * 1e3) + " ms";
}

std::string join(const std::vector<std::string> &parts) {
  std::string joined;
  for (const std::string &part : parts) joined += (joined.empty() ? "" : ", ") + part;
  return joined;
}

void print_fact(const char *name, const std::string &fact, std::size_t name_width) {
  // Wrapped at spaces to the page.
  std::string rest = fact;
  std::string head = name;
  while (!rest.empty()) {
    std::size_t length = rest.size();
    if (length > page_width - name_width) {
      length = rest.rfind(' ', page_width - name_width);
      if (length == std::string::npos) length = rest.size();
    }
    print_line(left(head, static_cast<int>(name_width)) + rest.substr(0, length));
    rest.erase(0, std::min(length + 1, rest.size()));
    head.clear();
  }
}

std::string size_text(std::size_t bytes) {
  constexpr double kib = 1024;
  const double value = static_cast<double>(bytes);
  if (bytes == 0) return "none";
  if (value < kib * kib) return text("%.0f KiB", value / kib);
  return text("%.*f MiB", bytes % (1024 * 1024) ? 1 : 0, value / kib / kib);
}

}  // namespace rapt::bench
