// The score that options make of a dot product, by vectors.
#pragma once

#include <cstddef>
#include <limits>

#include "call/attention_tile.hpp"
#include "kernels/vector/tanh.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Applies, in this order: factor, softcap, ALiBi slope, bias. The lanes may be keys or rows.
template <class A>
struct ScoreFormula {
  using S = simd<A>;
  using batch = typename S::batch;

  bool has_cap, has_slopes;
  batch cap;

  ScoreFormula(A softcap, bool slopes) : has_cap(softcap != 0), has_slopes(slopes), cap(softcap) {}

  // Applies all but the bias. `position` is the key's position minus the query's. on_tanh(tanh) gets the
  // softcap's tanh.
  template <class TakeTanh>
  [[gnu::always_inline]] batch operator()(batch product, batch factor, batch slope, batch position,
                                          TakeTanh on_tanh) const {
    batch score[1] = {product};
    const auto at = [&](auto) __attribute__((always_inline)) { return position; };
    in_step(
        score, factor, slope, at, [&](auto, batch tanh) __attribute__((always_inline)) { on_tanh(tanh); });
    return score[0];
  }
  // Does the same for several keys in place, with one branch for all. position(i) belongs to the i-th key.
  template <std::size_t count, class Position, class TakeTanh>
  [[gnu::always_inline]] void in_step(batch (&score)[count], batch factor, batch slope, Position position,
                                      TakeTanh on_tanh) const {
    const auto each = [](auto f) __attribute__((always_inline)) { unroll<count>(f); };
    each([&](auto i) __attribute__((always_inline)) { score[i] = score[i] * factor; });
    if (has_cap) {
      each([&](auto i) __attribute__((always_inline)) {
        const batch tanh = tanh_of<A>(score[i]);
        on_tanh(i, tanh);
        score[i] = cap * tanh;
      });
    }
    if (has_slopes) {
      each([&](auto i) __attribute__((always_inline)) { score[i] = S::fma(slope, position(i), score[i]); });
    }
  }
  // Adds the bias. A bias of -inf excludes its key.
  [[gnu::always_inline]] static batch with_bias(batch score, batch bias, typename S::mask &excluded) {
    excluded = S::either(excluded, S::equal(bias, batch(-std::numeric_limits<A>::infinity())));
    return score + bias;
  }
};

// Returns the largest of score(j) for the keys j of a range, -inf without a key. It takes four maxima,
// because one would be a chain of 4 cycles per key.
template <class A, class Score>
[[gnu::always_inline]] inline typename simd<A>::batch largest_score(AttentionTile::Range keys, Score score) {
  using S = simd<A>;
  typename S::batch max[4];
  for (auto &largest : max) largest = typename S::batch(-std::numeric_limits<A>::infinity());
  by_fours(
      keys.first, keys.end, [&](std::size_t j, auto k) __attribute__((always_inline)) {
        max[k] = S::max_number(score(j), max[k]);
      });
  return S::max(S::max(max[0], max[1]), S::max(max[2], max[3]));
}

}  // namespace
