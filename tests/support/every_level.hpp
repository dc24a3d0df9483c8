// Runs the body of a test on every level that this CPU can run and that itself has kernels of the test.
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
