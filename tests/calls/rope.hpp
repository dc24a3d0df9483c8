// The calls of rapt_rope.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "calls/call.hpp"
#include "support/random.hpp"

namespace rapt::test {

template <class T>
struct RopeValues {
  std::vector<T> x;                     // [batch][heads][tokens][columns]
  std::vector<double> frequencies;      // [turned / 2]
  std::vector<std::int64_t> positions;  // [batch][tokens], also where they are counted or shared
};

// They depend only on the problem, and are valid until the next call with the same T. Defined for all float types.
template <class T>
const RopeValues<T> &make_rope_values(const Problem &problem);

// The results are [batch][heads][tokens][columns]. Without a pair to turn there is no call and no result.
std::unique_ptr<Call> make_rope(Element element, const Problem &problem, const Layout &layout);

// Draws random shapes and options of up to `most` elements, but at least one token of one head.
Problem draw_rope_problem(Random &random, std::size_t most);

// Returns problems with every number of pairs up to 66, all in both layouts, and longer heads.
std::vector<Problem> rope_of_shapes(std::size_t step);

}  // namespace rapt::test
