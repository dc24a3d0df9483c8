// Sums of squares for the metrics, in the lanes of dot.
#pragma once

#include <cstddef>

#include "kernels/dot.hpp"
#include "kernels/dot_rows.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// What is squared: the elements of a vector, or the differences of two.
template <class Element>
struct Itself {
  using E = Element;
  using S = simd<rapt::Arithmetic<E>>;
  const E *a;

  RAPT_INNER typename S::batch load(std::size_t i) const { return S::load(a + i); }
  RAPT_INNER typename S::batch load_first(std::size_t i, std::size_t k) const {
    return S::load_first(a + i, k);
  }
  RAPT_INNER Itself from(std::size_t i) const { return {a + i}; }
};
template <class Element>
struct Difference {
  using E = Element;
  using S = simd<rapt::Arithmetic<E>>;
  const E *a, *b;

  RAPT_INNER typename S::batch load(std::size_t i) const { return S::load(a + i) - S::load(b + i); }
  RAPT_INNER typename S::batch load_first(std::size_t i, std::size_t k) const {
    return S::load_first(a + i, k) - S::load_first(b + i, k);
  }
  RAPT_INNER Difference from(std::size_t i) const { return {a + i, b + i}; }
};

// n is less than the number of lanes. Squares are never -0, so registers without elements change no sum.
template <std::size_t live, class Terms>
RAPT_INNER inline auto squares_short(const Terms &terms, std::size_t n) {
  using A = rapt::Arithmetic<typename Terms::E>;
  using S = simd<A>;
  constexpr std::size_t begin = (live - 1) * S::width;
  typename S::batch square[live];
  unroll<live - 1>([&](std::size_t r) RAPT_INNER {
    const auto v = terms.load(r * S::width);
    square[r] = v * v;
  });
  const auto last = n == live * S::width ? terms.load(begin) : terms.load_first(begin, n - begin);
  square[live - 1] = last * last;
  return S::fold(fold_live<DotLanes<A>::registers>(square));
}

// Adds at most dot_stretch squares.
template <class A, class Terms>
RAPT_INNER inline void add_squares(DotLanes<A> &sum, const Terms &terms, std::size_t n) {
  using S = simd<A>;
  constexpr std::size_t lanes = DotLanes<A>::lanes, registers = DotLanes<A>::registers;
  std::size_t i = 0;
  for (; n - i >= lanes; i += lanes) {
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      const auto v = terms.load(i + r * S::width);
      sum.lane[r] = S::fma(v, v, sum.lane[r]);
    });
  }
  unroll_while<registers>([&](auto r) RAPT_INNER {
    const std::size_t begin = i + r * S::width;
    if (n <= begin) return false;
    const std::size_t left = n - begin;
    const auto v = left < S::width ? terms.load_first(begin, left) : terms.load(begin);
    sum.lane[r] = S::fma(v, v, sum.lane[r]);
    return true;
  });
}

template <class Terms>
[[gnu::noinline, gnu::flatten]] auto squares_long(Terms terms, std::size_t n) {
  using A = rapt::Arithmetic<typename Terms::E>;
  return sum_of_stretches<A>(n, [=](std::size_t begin, std::size_t count, A *lane) {
    DotLanes<A> sum;
    sum.clear();
    add_squares(sum, terms.from(begin), count);
    sum.store(lane);
  });
}

template <class Terms>
[[gnu::noinline, gnu::flatten]] auto squares_of(Terms terms, std::size_t n) {
  using A = rapt::Arithmetic<typename Terms::E>;
  constexpr std::size_t lanes = DotLanes<A>::lanes, registers = DotLanes<A>::registers;
  if (n > rapt::dot_stretch<A>) [[unlikely]]
    return squares_long(terms, n);
  if (n < lanes && registers <= 8) {  // more registers would make too much code
    A result = 0;
    unroll_while<(registers <= 8 ? registers : 1)>([&](auto r) RAPT_INNER {
      constexpr std::size_t live = r + 1;
      if (n > live * simd<A>::width) return true;
      if (n > 0) result = squares_short<live>(terms, n);
      return false;
    });
    return result;
  }
  DotLanes<A> sum;
  sum.clear();
  add_squares(sum, terms, n);
  return sum.fold();
}

template <class E>
rapt::Arithmetic<E> squares(const E *a, std::size_t n) {
  return squares_of(Itself<E>{a}, n);
}
template <class E>
rapt::Arithmetic<E> squared_distance(const E *a, const E *b, std::size_t n) {
  return squares_of(Difference<E>{a, b}, n);
}

// What a cosine is made of.
template <class A>
struct CosineSums {
  A product, of_a, of_b;
};

// n is at most the number of lanes. Each element is loaded once, and the three sums do not wait for each other.
template <std::size_t live, class E>
RAPT_INNER inline auto cosine_sums_short(const E *a, const E *b, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  constexpr std::size_t registers = DotLanes<A>::registers, begin = (live - 1) * S::width;
  typename S::batch product[live], of_a[live], of_b[live];
  unroll<live>([&](std::size_t r) RAPT_INNER {
    const bool is_part = r + 1 == live && n < live * S::width;
    const auto x = is_part ? S::load_first(a + begin, n - begin) : S::load(a + r * S::width),
               y = is_part ? S::load_first(b + begin, n - begin) : S::load(b + r * S::width);
    product[r] = x * y;
    of_a[r] = x * x;
    of_b[r] = y * y;
  });
  return CosineSums<A>{S::fold(fold_live<registers>(product)) + A(0), S::fold(fold_live<registers>(of_a)),
                       S::fold(fold_live<registers>(of_b))};
}

//   ns on a Zen 3, shared            | 16 | 64
//   dot, and twice the squares       | 22 | 32
//   one function for all three sums  | 17 | 24
template <class E>
[[gnu::noinline, gnu::flatten]] CosineSums<rapt::Arithmetic<E>> cosine_sums(const E *a, const E *b,
                                                                            std::size_t n) {
  using A = rapt::Arithmetic<E>;
  constexpr std::size_t registers = DotLanes<A>::registers;
  if constexpr (registers <= 8) {  // more registers would make too much code
    if (n > 0 && n <= DotLanes<A>::lanes) {
      CosineSums<A> sums;
      unroll_while<registers>([&](auto r) RAPT_INNER {
        constexpr std::size_t live = r + 1;
        if (n > live * simd<A>::width) return true;
        sums = cosine_sums_short<live>(a, b, n);
        return false;
      });
      return sums;
    }
  }
  return {dot(a, b, n), squares(a, n), squares(b, n)};
}

}  // namespace

#include "kernels/metric_rows.hpp"
