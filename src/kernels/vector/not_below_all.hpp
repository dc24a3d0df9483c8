// Keeps the sums of scores and biases above -inf.
#pragma once

#include <limits>

#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"

namespace {

// Returns `sum`, or the lowest number if it is -inf and the score, to which a bias was added, is not. So rows whose
// biases are all the lowest number have equal weights, and a score of -inf keeps its weight of 0.
template <class A, class batch = typename simd<A>::batch>
RAPT_INNER inline batch not_below_all(batch score, batch sum) {
  using S = simd<A>;
  return S::max(S::min(score, batch(std::numeric_limits<A>::lowest())), sum);
}

}  // namespace
