// The scores of a row, by vectors, and their maximum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "call/score_plan.hpp"
#include "contract/exp.hpp"
#include "kernels/exp.hpp"
#include "kernels/vector/tanh.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Scores that lie in memory as they are. first(i, k) has -inf in the lanes after the first k.
template <class T>
struct PlainScores {
  using S = simd<T>;
  using batch = typename S::batch;
  static constexpr bool in_memory = true;
  const T *v;

  const T *address(std::size_t i) const { return v + i; }
  [[gnu::always_inline]] batch full(std::size_t i) const { return S::load(v + i); }
  [[gnu::always_inline]] batch first(std::size_t i, std::size_t k) const {
    return S::fill_after(S::load_first(v + i, k), k, -std::numeric_limits<T>::infinity());
  }
};

// Scores that are their elements, where a mask lets them.
template <class T>
struct MaskedScores {
  using S = simd<T>;
  using batch = typename S::batch;
  static constexpr bool in_memory = false;
  const T *x;
  const std::uint8_t *mask;

  [[gnu::always_inline]] batch full(std::size_t i) const {
    return S::select(S::load_flags(mask + i, S::width), S::load(x + i),
                     batch(-std::numeric_limits<T>::infinity()));
  }
  [[gnu::always_inline]] batch first(std::size_t i, std::size_t k) const {
    return S::select(S::load_flags(mask + i, k), S::load_first(x + i, k),
                     batch(-std::numeric_limits<T>::infinity()));
  }
};

// Scores that the options make of a row's elements.
template <class T>
class MadeScores {
 public:
  using S = simd<T>;
  using C = rapt::Contract<T>;
  using batch = typename S::batch;
  static constexpr bool in_memory = false;

  MadeScores(const ScorePlan<T> &plan, const T *x, std::size_t r)
      : x_(x),
        bias_(plan.bias_row(r)),
        mask_(plan.mask_row(r)),
        factor_(plan.factor),
        cap_(plan.cap),
        has_cap_(plan.cap != 0) {}

  const T *address(std::size_t i) const { return x_ + i; }

  [[gnu::always_inline]] batch full(std::size_t i) const { return make(S::load(x_ + i), i, S::width); }
  [[gnu::noinline]] batch first(std::size_t i, std::size_t k) const {  // once or twice a row
    return S::fill_after(make(S::load_first(x_ + i, k), i, k), k, -std::numeric_limits<T>::infinity());
  }

 private:
  [[gnu::always_inline]] batch make(batch x, std::size_t i, std::size_t k) const {
    const batch excluded(-std::numeric_limits<T>::infinity());
    batch v = x * factor_;
    if (has_cap_) v = tanh_of<T>(v);
    if (bias_) {
      const batch bias = S::load_first(bias_ + i, k);
      v = has_cap_ ? S::fma(cap_, v, bias) : S::fma(factor_, x, bias);
      v = S::select(S::equal(bias, excluded), excluded, v);
    } else if (has_cap_) {
      v = cap_ * v;
    }
    if (mask_) v = S::select(S::load_flags(mask_ + i, k), v, excluded);
    return v;
  }

  const T *x_;
  const T *bias_;
  const std::uint8_t *mask_;
  batch factor_, cap_;
  bool has_cap_;
};

// The largest of scores, taken in by vectors.
template <class T>
class MaxOf {
 public:
  using S = simd<T>;
  using batch = typename S::batch;
  static constexpr std::size_t registers = 4;
  // Whether a NaN shows in the maximum. Where the exponentials of a row carry it to their sum, nobody need
  // look for it here.
  static constexpr bool looks_for_nan = !S::max_keeps_nan && !S::exp_keeps_nan;

