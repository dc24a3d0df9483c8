// Sums products over a row in dot's lanes. The factors may be computed from several arrays, and two sums may be made in
// one pass.
#pragma once

#include <cstddef>

#include "contract/norm.hpp"
#include "kernels/dot.hpp"
#include "kernels/norm/whole_or_first.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Holds the factors of a vector's products: of one sum, or of two.
template <class V>
struct Factors {
  V a, b;
};
template <class V>
struct TwoFactors {
  Factors<V> first, second;
};

template <std::size_t r, class A, class V>
RAPT_INNER inline void add_products(DotLanes<A> (&sum)[1], const Factors<V> &factors) {
  sum[0].lane[r] = simd<A>::fma(factors.a, factors.b, sum[0].lane[r]);
}
template <std::size_t r, class A, class V>
RAPT_INNER inline void add_products(DotLanes<A> (&sum)[2], const TwoFactors<V> &factors) {
  sum[0].lane[r] = simd<A>::fma(factors.first.a, factors.first.b, sum[0].lane[r]);
  sum[1].lane[r] = simd<A>::fma(factors.second.a, factors.second.b, sum[1].lane[r]);
}

// Adds what belongs to `count` registers of each sum, beginning with `first`.
template <std::size_t first, std::size_t count, class A, std::size_t sums, class Terms>
RAPT_INNER inline void add_to_registers(DotLanes<A> (&sum)[sums], std::size_t begin, std::size_t end,
                                        const Terms &terms) {
  using S = simd<A>;
  constexpr std::size_t lanes = DotLanes<A>::lanes;
  std::size_t i = begin;
  for (; end - i >= lanes; i += lanes) {
    unroll<count>([&](auto r) RAPT_INNER {
      add_products<first + r>(sum, terms(WholeVector{}, i + (first + r) * S::width));
    });
  }
  if (i == end) return;
  unroll_while<count>([&](auto r) RAPT_INNER {
    const std::size_t at = i + (first + r) * S::width;
    if (end < at + S::width) {
      if (end > at) add_products<first + r>(sum, terms(FirstOfVector{end - at}, at));
      return false;
    }
    add_products<first + r>(sum, terms(WholeVector{}, at));
    return end > at + S::width;
  });
}

// Sums the products of terms(part, i) for the elements [begin, end), at most dot_stretch. A lane without an
// element must have a factor of +0, and no NaN. Where two sums would take all registers, the row is walked twice, for
// half of the lanes each, so that every element is still loaded once.
template <class A, std::size_t sums, class Terms>
RAPT_INNER inline void add_terms(DotLanes<A> (&sum)[sums], std::size_t begin, std::size_t end,
                                 const Terms &terms) {
  constexpr std::size_t registers = DotLanes<A>::registers;
  constexpr std::size_t walks = sums > 1 && sums * registers > simd<A>::registers / 2 ? 2 : 1;
  unroll<sums>([&](std::size_t s) RAPT_INNER { sum[s].clear(); });
  unroll<walks>([&](auto walk) RAPT_INNER {
    constexpr std::size_t count = registers / walks;
    add_to_registers<walk * count, count>(sum, begin, end, terms);
  });
  if ((end - begin) % DotLanes<A>::lanes == 0) return;
  unroll<sums>([&](std::size_t s) RAPT_INNER {
    sum[s].lane[0] = sum[s].lane[0] + typename simd<A>::batch(A(0));  // a missing element adds 0 * 0
  });
}

template <class A, std::size_t sums, class Terms>
[[gnu::flatten, gnu::noinline]] void lanes_of_terms(const Terms &terms, std::size_t begin, std::size_t end,
                                                    A (&lane)[sums][rapt::dot_lanes<A>]) {
  DotLanes<A> sum[sums];
  add_terms(sum, begin, end, terms);
  unroll<sums>([&](std::size_t s) RAPT_INNER { sum[s].store(lane[s]); });
}

// Sums n > dot_stretch elements, one stretch after the other.
template <class A, std::size_t sums, class Terms>
RAPT_INNER inline void sums_of_stretches(std::size_t n, const Terms &terms, A (&result)[sums]) {
  constexpr std::size_t lanes = rapt::dot_lanes<A>, stretch = rapt::dot_stretch<A>;
  A total[sums][lanes];
  lanes_of_terms(terms, std::size_t{0}, stretch, total);
  for (std::size_t begin = stretch; begin < n; begin += stretch) {
    A lane[sums][lanes];
    lanes_of_terms(terms, begin, n - begin < stretch ? n : begin + stretch, lane);
    for (std::size_t s = 0; s < sums; ++s) {
      for (std::size_t j = 0; j < lanes; ++j) total[s][j] += lane[s][j];
    }
  }
  for (std::size_t s = 0; s < sums; ++s) {
    DotLanes<A> sum;
    sum.load(total[s]);
    result[s] = sum.fold();
  }
}

template <class A, std::size_t sums, class Terms>
RAPT_INNER inline void sums_of_terms(std::size_t n, const Terms &terms, A (&result)[sums]) {
  if (n > rapt::dot_stretch<A>) [[unlikely]]
    return sums_of_stretches(n, terms, result);
  DotLanes<A> sum[sums];
  add_terms(sum, 0, n, terms);
  unroll<sums>([&](std::size_t s) RAPT_INNER { result[s] = sum[s].fold(); });
}

template <class A, class Terms>
RAPT_INNER inline A sum_of_terms(std::size_t n, const Terms &terms) {
  A result[1];
  sums_of_terms(n, terms, result);
  return result[0];
}

// In a square both factors are one load, which may be unaligned without halving the speed. So the ways of dot for
// unaligned vectors are not compiled a second time.
template <class E>
RAPT_INNER inline rapt::Arithmetic<E> sum_of_squares(const E *x, std::size_t n) {
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
  RAPT_INNER A mean(A sum) const {
    if (inverse_ != 0) [[likely]]
      return sum * inverse_;
    return sum / n_;
  }

 private:
  A n_, inverse_;
};

// Returns 1 / sqrt(mean + eps).
template <class A>
RAPT_INNER inline A inverse_root(A mean, A eps) {
  return A(1) / rapt::square_root(mean + eps);
}

}  // namespace
