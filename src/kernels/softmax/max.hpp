// Finds the maximum of a row's scores.
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/vector/inner.hpp"
#include "kernels/vector/store.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Finds the maximum of scores that are added vector by vector. If `spans`, it also finds the minimum.
template <class A, bool spans = false>
class MaxOf {
 public:
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t registers = 4;
  // Says whether this class must look for NaN itself. Otherwise S::max keeps a NaN, or the exponentials pass
  // it on to their sum.
  static constexpr bool looks_for_nan = !S::max_keeps_nan && !S::exp_keeps_nan;

  RAPT_INNER MaxOf() {
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      max_[r] = batch(-std::numeric_limits<A>::infinity());
      min_[r] = batch(std::numeric_limits<A>::infinity());
    });
    is_nan_ = S::unordered(max_[0], max_[0]);
  }
  RAPT_INNER void add(const batch (&v)[registers]) {
    // The new score is the first operand. x86's max returns its second operand if either is NaN. With max_
    // first, a NaN would enter max_, and the next score would replace it and everything before.
    unroll<registers>([&](auto r) RAPT_INNER {
      max_[r] = S::max(v[r], max_[r]);
      if constexpr (spans) min_[r] = S::min(v[r], min_[r]);
    });
    if constexpr (looks_for_nan) {
      is_nan_ = S::either(is_nan_, S::either(S::unordered(v[0], v[1]), S::unordered(v[2], v[3])));
    }
  }
  RAPT_INNER void add(batch v) {
    max_[0] = S::max(v, max_[0]);
    if constexpr (spans) min_[0] = S::min(v, min_[0]);
    if constexpr (looks_for_nan) is_nan_ = S::either(is_nan_, S::unordered(v, v));
  }
  // Adds the first k lanes of v. The other lanes must be -inf.
  RAPT_INNER void add_first(batch v, std::size_t k) {
    max_[0] = S::max(v, max_[0]);
    if constexpr (spans) {
      min_[0] = S::min(S::fill_after(v, k, std::numeric_limits<A>::infinity()), min_[0]);
    }
    if constexpr (looks_for_nan) is_nan_ = S::either(is_nan_, S::unordered(v, v));
  }
  // Returns the smallest score, if none is NaN.
  RAPT_INNER A least() const {
    const batch zero(A(0)), least = S::min(S::min(min_[0], min_[1]), S::min(min_[2], min_[3]));
    return -S::fold_max(zero - least);
  }
  // Returns the maximum. It is NaN if a score is NaN, and looks_for_nan or S::max_keeps_nan is true.
  RAPT_INNER A result() const {
    return S::any(is_nan_) ? std::numeric_limits<A>::quiet_NaN() : S::fold_max(lanes());
  }
  RAPT_INNER typename S::mask is_nan() const { return is_nan_; }
  RAPT_INNER batch lanes() const { return S::max(S::max(max_[0], max_[1]), S::max(max_[2], max_[3])); }

 private:
  batch max_[registers], min_[registers];
  typename S::mask is_nan_;
};

// Finds the maximum of the scores [i, end), and stores the scores to v as `to` says.
template <Store to, bool spans = false, class A, class Scores>
RAPT_INNER inline MaxOf<A, spans> max_of(const Scores &scores, std::size_t i, std::size_t end, A *v) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t step = MaxOf<A>::registers * S::width;
  MaxOf<A, spans> max;
  for (; end - i >= step; i += step) {
    batch score[MaxOf<A>::registers];
    unroll<MaxOf<A>::registers>([&](std::size_t r) RAPT_INNER {
      score[r] = scores.full(i + r * S::width);
      store_full<to>(v, i + r * S::width, score[r]);
    });
    max.add(score);
  }
  for (; end - i >= S::width; i += S::width) {
    const batch score = scores.full(i);
    store_full<to>(v, i, score);
    max.add(score);
  }
  if (i < end) {
    const batch score = scores.first(i, end - i);
    store_end<to>(v, i, score, end - i);
    max.add_first(score, end - i);
  }
  return max;
}
template <class A, class Scores>
RAPT_INNER inline MaxOf<A> max_of(const Scores &scores, std::size_t i, std::size_t end) {
  return max_of<Store::none>(scores, i, end, static_cast<A *>(nullptr));
}

template <class A, class Scores>
[[gnu::noinline, gnu::flatten]] bool any_nan(const Scores &scores, std::size_t n) {
  using S = simd<A>;
  for (std::size_t i = 0; i < n; i += S::width) {
    const auto v = scores.first(i, n - i);
    if (S::any(S::unordered(v, v))) return true;
  }
  return false;
}

// Returns `max`, or NaN if max is -inf and one of the n scores is NaN. The exponentials of such a row are not
// computed, so a NaN could not show in their sum.
template <class A, class Scores>
RAPT_INNER inline A with_nan(A max, const Scores &scores, std::size_t n) {
  if constexpr (simd<A>::exp_keeps_nan) {
    if (max == -std::numeric_limits<A>::infinity() && any_nan<A>(scores, n)) [[unlikely]] {
      return std::numeric_limits<A>::quiet_NaN();
    }
  }
  return max;
}

}  // namespace
