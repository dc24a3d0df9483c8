// Running a test on every instruction-set level that this CPU can run.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace rapt::test {

std::vector<std::string> compiled_isas();
std::vector<std::string> usable_isas();  // not those whose kernels Linux refuses their tiles

// The usable levels that have one of these kernels themselves (serving.hpp). By default those that the
// program tests by the environment variable RAPT_TEST_KERNELS, which ctest sets; all if it is not set.
std::vector<std::string> isas_to_test(const std::string &kernels = {});

// Forces each of these levels in turn, weakest first, and goes back to the default afterwards.
using OnIsa = std::function<void(const std::string &isa)>;
void for_each_usable_isa(const OnIsa &body);
void for_each_usable_isa(const std::string &kernels, const OnIsa &body);

// Forces a level for the lifetime of the object, then goes back to the default.
class ForcedIsa {
 public:
  explicit ForcedIsa(const std::string &isa);
  ~ForcedIsa();
  ForcedIsa(const ForcedIsa &) = delete;
  ForcedIsa &operator=(const ForcedIsa &) = delete;
};

// The levels that for_each_usable_isa and ForcedIsa have run so far, and the levels that cannot run here,
// each with the reason; in another line, if there are any, the levels that inherit all that the program
// tests.
std::string isa_report();

// The levels named in the environment variable RAPT_REQUIRE_ISA (separated by ',' or ';') that have not run,
// unless they inherit all that the program tests.
std::vector<std::string> missing_required_isas();

// The levels that do not run here although nothing hinders them.
std::vector<std::string> isas_left_out();

}  // namespace rapt::test
