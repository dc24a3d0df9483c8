// How far a long run is. Needs nothing but the C++ library and isatty.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace rapt {

// On a terminal, one line that is rewritten. Elsewhere, as in a CI log, a line per tenth of the way that
// begins with `log_name`; nothing if that is empty.
class Progress {
 public:
  explicit Progress(std::string log_name = "", std::FILE *stream = stderr);

  // `what` runs now, after `done` of `total` steps. `done` of 0 starts the clock again.
  void show(const std::string &what, std::uint64_t done, std::uint64_t total);
  // Removes the line from a terminal.
  void clear();

 private:
  std::string log_name_;
  std::FILE *stream_;
  bool on_terminal_;
  std::chrono::steady_clock::time_point start_;
  std::uint64_t tenths_ = 0;  // shown so far
  std::string shown_;
};

}  // namespace rapt
