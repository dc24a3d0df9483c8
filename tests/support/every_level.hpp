// Runs a test body on every level that this CPU can run. It skips levels that only inherit the kernels under
// test.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "support/isa.hpp"

namespace rapt::test {

template <class Body>
void on_every_level(Body &&body) {
  for_each_usable_isa([&](const std::string &isa) {
    CAPTURE(isa);
    body();
  });
}

}  // namespace rapt::test
