// The calls of rapt_delta_rule and rapt_delta_rule_backward.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "calls/call.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Without dimensions that the problem does not have: q [batch][q_heads][tokens][key_dim], and so on. Of packed
// sequences, [heads][all tokens][…].
template <class T>
struct DeltaValues {
  std::vector<T> q, k, v;
  std::vector<float> g, beta, state;
  std::vector<std::int32_t> offsets;  // [batch + 1], also where sequences are not packed
};

// They depend only on the problem, and are valid until the next call with the same T. Defined for float and types of
// 16 bits.
template <class T>
const DeltaValues<T> &make_delta_values(const Problem &problem);

// What a backward call takes: the forward call's inputs, of which q or k may have one infinite element, and gradients.
// Without dfinal it is empty.
template <class T>
struct DeltaGradientValues {
  DeltaValues<T> values;
  bool has_infinity = false;
  std::vector<T> dout;
  std::vector<float> dfinal;
};
template <class T>
const DeltaGradientValues<T> &make_delta_gradients(const Problem &problem);

// The results are out and the final states.
std::unique_ptr<Call> make_delta_rule(Element element, const Problem &problem, const Layout &layout);

// The results are dq, dk, dv, with g and beta their gradients, and dstate.
std::unique_ptr<Call> make_delta_rule_backward(Element element, const Problem &problem, const Layout &layout);

// Draws random shapes and options of up to `most` elements of states.
Problem draw_delta_problem(Random &random, std::size_t most);
Layout draw_delta_layout(Random &random, std::size_t element_size);

// Returns problems with columns and rows around those of blocks, and tokens around those of chunks.
std::vector<Problem> delta_rules_of_shapes();

}  // namespace rapt::test
