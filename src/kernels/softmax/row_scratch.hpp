// Decides where a row's scores and exponentials are stored between passes.
//
// An output of the arithmetic type also serves as scratch memory, because it is written anyway. A 16-bit
// output has too few bits. Then each pass computes scores and exponentials again, with the same bits.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/softmax/scores.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/map.hpp"

namespace {

template <class E>
inline constexpr bool output_is_scratch = std::is_same_v<E, rapt::Arithmetic<E>>;

// Returns where to store scores between passes, or null if they are not stored.
template <class E>
RAPT_INNER inline rapt::Arithmetic<E> *scratch_of(E *y) {
  if constexpr (output_is_scratch<E>) {
    return y;
  } else {
    return nullptr;
  }
}

// Calls f(scores) with the scores of row r, in a pass after the first. If output_is_scratch, the first pass
// has stored scores there that differ from the elements. Otherwise they are computed again.
template <class E, class F>
RAPT_INNER inline auto with_scores(const ScorePlan<rapt::Arithmetic<E>> &plan, std::size_t r, const E *x,
                                   const rapt::Arithmetic<E> *scratch, F f) {
  if constexpr (output_is_scratch<E>) {
    return f(PlainScores<E>{plan.plain() ? x : scratch});
  } else {
    if (plan.plain()) return f(PlainScores<E>{x});
    if (plan.masked_only()) return f(MaskedScores<E>{x, plan.mask_row(r)});
    return f(ComputedScores<E>(plan, x, r));
  }
}

// Computes y[i] = f(score i) for the n scores of a row.
template <class Scores, class E, class F>
RAPT_INNER inline void map_scores(const Scores &scores, E *y, std::size_t n, const F &f) {
  if constexpr (Scores::in_memory) {
    map(scores.x, y, n, f);
  } else {
    using S = simd<rapt::Arithmetic<E>>;
    std::size_t i = 0;
    for (; n - i >= S::width; i += S::width) S::store(y + i, f(scores.full(i)));
    if (i < n) S::store_first(y + i, f(scores.first(i, n - i)), n - i);
  }
}

}  // namespace
