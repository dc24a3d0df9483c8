// Computes a row's exponentials relative to its maximum.
//
// Unless the maximum is very large, it is subtracted in the exponent: e = 2^(n - N) * exp(r), where N is the
// maximum in units of ln 2, rounded. That avoids the rounding error of x - max, and saves an operation.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "call/score_plan.hpp"
#include "contract/exp_constants.hpp"
#include "contract/softmax.hpp"
#include "kernels/softmax/irregular.hpp"
#include "kernels/vector/exp.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/store.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Holds a row's maximum, and says how the row's exponentials are computed from it.
template <class A>
struct RowMax {
  using C = rapt::SoftmaxContract<A>;
  RowKind kind = RowKind::regular;
  A max = 0;  // the largest v of the scores c * v, or sink / c if that is larger
  bool sink_is_max = false;
  bool subtract =
      false;  // use exp(c * (v - max)), exact for a large |max|, instead of 2^(n - max_n) * exp(r)
  A max_n = 0;

  RowMax() = default;
  RowMax(const ScorePlan<A> &plan, const ExpConstants<A> &k, std::size_t r, std::size_t cols, A max_of_scores)
      : kind(RowKind::regular), max(max_of_scores) {
    constexpr A infinity = std::numeric_limits<A>::infinity();
    const A *sinks = plan.sinks();
    const A c = static_cast<A>(plan.c);
    const A sink = sinks ? sinks[r] : -infinity;
    if (max == -infinity && !any_visible(plan, r, cols)) {
      kind = RowKind::nothing_visible;
    } else if (!(max < infinity) || !(sink < infinity)) {
      kind = RowKind::not_a_number;
    } else {
      sink_is_max = sink > c * max;
      if (sink_is_max)
        max = sink / c < std::numeric_limits<A>::max() ? sink / c : std::numeric_limits<A>::max();
      if (max == -infinity) kind = RowKind::all_minus_infinity;
    }
    subtract = !(std::fabs(max) < plan.subtract_from);
    if (!subtract) max_n = std::fma(max, k.log2_e, C::round_magic) - C::round_magic;
  }

 private:
  static bool any_visible(const ScorePlan<A> &plan, std::size_t r, std::size_t cols) {
    for (std::size_t i = 0; i < cols; ++i) {
      if (!plan.excluded(r, i)) return true;
    }
    return false;
  }
};

// Computes 2^sum_bias * exp(c * (v - max)) for the scores c * v of a row of RowKind::regular.
template <class A, bool subtract>
class RowExp {
 public:
  using S = simd<A>;
  using C = rapt::SoftmaxContract<A>;
  using batch = typename S::batch;

  RAPT_INNER RowExp(const ExpParts<A> &exp, A max, A max_n, A depth)
      : RowExp(exp, batch(subtract ? -depth : max - depth), batch(magic(max_n))) {
    max_ = batch(max);
  }
  RAPT_INNER RowExp(const ExpParts<A> &exp, batch lowest, batch magic)
      : exp_(&exp), lowest_(lowest), magic_(magic) {}
  // Returns the `magic` of ExpParts::exp_above() that subtracts max_n from n and adds sum_bias. max_n is a
  // number or a vector of numbers.
  template <class N>
  RAPT_INNER static N magic(N max_n) {
    return (N(C::round_magic) - max_n) + N(A(C::sum_bias));
  }

  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&v)[registers]) const {
    if constexpr (subtract) {
      unroll<registers>([&](std::size_t r) RAPT_INNER { v[r] = v[r] - max_; });
    }
    exp_->exp_above(v, lowest_, magic_);
  }
  RAPT_INNER batch operator()(batch v) const {
    batch one[1] = {v};
    (*this)(one);
    return one[0];
  }

 private:
  const ExpParts<A> *exp_;
  batch lowest_, magic_, max_;
};

