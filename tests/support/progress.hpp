// Shows the progress of a long run, using only the C++ library and isatty().
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

namespace rapt {

// Rewrites one line on a terminal. Elsewhere, such as in a CI log, it prints a line that begins with
// `log_name` after each tenth of the steps, or nothing if `log_name` is empty.
class Progress {
 public:
  explicit Progress(std::string log_name = "", std::FILE *stream = stderr);

  // Shows that `what` runs now, after `done` of `total` steps. If `done` is 0, the clock restarts.
  void show(const std::string &what, std::uint64_t done, std::uint64_t total);
  // Clears the line on a terminal.
  void clear();

 private:
  std::string log_name_;
  std::FILE *stream_;
  bool on_terminal_;
  std::chrono::steady_clock::time_point start_;
  std::uint64_t tenths_ = 0;  // tenths of the steps logged so far
  std::string shown_;
};

}  // namespace rapt
