#include "support/progress.hpp"

#include <unistd.h>

#include <cinttypes>
#include <utility>

namespace rapt {

Progress::Progress(std::string log_name, std::FILE *stream)
    : log_name_(std::move(log_name)),
      stream_(stream),
      on_terminal_(isatty(fileno(stream)) != 0),
      start_(std::chrono::steady_clock::now()) {}

void Progress::show(const std::string &what, std::uint64_t done, std::uint64_t total) {
  const auto now = std::chrono::steady_clock::now();
  if (done == 0) {
    start_ = now;
    tenths_ = 0;
  }
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  if (total == 0) return;
  if (!on_terminal_) {
    const std::uint64_t tenths = 10 * done / total;
    if (log_name_.empty() || tenths <= tenths_) return;
    tenths_ = tenths;
    std::fprintf(stream_, "%s: %" PRIu64 " of %" PRIu64 " done after %.0f s\n", log_name_.c_str(), done,
                 total, elapsed);
    return;
  }
  std::string text = what + " " + std::to_string(100 * done / total) + " %";
  if (elapsed > 2 && done > 0) {
    const double left = elapsed / static_cast<double>(done) * static_cast<double>(total - done);
    text += ", about " + std::to_string(static_cast<int>(left)) + " s left";
  }
  if (text == shown_) return;
  const std::size_t left_over = shown_.size() > text.size() ? shown_.size() - text.size() : 0;
  shown_ = text;
  std::fprintf(stream_, "\r%s%s", text.c_str(), std::string(left_over, ' ').c_str());
  std::fflush(stream_);
}

void Progress::clear() {
  if (!shown_.empty()) std::fprintf(stream_, "\r%s\r", std::string(shown_.size(), ' ').c_str());
  shown_.clear();
}

}  // namespace rapt
