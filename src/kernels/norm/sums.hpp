// Sums products over a row in dot's lanes. The factors may be computed from several arrays.
#pragma once

#include <cstddef>

#include "contract/norm.hpp"
#include "kernels/dot.hpp"
#include "kernels/norm/whole_or_first.hpp"

namespace {

template <class V>
struct Factors {
  V a, b;
};

// Sums the products of terms(part, i) for the elements [begin, end), at most dot_stretch. A lane without an
// element must have a factor of +0, and no NaN.
template <class A, class Terms>
[[gnu::always_inline]] inline void add_terms(DotLanes<A> &sum, std::size_t begin, std::size_t end,
                                             const Terms &terms) {
  using S = simd<A>;
  constexpr std::size_t registers = DotLanes<A>::registers, lanes = DotLanes<A>::lanes;
  sum.clear();
  std::size_t i = begin;
  for (; end - i >= lanes; i += lanes) {
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      const auto [a, b] = terms(WholeVector{}, i + r * S::width);
      sum.lane[r] = S::fma(a, b, sum.lane[r]);
    });
  }
  if (i == end) return;
  unroll_while<registers>([&](auto r) __attribute__((always_inline)) {
    const std::size_t at = i + r * S::width;
    if (end - at < S::width) {
      if (end > at) {
        const auto [a, b] = terms(FirstOfVector{end - at}, at);
        sum.lane[r] = S::fma(a, b, sum.lane[r]);
      }
      return false;
    }
    const auto [a, b] = terms(WholeVector{}, at);
    sum.lane[r] = S::fma(a, b, sum.lane[r]);
    return end - at > S::width;
  });
  sum.lane[0] = sum.lane[0] + typename S::batch(A(0));  // a missing element adds 0 * 0
}

template <class A, class Terms>
[[gnu::flatten, gnu::noinline]] void lanes_of_terms(const Terms &terms, std::size_t begin, std::size_t count,
                                                    A *lane) {
  DotLanes<A> sum;
  add_terms(sum, begin, begin + count, terms);
  sum.store(lane);
}

template <class A, class Terms>
[[gnu::always_inline]] inline A sum_of_terms(std::size_t n, const Terms &terms) {
  if (n > rapt::dot_stretch<A>) [[unlikely]] {
    return sum_of_stretches<A>(n, [&](std::size_t begin, std::size_t count, A *lane) {
      lanes_of_terms<A>(terms, begin, count, lane);
    });
  }
  DotLanes<A> sum;
  add_terms(sum, 0, n, terms);
  return sum.fold();
}

// In a square both factors are one load, which may be unaligned without halving the speed. So the ways of dot for
// unaligned vectors are not compiled a second time.
template <class E>
[[gnu::always_inline]] inline rapt::Arithmetic<E> sum_of_squares(const E *x, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  if (n < DotLanes<A>::lanes) return dot_short(x, x, n);
  if (n <= rapt::dot_stretch<A>) [[likely]]
    return dot_in_order(x, x, n);
  return sum_of_stretches<A>(n, [x](std::size_t begin, std::size_t count, A *lane) {
    lanes_in_order<false>(x + begin, x + begin, count, lane);
  });
}

// Divides by the number of columns. By a power of two, which most rows have, the product with its inverse is the same
// number and takes a third of the time, which short rows wait for.
template <class A>
class Columns {
 public:
  explicit Columns(std::size_t n)
      : n_(static_cast<A>(n)), inverse_((n & (n - 1)) == 0 ? A(1) / static_cast<A>(n) : A(0)) {}
  [[gnu::always_inline]] A mean(A sum) const {
    if (inverse_ != 0) [[likely]]
      return sum * inverse_;
    return sum / n_;
  }

 private:
  A n_, inverse_;
};

// Returns 1 / sqrt(mean + eps).
template <class A>
[[gnu::always_inline]] inline A inverse_root(A mean, A eps) {
  return A(1) / rapt::square_root(mean + eps);
}

}  // namespace
