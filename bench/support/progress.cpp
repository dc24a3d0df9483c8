#include "support/progress.hpp"

#include <unistd.h>

#include <cstdio>

namespace rapt::bench {

Progress::Progress(std::size_t total, double expected_seconds)
    : total_(total),
      expected_seconds_(expected_seconds),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()) {}

void Progress::begin(const std::string &first) {
  start_ = std::chrono::steady_clock::now();
  std::fprintf(stderr, "rapt_bench: %zu benchmarks, some %.0f s\n", total_, expected_seconds_);
  if (terminal_) show(first);
}

void Progress::finished_one(const std::string &next) {
  ++done_;
  const std::size_t tenths = 10 * done_ / total_;
  if (terminal_) {
    if (!next.empty()) show(next);
  } else if (tenths > tenths_shown_) {
    tenths_shown_ = tenths;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    std::fprintf(stderr, "rapt_bench: %zu of %zu done after %.0f s\n", done_, total_, elapsed.count());
  }
}

void Progress::show(const std::string &now) {
  std::fprintf(stderr, "\r\033[K[%zu/%zu] %s", done_ + 1 > total_ ? total_ : done_ + 1, total_, now.c_str());
  if (done_ > 0) {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
    const double left = elapsed.count() / static_cast<double>(done_) * static_cast<double>(total_ - done_);
    std::fprintf(stderr, "  (about %.0f s left)", left);
  }
  std::fflush(stderr);
}

void Progress::clear() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

}  // namespace rapt::bench
