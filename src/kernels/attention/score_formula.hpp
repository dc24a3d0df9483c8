// Turns vectors of dot products into scores, as the options say.
#pragma once

#include <cstddef>
#include <limits>

#include "call/attention_tile.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/not_below_all.hpp"
#include "kernels/vector/tanh.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Applies the factor, softcap, ALiBi slope and bias, in this order. The lanes may be keys or rows.
template <class A>
struct ScoreFormula {
  using S = simd<A>;
  using batch = typename S::batch;
  using mask = typename S::mask;

  bool has_cap, has_slopes, has_bias;
  batch cap, factor, slope, from_natural;
  batch distance;  // from the query's position to the block's first key
  batch from, to;  // the keys that a row sees, by index in the block

  ScoreFormula(const rapt_attention_options &o, const TileRows<A> &rows)
      : has_cap(rows.cap != 0),
        has_slopes(o.alibi_slopes != nullptr),
        has_bias(o.bias != nullptr),
        cap(rows.cap) {}

  // Returns which of the keys with these indices a row does not see.
  RAPT_INNER mask outside(batch index) const {
    return S::either(S::less(index, from), S::negate(S::less(index, to)));
  }

  // Turns several dot products into scores in place, and tests each option once for all of them. An excluded
  // key's score is -inf. The i-th product belongs to key index(i) of the block, whose bias is bias(i).
  // `bounded` says that some row does not see all these keys. If `masked`, lanes outside of the mask seen(i)
  // are excluded too.
  template <bool bounded, std::size_t count, class Index, class Bias, class Masked, class Seen,
            class TakeTanh>
  RAPT_INNER void make(batch (&score)[count], mask (&excluded)[count], Index index, Bias bias, Masked masked,
                       Seen seen, TakeTanh on_tanh) const {
    const batch minus_infinity(-std::numeric_limits<A>::infinity()), zero(A(0));
    const auto each = [](auto f) RAPT_INNER { unroll<count>(f); };
    if (has_cap) {
      each([&](std::size_t i) RAPT_INNER {
        const batch tanh = tanh_of<A>(score[i] * factor);
        on_tanh(i, tanh);
        score[i] = cap * tanh;
      });
    }
    if (has_slopes) {
      each([&](std::size_t i) RAPT_INNER { score[i] = S::fma(slope, distance + index(i), score[i]); });
    }
    each([&](std::size_t i) RAPT_INNER { excluded[i] = bounded ? outside(index(i)) : S::less(zero, zero); });
    if (has_bias) {  // a bias of -inf excludes its key
      each([&](std::size_t i) RAPT_INNER {
        const batch added = bias(i);
        excluded[i] = S::either(excluded[i], S::equal(added, minus_infinity));
        score[i] = not_below_all<A>(score[i], S::fma(added, from_natural, score[i]));
      });
    }
    if (masked) {
      each([&](std::size_t i) RAPT_INNER { excluded[i] = S::either(excluded[i], S::negate(seen(i))); });
    }
    if (bounded || masked || has_bias) {
      each([&](std::size_t i) RAPT_INNER { score[i] = S::select(excluded[i], minus_infinity, score[i]); });
    }
  }
};

// Returns the largest of score(j) for the keys j of a range, or -inf if the range is empty. There are four
// partial maxima, because a single one would be a chain of 4 cycles per key.
template <class A, class Score>
RAPT_INNER inline typename simd<A>::batch largest_score(AttentionTile::Range keys, Score score) {
  using S = simd<A>;
  typename S::batch max[4];
  for (auto &largest : max) largest = typename S::batch(-std::numeric_limits<A>::infinity());
  by_fours(keys.first, keys.end,
           [&](std::size_t j, auto k) RAPT_INNER { max[k] = S::max_number(score(j), max[k]); });
  return S::max(S::max(max[0], max[1]), S::max(max[2], max[3]));
}

}  // namespace