  [[gnu::always_inline]] MaxOf() {
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      max_[r] = batch(-std::numeric_limits<T>::infinity());
    });
    is_nan_ = S::unordered(max_[0], max_[0]);
  }
  [[gnu::always_inline]] void take(const batch (&v)[registers]) {
    // The new score second would drop a NaN's successor: x86 returns the second operand beside a NaN.
    unroll<registers>([&](auto r) __attribute__((always_inline)) { max_[r] = S::max(v[r], max_[r]); });
    if constexpr (looks_for_nan) {
      is_nan_ = S::either(is_nan_, S::either(S::unordered(v[0], v[1]), S::unordered(v[2], v[3])));
    }
  }
  [[gnu::always_inline]] void take(batch v) {
    max_[0] = S::max(v, max_[0]);
    if constexpr (looks_for_nan) is_nan_ = S::either(is_nan_, S::unordered(v, v));
  }
  // NaN where a score is NaN and the ISA looks for that, or its maximum keeps it.
  [[gnu::always_inline]] T result() const {
    return S::any(is_nan_) ? std::numeric_limits<T>::quiet_NaN() : S::fold_max(lanes());
  }
  [[gnu::always_inline]] typename S::mask is_nan() const { return is_nan_; }
  [[gnu::always_inline]] batch lanes() const {
    return S::max(S::max(max_[0], max_[1]), S::max(max_[2], max_[3]));
  }

 private:
  batch max_[registers];
  typename S::mask is_nan_;
};

// What becomes of vectors that are not wanted in registers alone.
enum class Store {
  none,
  exact,   // elements as they are
  padded,  // whole vectors, over a row's end. Whoever reads a row while the masked store of another one's end
           // is under way waits for it, if their vectors overlap: with stores so, rows of 8 columns took 23
           // ns, not 6
};

// To p + i; p may be null where nothing is stored.
template <Store to, class T>
[[gnu::always_inline]] inline void store_full(T *p, std::size_t i, typename simd<T>::batch v) {
  if constexpr (to != Store::none) simd<T>::store(p + i, v);
}
template <Store to, class T>
[[gnu::always_inline]] inline void store_end(T *p, std::size_t i, typename simd<T>::batch v, std::size_t k) {
  if constexpr (to == Store::exact) simd<T>::store_first(p + i, v, k);
  if constexpr (to == Store::padded) simd<T>::store(p + i, v);
}

// The largest of the scores [i, end), which are stored to v on the way.
template <Store to, class T, class Scores>
[[gnu::always_inline]] inline MaxOf<T> max_of(const Scores &scores, std::size_t i, std::size_t end, T *v) {
  using S = simd<T>;
  using batch = typename S::batch;
  constexpr std::size_t block = MaxOf<T>::registers * S::width;
  MaxOf<T> max;
  for (; end - i >= block; i += block) {
    batch score[MaxOf<T>::registers];
    unroll<MaxOf<T>::registers>([&](auto r) __attribute__((always_inline)) {
      score[r] = scores.full(i + r * S::width);
      store_full<to>(v, i + r * S::width, score[r]);
    });
    max.take(score);
  }
  for (; end - i >= S::width; i += S::width) {
    const batch score = scores.full(i);
    store_full<to>(v, i, score);
    max.take(score);
  }
  if (i < end) {
    const batch score = scores.first(i, end - i);
    store_end<to>(v, i, score, end - i);
    max.take(score);
  }
  return max;
}
template <class T, class Scores>
[[gnu::always_inline]] inline MaxOf<T> max_of(const Scores &scores, std::size_t i, std::size_t end) {
  return max_of<Store::none>(scores, i, end, static_cast<T *>(nullptr));
}

template <class T, class Scores>
[[gnu::noinline]] bool any_nan(const Scores &scores, std::size_t n) {
  using S = simd<T>;
  for (std::size_t i = 0; i < n; i += S::width) {
    const auto v = scores.first(i, n - i);
    if (S::any(S::unordered(v, v))) return true;
  }
  return false;
}

// The maximum of scores, but NaN if it is -inf and one of them is NaN: such a row takes no exponentials,
// which would show it.
template <class T, class Scores>
[[gnu::always_inline]] inline T with_nan(T max, const Scores &scores, std::size_t n) {
  if constexpr (simd<T>::exp_keeps_nan) {
    if (max == -std::numeric_limits<T>::infinity() && any_nan<T>(scores, n)) [[unlikely]] {
      return std::numeric_limits<T>::quiet_NaN();
    }
  }
  return max;
}

}  // namespace
