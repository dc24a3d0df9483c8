// Divides exponentials by their sum.
#pragma once

#include <cstddef>
#include <type_traits>

#include "contract/fused.hpp"
#include "contract/softmax.hpp"
#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Holds 1 / sum as high + low.
template <class A>
struct Reciprocal {
  using C = rapt::SoftmaxContract<A>;
  A high, low;

  explicit Reciprocal(double sum) {
    const double reciprocal = 1 / sum;
    high = static_cast<A>(reciprocal);
    if constexpr (std::is_same_v<A, double>) {
      low = fused(-sum, high, 1.0) * high;
    } else {
      low = static_cast<A>(reciprocal - double{high});
    }
    if ((low < 0 ? -low : low) < high * C::reciprocal_floor) low = 0;
  }
};

// Computes the reciprocals of as many sums as a vector has lanes.
template <class A>
struct Reciprocals {
  using S = simd<A>;
  using D = simd<double>;
  using batch = typename S::batch;
  batch high, low;

  RAPT_INNER explicit Reciprocals(const double *sums) {
    const typename D::batch one(1.0);
    if constexpr (std::is_same_v<A, double>) {
      const batch sum = S::load(sums);
      high = S::divide(one, sum);
      low = S::fnma(sum, high, one) * high;
    } else {
      const auto lower = D::divide(one, D::load(sums)), upper = D::divide(one, D::load(sums + D::width));
      high = S::narrowed(lower, upper);
      low = S::narrowed(lower - S::template widened<0>(high), upper - S::template widened<1>(high));
    }
    const batch floor(rapt::SoftmaxContract<A>::reciprocal_floor);
    low = S::zero_where(S::less(S::abs(low), high * floor), low);
  }
};

// Divides e by the sum in two operations, using the reciprocal high + low. Markstein's division by a rounded
// sum takes three, and its error is one unit roundoff larger.
template <class A>
class PlainQuotient {
 public:
  using S = simd<A>;
  using batch = typename S::batch;

  RAPT_INNER PlainQuotient(batch high, batch low) : high_(high), low_(low) {}
  RAPT_INNER batch operator()(batch e) const { return S::fma(e, high_, e * low_); }

 private:
  batch high_, low_;
};

// Divides like PlainQuotient, but a quotient below the smallest normal number becomes 0. It works on scaled
// numbers, because a subnormal product would cost a microcode assist.
template <class A>
class Quotient {
 public:
  using S = simd<A>;
  using C = rapt::SoftmaxContract<A>;
  using batch = typename S::batch;

  RAPT_INNER explicit Quotient(double sum) : Quotient(Reciprocal<A>(sum)) {}
  RAPT_INNER explicit Quotient(const Reciprocal<A> &reciprocal)
      : Quotient(batch(reciprocal.high), batch(reciprocal.low)) {}
  RAPT_INNER Quotient(batch high, batch low) : plain_(high * batch(bias), low * batch(bias)) {}

  RAPT_INNER batch operator()(batch e) const {
    const batch q = plain_(e);
    const auto flushed = S::less(q, batch(C::smallest_quotient));
    if constexpr (S::masks_are_free) {
      return S::zero_where(flushed, q * batch(1 / bias));
    } else {
      return S::zero_where(flushed, q) * batch(1 / bias);
    }
  }

 private:
  // Equals 2^quotient_bias.
  static constexpr A bias =
      static_cast<A>(1ull << C::quotient_bias / 4) * static_cast<A>(1ull << C::quotient_bias / 4) *
      static_cast<A>(1ull << C::quotient_bias / 4) * static_cast<A>(1ull << C::quotient_bias / 4);
  PlainQuotient<A> plain_;
};

// Computes y = e / sum for a short row padded to whole vectors. map() takes up to 1.7 times as long on AVX2.
template <class A, class E, class Q>
RAPT_INNER inline void divide_padded(const A *e, E *y, std::size_t n, const Q &quotient) {
  using S = simd<A>;
  constexpr std::size_t registers = 4;
  constexpr std::size_t step = registers * S::width;
  std::size_t i = 0;
  for (; n - i >= step; i += step) {
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      S::store(y + i + r * S::width, quotient(S::load(e + i + r * S::width)));
    });
  }
  for (; n - i >= S::width; i += S::width) S::store(y + i, quotient(S::load(e + i)));
  if (i < n) S::store_first(y + i, quotient(S::load(e + i)), n - i);
}

}  // namespace
