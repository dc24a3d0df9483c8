#include "support/text.hpp"

#include <algorithm>
#include <cstdio>

namespace rapt::bench {

std::string number(double value) {
  const int digits = value < 0.1 ? 4 : value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return fmt::format("{:.{}f}", value, digits);
}

std::string time_text(double seconds) {
  if (seconds < 1e-6) return number(seconds * 1e9) + " ns";
  if (seconds < 1e-3) return number(seconds * 1e6) + " us";
  return number(seconds * 1e3) + " ms";
}

std::string size_text(std::size_t bytes) {
  constexpr std::size_t kib = 1024, mib = kib * kib;
  const double value = static_cast<double>(bytes);
  if (bytes == 0) return "none";
  if (bytes < mib) return fmt::format("{:.0f} KiB", value / kib);
  return fmt::format("{:.{}f} MiB", value / mib, bytes % mib ? 1 : 0);
}

namespace {
std::FILE *output = stdout;
}

void print_to(std::FILE *stream) { output = stream; }

void print_text(std::string_view line) {
  fmt::print(output, "{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
}

void print_rule(std::size_t width) { fmt::print(output, "{:->{}}\n", "", width); }

void print_fact(std::string_view name, const std::string &fact, std::size_t name_width) {
  constexpr std::size_t page_width = 80;
  std::string_view rest = fact;
  while (!rest.empty()) {
    std::size_t length = rest.size();
    if (length > page_width - name_width) {
      length = rest.rfind(' ', page_width - name_width);
      if (length == std::string_view::npos) length = rest.size();
    }
    print_line("{:<{}}{}", name, name_width, rest.substr(0, length));
    rest.remove_prefix(std::min(length + 1, rest.size()));
    name = "";
  }
}

}  // namespace rapt::bench
