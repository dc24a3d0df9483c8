// Runs a test on every instruction-set level that this CPU can run.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace rapt::test {

std::vector<std::string> compiled_isas();
std::vector<std::string> usable_isas();  // excludes levels that need AMX tiles if Linux refuses them

// Returns the usable levels that implement one of `kernels` themselves, instead of inheriting it. The words
// of `kernels` are parts of kernel names. By default they come from the environment variable
// RAPT_TEST_KERNELS, which ctest sets. If it is not set, all kernels count.
std::vector<std::string> isas_to_test(const std::string &kernels = {});

// Forces each level of isas_to_test() in turn, weakest first, and returns to the default afterwards.
using OnIsa = std::function<void(const std::string &isa)>;
void for_each_usable_isa(const OnIsa &body);
void for_each_usable_isa(const std::string &kernels, const OnIsa &body);

// Forces a level for the lifetime of the object, then returns to the default.
class ForcedIsa {
 public:
  explicit ForcedIsa(const std::string &isa);
  ~ForcedIsa();
  ForcedIsa(const ForcedIsa &) = delete;
  ForcedIsa &operator=(const ForcedIsa &) = delete;
};

// Lists the levels that have run so far, and the levels that cannot run here, each with the reason. Another
// line lists the levels that inherit every kernel under test.
std::string isa_report();

// Returns the levels of the environment variable RAPT_REQUIRE_ISA (separated by ',' or ';') that have not
// run. Omits levels that inherit every kernel under test.
std::vector<std::string> missing_required_isas();

// Returns the levels that the library refuses to run although this machine could run them.
std::vector<std::string> isas_left_out();

}  // namespace rapt::test
