// Runs a test on every instruction-set level that this CPU can run.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace rapt::test {

std::vector<std::string> compiled_isas();
std::vector<std::string> usable_isas();  // leaves out levels whose tiles Linux refuses

// Returns the usable levels that themselves have one of these kernels (serving.hpp). The default is the
// kernels named by the environment variable RAPT_TEST_KERNELS, which ctest sets, or all kernels if it is not
// set.
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

// Lists the levels that for_each_usable_isa and ForcedIsa have run so far, and the levels that cannot run
// here, each with the reason. Another line lists the levels that inherit everything that the program tests.
std::string isa_report();

// Returns the levels in the environment variable RAPT_REQUIRE_ISA (separated by ',' or ';') that have not
// run. Levels that inherit everything that the program tests are left out.
std::vector<std::string> missing_required_isas();

// Returns the levels that did not run here although they could.
std::vector<std::string> isas_left_out();

}  // namespace rapt::test
