// The score that options make of a dot product, by vectors.
#pragma once

#include <limits>

#include "kernels/vector/tanh.hpp"

namespace {

// In this order: factor, softcap, ALiBi slope, bias. Whether keys or rows are the lanes is the caller's
// affair.
template <class A>
struct ScoreFormula {
  using S = simd<A>;
  using batch = typename S::batch;

  bool has_cap, has_slopes;
  batch cap;

  ScoreFormula(A softcap, bool slopes) : has_cap(softcap != 0), has_slopes(slopes), cap(softcap) {}

  // All but the bias. `position` is the key's position less the query's; take_tanh(tanh) sees the softcap's
  // tanh.
  template <class TakeTanh>
  [[gnu::always_inline]] batch operator()(batch product, batch factor, batch slope, batch position,
                                          TakeTanh take_tanh) const {
    batch score = product * factor;
    if (has_cap) {
      const batch tanh = tanh_of<A>(score);
      take_tanh(tanh);
      score = cap * tanh;
    }
    if (has_slopes) score = S::fma(slope, position, score);
    return score;
  }
  // A bias of -inf excludes its key.
  [[gnu::always_inline]] static batch with_bias(batch score, batch bias, typename S::mask &excluded) {
    excluded = S::either(excluded, S::equal(bias, batch(-std::numeric_limits<A>::infinity())));
    return score + bias;
  }
};

}  // namespace
