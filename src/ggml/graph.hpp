// What is known about the graph that is being computed. Nothing of it outlives the call: inputs may change until the
// next one.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "ggml/engine.hpp"
#include "ggml/numbers.hpp"

namespace rapt_ggml {

struct Mask;
struct Sight;

// Angles of a rotary embedding for each pair, and their factor.
struct Rotation {
  std::vector<double> frequencies;
  double attention_factor = 1;
};

struct Graph {
  Engine &engine;
  std::set<Tensor> written;                              // caches whose rows this graph has set
  std::map<Tensor, std::shared_ptr<const Mask> > masks;  // as bytes or numbers
  std::vector<std::shared_ptr<const Sight> > sights;     // what queries see; layers of one kind share it
  std::map<Tensor, std::vector<std::int64_t> > positions;
  std::vector<std::pair<Tensor, Rotation> > rotations;  // by an op that has these parameters
};

}  // namespace rapt_ggml