// Does the work of RowExp<A, false> for rows that may have masked parts, far below the maximum: where all of several
// vectors become 0, it computes nothing. Other rows pay for the comparison of one vector. Rows of 1024 columns in L1,
// half of which are -1e9, take .93 of the time on AVX-512 and .81 on AVX2 of a Zen 5. Batches of shorter rows would
// take 1.1 on AVX-512.
template <class A>
class MaskedExp {
 public:
  using S = simd<A>;
  using batch = typename S::batch;

  RAPT_INNER MaskedExp(const ExpParts<A> &exp, A max, A max_n, A depth)
      : exponential_(exp, max, max_n, depth), lowest_(max - depth) {}
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&v)[registers]) const {
    auto others = not_below(v[0]);
    if (!S::any(others)) {
      unroll<registers>([&](std::size_t r) RAPT_INNER { others = S::either(others, not_below(v[r])); });
      if (!S::any(others)) {
        unroll<registers>([&](std::size_t r) RAPT_INNER { v[r] = batch(A(0)); });
        return;
      }
    }
    exponential_(v);
  }
  RAPT_INNER batch operator()(batch v) const { return exponential_(v); }

 private:
  // A NaN is not below.
  RAPT_INNER auto not_below(batch v) const { return S::negate(S::less(v, lowest_)); }

  RowExp<A, false> exponential_;
  batch lowest_;
};

// Does the work of RowExp<A, false> for rows whose results are all normal numbers, so it needs no test for
// exponentials that become 0.
template <class A>
class NarrowExp {
 public:
  using batch = typename simd<A>::batch;

  RAPT_INNER NarrowExp(const ExpParts<A> &exp, A max_n)
      : exp_(&exp), magic_(RowExp<A, false>::magic(max_n)) {}
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&v)[registers]) const {
    exp_->exp_normal(v, magic_);
  }
  RAPT_INNER batch operator()(batch v) const { return exp_->exp_normal(v, magic_); }

 private:
  const ExpParts<A> *exp_;
  batch magic_;
};

struct Nothing {};

// Computes a row's exponentials as terms of its sum, and stores them to e as `to` says. At the same time it
// prefetches another row from `ahead` on, and calls beside->step() for each array of vectors.
template <Store to, class A, class Exponential, class Scores, class Next, class Beside>
struct RowTerms {
  using S = simd<A>;
  using batch = typename S::batch;
  const Exponential &exponential;
  const Scores &scores;
  A *e;
  const Next *ahead;
  Beside *beside;

  template <std::size_t registers>
  RAPT_INNER void full(std::size_t i, batch (&term)[registers]) const {
    constexpr std::size_t line = 64 / sizeof(Next);
    unroll<(registers * S::width + line - 1) / line>(
        [&](std::size_t r) RAPT_INNER { __builtin_prefetch(ahead + i + r * line); });
    if constexpr (Scores::in_memory) {
      unroll<registers>([&](std::size_t r) RAPT_INNER { term[r] = scores.full(i + r * S::width); });
    } else {
      for (std::size_t r = 0; r < registers; ++r) term[r] = scores.full(i + r * S::width);
    }
    exponential(term);
    unroll<registers>([&](std::size_t r) RAPT_INNER { store_full<to>(e, i + r * S::width, term[r]); });
    if constexpr (!std::is_same_v<Beside, Nothing>) beside->step();
  }
  RAPT_INNER batch first(std::size_t i, std::size_t left) const {
    const batch term = exponential(scores.first(i, left));
    store_end<to>(e, i, term, left);
    return S::keep_first(term, left);
  }
};

template <Store to, class A, class Exponential, class Scores, class Next, class Beside = Nothing>
RAPT_INNER inline RowTerms<to, A, Exponential, Scores, Next, Beside> row_terms(const Exponential &exponential,
                                                                               const Scores &scores, A *e,
                                                                               const Next *ahead,
                                                                               Beside *beside = nullptr) {
  return {exponential, scores, e, ahead, beside};
}

}  // namespace
