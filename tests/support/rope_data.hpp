// Makes the numbers of a problem of rope. They depend only on the problem.
#pragma once

#include <cstdint>
#include <vector>

#include "support/elements.hpp"
#include "support/problem.hpp"

namespace rapt::test {

template <class T>
struct RopeNumbers {
  std::vector<T> x;                     // [batch][heads][tokens][columns]
  std::vector<double> frequencies;      // [turned / 2]
  std::vector<std::int64_t> positions;  // [batch][tokens], also where they are counted or shared
};

// The result is valid until the next call with the same T. Defined for all float types.
template <class T>
const RopeNumbers<T> &make_rope(const Problem &problem);

}  // namespace rapt::test
