// Runs doctest and prints the levels that ran. Fails if a required level did not run, or if the library left
// out a level that this machine can run.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>

#include "support/isa.hpp"

int main(int argc, char **argv) {
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit()) return result;
  std::printf("%s\n", rapt::test::isa_report().c_str());
  const auto missing = rapt::test::missing_required_isas();
  for (const std::string &isa : missing) std::printf("required level %s never ran\n", isa.c_str());
  const auto left_out = rapt::test::isas_left_out();
  for (const std::string &isa : left_out) std::printf("level %s is left out for no reason\n", isa.c_str());
  return result != 0 || !missing.empty() || !left_out.empty();
}
