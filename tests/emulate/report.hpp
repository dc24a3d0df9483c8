// Counts what the instructions test compared, and prints a row for each instruction.
#pragma once

#include <cstdio>
#include <set>
#include <string>
#include <string_view>

#include "attempt.hpp"
#include "model.hpp"

namespace rapt::emulate {

class Report {
 public:
  // Both lists hold features, separated by commas. The emulator must execute the instructions of the first
  // list, and the CPU those of the second.
  Report(std::string must_be_emulated, std::string must_be_native)
      : must_be_emulated_(std::move(must_be_emulated)), must_be_native_(std::move(must_be_native)) {}

  void begin(const char *what) { what_ = what, compared_ = different_ = 0; }

  void compare(bool equal, Word expected, Word found) {
    ++compared_;
    if (equal) return;
    if (different_++ < 3) std::printf("  %s: expected %08x, found %08x\n", what_, expected, found);
  }

  void end_of_model() { row("model", true); }

  // Prints the row for the instructions of a feature. If they are marked, the emulator must have executed
  // them.
  void end(Executed executed, std::string_view feature, bool marked = false) {
    bool right =
        executed != Executed::not_at_all || !(requires_emulated(feature) || requires_native(feature));
    if (marked) {
      right = right && executed != Executed::natively;
    } else {
      if (requires_emulated(feature)) right = executed == Executed::emulated;
      if (requires_native(feature)) right = executed == Executed::natively;
    }
    row(name_of(executed), right);
    if (executed == Executed::not_at_all) skipped_.emplace(feature);
  }

  void print_skips() const {
    for (const std::string &feature : skipped_)
      std::printf("skipped: %s: nothing here executes it\n", feature.c_str());
  }

  bool failed() const { return failed_; }

 private:
  static bool contains(const std::string &list, std::string_view name) {
    return ("," + list + ",").find("," + std::string(name) + ",") != std::string::npos;
  }
  bool requires_emulated(std::string_view feature) const { return contains(must_be_emulated_, feature); }
  bool requires_native(std::string_view feature) const { return contains(must_be_native_, feature); }

  void row(const char *executed, bool right) {
    failed_ = failed_ || different_ != 0 || !right;
    std::printf("%-52s %-9s %6ld values, %ld differ%s\n", what_, executed, compared_, different_,
                right ? "" : "  FAILED: executed by the wrong one");
  }

  std::string must_be_emulated_, must_be_native_;
  std::set<std::string> skipped_;
  const char *what_ = "";
  long compared_ = 0, different_ = 0;
  bool failed_ = false;
};

void check_model(const std::string &golden, Report &report);
void check_tiles(const std::string &golden, Report &report);
void check_vectors(const std::string &golden, Report &report);
void check_operands(Report &report);

}  // namespace rapt::emulate
