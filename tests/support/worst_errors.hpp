// Checks errors against their bounds, and prints the worst error of each result.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "support/public_api.hpp"

namespace rapt::test {

class WorstErrors {
 public:
  // `error` and `bound` must have the same unit.
  void see(const char *result, double error, double bound) {
    INFO(std::string(result));
    CHECK(error <= bound);
    Worst &worst = worst_of(result);
    if (!(error / bound <= worst.error / worst.bound)) worst = {result, error, bound};
  }

  // Fails if see() was never called.
  template <class T>
  void print(const std::string &what) const {
    CHECK(!worst_.empty());
    std::printf("%s %-34s errors of bounds:", Api<T>::element, what.c_str());
    for (const Worst &worst : worst_)
      std::printf("  %s %.3g of %.3g", worst.result.c_str(), worst.error, worst.bound);
    std::printf("\n");
  }

 private:
  struct Worst {
    std::string result;
    double error, bound;
  };
  Worst &worst_of(const std::string &result) {
    for (Worst &worst : worst_) {
      if (worst.result == result) return worst;
    }
    return worst_.emplace_back(Worst{result, 0, 1});
  }
  std::vector<Worst> worst_;
};

}  // namespace rapt::test
