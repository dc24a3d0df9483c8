// Running a test on every instruction-set level that this CPU can run.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace rapt::test {

// Forces each usable level in turn, weakest first, and goes back to the default afterwards.
void for_each_usable_isa(const std::function<void(const std::string &isa)> &body);

std::vector<std::string> compiled_isas();
std::vector<std::string> usable_isas();

// Forces a level for the lifetime of the object, then goes back to the default.
class ForcedIsa {
 public:
  explicit ForcedIsa(const std::string &isa);
  ~ForcedIsa();
  ForcedIsa(const ForcedIsa &) = delete;
  ForcedIsa &operator=(const ForcedIsa &) = delete;
};

// One line: the levels that for_each_usable_isa and ForcedIsa have run so far, and the compiled levels that
// this CPU cannot run.
std::string isa_report();

// The levels named in the environment variable RAPT_REQUIRE_ISA (separated by ',' or ';') that have not run.
std::vector<std::string> missing_required_isas();

}  // namespace rapt::test
