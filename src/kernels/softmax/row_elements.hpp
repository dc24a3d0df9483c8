// Reads the elements of rows that need no maximum, and leaves out the elements that the options exclude.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"

namespace {

// Reads a row's elements for ExpWithoutMax. keep() sets the exponentials of excluded elements to 0. Lanes
// past the row's end read as 0, which is in range.
template <class E>
struct PlainElements {
  using S = simd<rapt::Arithmetic<E>>;
  using batch = typename S::batch;
  const E *x;

  RAPT_INNER batch full(std::size_t i) const { return S::load(x + i); }
  RAPT_INNER batch first(std::size_t i, std::size_t k) const { return S::load_first(x + i, k); }
  RAPT_INNER batch keep(std::size_t, batch e) const { return e; }
  RAPT_INNER batch keep_first(std::size_t, std::size_t k, batch e) const { return S::keep_first(e, k); }
};

template <class E>
struct MaskedElements {
  using S = simd<rapt::Arithmetic<E>>;
  using batch = typename S::batch;
  const E *x;
  const std::uint8_t *mask;

  RAPT_INNER batch full(std::size_t i) const { return keep(i, S::load(x + i)); }
  RAPT_INNER batch first(std::size_t i, std::size_t k) const {
    return keep_first(i, k, S::load_first(x + i, k));
  }
  RAPT_INNER batch keep(std::size_t i, batch e) const { return keep_first(i, S::width, e); }
  RAPT_INNER batch keep_first(std::size_t i, std::size_t k, batch e) const {
    return S::select(S::load_flags(mask + i, k), e, batch(rapt::Arithmetic<E>(0)));
  }
};

// Reads elements that may be -inf, whose exponential is 0. full() and keep() each compare the elements,
// because keeping 8 masks would need more registers than there are.
template <class E>
struct FiniteElements {
  using S = simd<rapt::Arithmetic<E>>;
  using batch = typename S::batch;
  const E *x;

  RAPT_INNER batch full(std::size_t i) const { return keep(i, S::load(x + i)); }
  RAPT_INNER batch first(std::size_t i, std::size_t k) const {
    return keep_first(i, k, S::load_first(x + i, k));
  }
  RAPT_INNER batch keep(std::size_t i, batch e) const { return where_finite(S::load(x + i), e); }
  RAPT_INNER batch keep_first(std::size_t i, std::size_t k, batch e) const {
    return S::keep_first(where_finite(S::load_first(x + i, k), e), k);
  }

 private:
  RAPT_INNER static batch where_finite(batch v, batch e) {
    return S::zero_where(S::equal(v, batch(-std::numeric_limits<rapt::Arithmetic<E>>::infinity())), e);
  }
};

// Computes scores with a bias. If `excludes`, elements with a bias of -inf or a mask of 0 are excluded. A sum that
// overflows is out of range, and its row is computed with its maximum.
template <class E, bool excludes>
struct BiasedElements {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;
  const E *x;
  const A *bias;
  const std::uint8_t *mask;
  batch from_natural;

  RAPT_INNER batch full(std::size_t i) const {
    const batch b = S::load(bias + i);
    return visible(i, S::width, b, S::fma(b, from_natural, S::load(x + i)));
  }
  RAPT_INNER batch first(std::size_t i, std::size_t k) const {
    const batch b = S::load_first(bias + i, k);
    return visible(i, k, b, S::fma(b, from_natural, S::load_first(x + i, k)));
  }
  RAPT_INNER batch keep(std::size_t i, batch e) const { return visible(i, S::width, S::load(bias + i), e); }
  RAPT_INNER batch keep_first(std::size_t i, std::size_t k, batch e) const {
    return S::keep_first(visible(i, k, S::load_first(bias + i, k), e), k);
  }

 private:
  RAPT_INNER batch visible(std::size_t i, std::size_t k, batch b, batch v) const {
    if constexpr (!excludes) return v;
    v = S::zero_where(S::equal(b, batch(-std::numeric_limits<A>::infinity())), v);
    return mask ? S::select(S::load_flags(mask + i, k), v, batch(A(0))) : v;
  }
};

}  // namespace
