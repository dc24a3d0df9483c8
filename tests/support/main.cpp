// doctest's main. It also prints the levels that ran, and fails if a required level did not.
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
  return result != 0 || !missing.empty();
}
