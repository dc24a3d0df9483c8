// The calls of rapt_map: the seed chooses the function, and whether the elements are one row or two.
#pragma once

#include <memory>

#include "calls/call.hpp"
#include "contract/map_list.hpp"

namespace rapt::test {

// The numbers of a problem: up to three inputs, and parameters.
template <class T>
struct MapValues {
  MapFunction function;
  std::vector<T> inputs[3];
  double parameters[3] = {};

  explicit MapValues(const Problem &problem);

 private:
  void add_edges(std::size_t drawn);
};

template <class T>
std::unique_ptr<Call> make_map(const Problem &problem, const Layout &layout);

}  // namespace rapt::test
