// Computes vectors of a row's scores. Excluded elements, and lanes past the row's end, have the score -inf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "call/score_plan.hpp"
#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/not_below_all.hpp"
#include "kernels/vector/tanh.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Reads scores that equal the elements.
template <class E>
struct PlainScores {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr bool in_memory = true;
  const E *x;

  const E *address(std::size_t i) const { return x + i; }
  RAPT_INNER batch full(std::size_t i) const { return S::load(x + i); }
  RAPT_INNER batch first(std::size_t i, std::size_t k) const {
    return S::fill_after(S::load_first(x + i, k), k, -std::numeric_limits<A>::infinity());
  }
};

// Reads scores that equal the elements, except where a mask excludes them.
template <class E>
struct MaskedScores {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr bool in_memory = false;
  const E *x;
  const std::uint8_t *mask;

  const E *address(std::size_t i) const { return x + i; }
  RAPT_INNER batch full(std::size_t i) const {
    return S::select(S::load_flags(mask + i, S::width), S::load(x + i),
                     batch(-std::numeric_limits<A>::infinity()));
  }
  RAPT_INNER batch first(std::size_t i, std::size_t k) const {
    return S::select(S::load_flags(mask + i, k), S::load_first(x + i, k),
                     batch(-std::numeric_limits<A>::infinity()));
  }
};

// Computes scores with a softcap and no other option. Without branches for other options, rows of 1024
// columns take .94 of the time on AVX-512, and .97 on AVX2.
template <class E>
struct CappedScores {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr bool in_memory = false;
  const E *x;
  batch factor, cap;

  const E *address(std::size_t i) const { return x + i; }
  RAPT_INNER batch full(std::size_t i) const { return cap * tanh_of<A>(S::load(x + i) * factor); }
  RAPT_INNER batch first(std::size_t i, std::size_t k) const {
    return S::fill_after(cap * tanh_of<A>(S::load_first(x + i, k) * factor), k,
                         -std::numeric_limits<A>::infinity());
  }
};

// Computes scores with any options.
template <class E>
class ComputedScores {
 public:
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr bool in_memory = false;

  ComputedScores(const ScorePlan<A> &plan, const E *x, std::size_t r)
      : x_(x),
        bias_(plan.bias_row(r)),
        mask_(plan.mask_row(r)),
        factor_(plan.factor),
        from_natural_(plan.from_natural),
        cap_(plan.cap),
        has_cap_(plan.cap != 0) {}

  const E *address(std::size_t i) const { return x_ + i; }

  RAPT_INNER batch full(std::size_t i) const { return make(S::load(x_ + i), i, S::width); }
  [[gnu::noinline, gnu::flatten]] batch first(std::size_t i,
                                              std::size_t k) const {  // called once or twice per row
    return S::fill_after(make(S::load_first(x_ + i, k), i, k), k, -std::numeric_limits<A>::infinity());
  }

 private:
  RAPT_INNER batch make(batch x, std::size_t i, std::size_t k) const {
    const batch excluded(-std::numeric_limits<A>::infinity());
    batch v = x * factor_;
    if (has_cap_) v = tanh_of<A>(v);
    if (bias_) {
      const batch bias = S::load_first(bias_ + i, k);
      v = not_below_all<A>(v, has_cap_ ? S::fma(cap_, v, bias) : S::fma(bias, from_natural_, v));
      v = S::select(S::equal(bias, excluded), excluded, v);
    } else if (has_cap_) {
      v = cap_ * v;
    }
    if (mask_) v = S::select(S::load_flags(mask_ + i, k), v, excluded);
    return v;
  }

  const E *x_;
  const A *bias_;
  const std::uint8_t *mask_;
  batch factor_, from_natural_, cap_;
  bool has_cap_;
};

}  // namespace
