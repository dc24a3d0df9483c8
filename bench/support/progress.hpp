// How far the run is, on stderr.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace rapt::bench {

// On a terminal one line that is rewritten; elsewhere, as in a CI log, a line every tenth of the way.
class Progress {
 public:
  Progress(std::size_t total, double expected_seconds);

  void begin(const std::string &first);
  // `next` is what runs now; empty after the last.
  void finished_one(const std::string &next);
  // Removes the line from a terminal.
  void clear();

 private:
  void show(const std::string &now);

  std::size_t total_;
  double expected_seconds_;
  std::size_t done_ = 0;
  std::size_t tenths_shown_ = 0;
  bool terminal_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace rapt::bench
