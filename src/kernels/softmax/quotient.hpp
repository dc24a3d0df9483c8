// Exponentials divided by their sum.
#pragma once

#include <cstddef>

#include "contract/softmax.hpp"
#include "contract/types.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// e / sum, correctly rounded, and 0 where that is below the smallest normal number.
//
// A product with the reciprocal, mended by its remainder, is the quotient to the last bit (Markstein) at a
// quarter of a division's cost. Elements to be flushed are zeroed first: a subnormal product costs a
// microcode assist.
template <class A>
class Quotient {
 public:
  using S = simd<A>;
  using batch = typename S::batch;

  [[gnu::always_inline]] explicit Quotient(A sum)
      : Quotient(batch(sum), batch(A(1) / sum), batch(smallest(sum))) {}
  [[gnu::always_inline]] Quotient(batch sum, batch reciprocal, batch smallest)
      : divisor_(sum), reciprocal_(reciprocal), smallest_(smallest) {}
  template <class Sum>
  static Sum smallest(Sum sum) {
    return rapt::SoftmaxContract<A>::smallest_normal * sum;
  }

  [[gnu::always_inline]] batch operator()(batch e) const {
    const auto flushed = S::less(e, smallest_);
    if constexpr (S::masks_are_free) {
      const batch q = S::zero_where(flushed, e * reciprocal_);
      return S::zero_where(flushed, S::fma(S::fnma(q, divisor_, e), reciprocal_, q));
    } else {
      e = S::zero_where(flushed, e);
      const batch q = e * reciprocal_;
      return S::fma(S::fnma(q, divisor_, e), reciprocal_, q);
    }
  }

 private:
  batch divisor_, reciprocal_, smallest_;
};

// y = e / sum for a row that is padded to whole vectors. A Map over it takes up to 1.7 times as long on AVX2,
// where the rows are short.
template <class A, class E>
[[gnu::always_inline]] inline void divide_padded(const A *e, E *y, std::size_t n,
                                                 const Quotient<A> &quotient) {
  using S = simd<A>;
  constexpr std::size_t registers = 4;
  constexpr std::size_t step = registers * S::width;
  std::size_t i = 0;
  for (; n - i >= step; i += step) {
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      S::store(y + i + r * S::width, quotient(S::load(e + i + r * S::width)));
    });
  }
  for (; n - i >= S::width; i += S::width) S::store(y + i, quotient(S::load(e + i)));
  if (i < n) S::store_first(y + i, quotient(S::load(e + i)), n - i);
}

}  // namespace
