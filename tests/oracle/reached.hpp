// Counts how many drawn cases reach each feature. A feature that no case reaches is a failure.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <map>
#include <string>

namespace rapt::test {

class Reached {
 public:
  void see(const std::string &feature, bool is_reached = true) { counts_[feature] += is_reached; }
  void expect_all() const {
    for (const auto &entry : counts_) {
      INFO(entry.first);
      CHECK(entry.second > 0);
    }
  }
  void print() const {
    for (const auto &[feature, count] : counts_) std::printf("%s %zu, ", feature.c_str(), count);
    std::printf("\n");
  }

 private:
  std::map<std::string, std::size_t> counts_;
};

}  // namespace rapt::test
