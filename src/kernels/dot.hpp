// Computes the dot product of two vectors of floats.
#pragma once

#include <cstddef>
#include <type_traits>

#include "contract/types.hpp"
#include "kernels/dot_lanes.hpp"
#include "kernels/vector/alignment.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Adds the products of unaligned vectors. The first step takes `head` elements into the last lanes of the
// last register, which makes a aligned. That rotates all lanes, but a fold by halves still adds the same
// lanes i and i + half.
//
// A load that crosses a cache line takes two cycles, so unaligned vectors halve the speed in L1 and L2. If b
// is still unaligned after the first step, levels with ShiftsLanes load aligned vectors of b and shift them
// in registers. Other levels load only b unaligned.
//
//   1536 elements, AVX-512            | ns, unaligned loads | ns, this one
//   a and b equally far from aligned  | 73                  | 36
//   only one of them aligned          | 73                  | 54
template <class A>
RAPT_INNER inline void add_aligning(DotLanes<A> &sum, const A *a, const A *b, std::size_t n,
                                    std::size_t head) {
  using S = simd<A>;
  constexpr std::size_t lanes = DotLanes<A>::lanes;
  constexpr std::size_t registers = DotLanes<A>::registers;
  sum.clear();
  if (head > 0) {
    const std::ptrdiff_t back = static_cast<std::ptrdiff_t>(S::width - head);
    sum.lane[registers - 1] = S::load_last(a - back, head) * S::load_last(b - back, head);
  }
  std::size_t i = head;
  if constexpr (ShiftsLanes<S>) {
    const std::size_t ahead = elements_to_alignment(b + i);
    if (ahead > 0) {
      // A whole step comes first, so that the aligned vectors begin inside b. The loop ends before one would
      // reach past the end of b.
      sum.add(a + i, b + i);
      i += lanes;
      const auto shift = S::shift_by(S::width - ahead);
      auto before = S::load(b + i + ahead - S::width);
      for (; n - i >= lanes + S::width; i += lanes) {
        unroll<registers>([&](std::size_t r) RAPT_INNER {
          const auto after = S::load(b + i + ahead + r * S::width);
          sum.lane[r] = S::fma(S::load(a + i + r * S::width), S::shifted(before, after, shift), sum.lane[r]);
          before = after;
        });
      }
    }
  }
  for (; n - i >= lanes; i += lanes) sum.add(a + i, b + i);
  if (i < n) sum.add_first(a + i, b + i, n - i);
}

// n is at least `lanes` and at most dot_stretch. The early return avoids branches for the usual 64 elements.
template <class E>
RAPT_INNER inline rapt::Arithmetic<E> dot_in_order(const E *a, const E *b, std::size_t n) {
  constexpr std::size_t lanes = LanesForDot<E>::lanes;
  LanesForDot<E> sum;
  sum.begin(a, b);
  if (n == lanes) return sum.fold();
  for (std::size_t left = n / lanes - 1; left > 0; --left) {
    a += lanes;
    b += lanes;
    sum.add(a, b);
  }
  if (n % lanes == 0) return sum.fold();
  auto &in_order = sum.in_order();
  in_order.add_first(a + lanes, b + lanes, n % lanes);
  return in_order.fold();
}

// n is less than `lanes`: the elements fill `live` registers, the last one completely if `whole`. Products
// replace fused additions to +0, and the fold leaves out registers of +0. Both change only the sign of a sum
// of zeros. With a lane missing that sum must be +0, so the last addition adds +0.
template <std::size_t live, bool whole, class E>
RAPT_INNER inline rapt::Arithmetic<E> dot_short(const E *a, const E *b, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  constexpr std::size_t begin = (live - 1) * S::width;
  typename S::batch product[live];
  unroll<live - 1>([&](std::size_t r)
                       RAPT_INNER { product[r] = S::load(a + r * S::width) * S::load(b + r * S::width); });
  if constexpr (whole) {
    product[live - 1] = S::load(a + begin) * S::load(b + begin);
  } else {
    product[live - 1] = S::load_first(a + begin, n - begin) * S::load_first(b + begin, n - begin);
  }
  return S::fold(fold_live<DotLanes<A>::registers>(product)) + A(0);
}

template <class E>
RAPT_INNER inline rapt::Arithmetic<E> dot_short(const E *a, const E *b, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  constexpr std::size_t registers = DotLanes<A>::registers, width = simd<A>::width;
  if constexpr (registers > 8) {  // code for all cases would be too large
    DotLanes<A> sum;
    sum.clear();
    sum.add_first(a, b, n);
    return sum.fold();
  } else {
    A result = 0;
    unroll_while<registers>([&](auto r) RAPT_INNER {
      constexpr std::size_t live = r + 1;
      if (n > live * width) return true;
      result = n == live * width ? dot_short<live, true>(a, b, n) : dot_short<live, false>(a, b, n);
      return false;
    });
    return result;
  }
}

// This is a separate function, because inlined into dot() it would take registers from short vectors.
template <class A>
[[gnu::flatten, gnu::noinline]] A dot_unaligned(const A *a, const A *b, std::size_t n) {
  DotLanes<A> sum;
  add_aligning(sum, a, b, n, elements_to_alignment(a));
  const A result = sum.fold();
  if (result != 0) [[likely]]
    return result;  // the sign of a zero may depend on which lanes the elements are in
  return dot_in_order(a, b, n);
}

// Returns whether add_aligning() is faster, if a or b is not aligned. In L1, loading one of them unaligned
// costs less than shifting it:
//
//   elements, AVX-512, a aligned   | ns unaligned | ns aligning
//   256                            | 10.4         | 11.7
//   768                            | 28.4         | 29.3
//   4096                           | 140          | 146
//   8000, in L2                    | 511          | 430
template <class E>
RAPT_INNER inline bool worth_aligning(const E *a, const E *b, std::size_t n) {
  constexpr std::size_t both = 1024 / sizeof(E), one = 16384 / sizeof(E);
  return n > one || (n >= both && !is_aligned(a) && !is_aligned(b));
}

template <class E>
inline constexpr bool aligns_dot =
    std::is_same_v<E, rapt::Arithmetic<E>> &&simd<rapt::Arithmetic<E>>::aligns_dot;

// Computes the lanes of at most dot_stretch elements. In memory, prefetching 1 KB ahead is 2 % faster on AVX2
// and 5 % on AVX-512.
template <bool fetches, class E>
[[gnu::flatten, gnu::noinline]] void lanes_in_order(const E *a, const E *b, std::size_t n,
                                                    rapt::Arithmetic<E> *lane) {
  constexpr std::size_t lanes = LanesForDot<E>::lanes;
  LanesForDot<E> sum;
  sum.clear();
  for (; n >= lanes; n -= lanes, a += lanes, b += lanes) {
    if constexpr (fetches) {
      constexpr std::size_t line = 64 / sizeof(E), ahead = 1024 / sizeof(E);
      for (std::size_t j = ahead; j < ahead + lanes; j += line) {
        __builtin_prefetch(a + j);
        __builtin_prefetch(b + j);
      }
    }
    sum.add(a, b);
  }
  auto &in_order = sum.in_order();
  if (n > 0) in_order.add_first(a, b, n);
  in_order.store(lane);
}
template <class A>
[[gnu::flatten, gnu::noinline]] void lanes_aligning(const A *a, const A *b, std::size_t n, A *lane) {
  constexpr std::size_t lanes = DotLanes<A>::lanes;
  const std::size_t head = elements_to_alignment(a);
  DotLanes<A> sum;
  add_aligning(sum, a, b, n, head);
  A rotated[lanes];
  sum.store(rotated);
  for (std::size_t j = 0; j < lanes; ++j) lane[(j + head) % lanes] = rotated[j];
}

// Handles n > dot_stretch, one stretch of dot_stretch elements after the other.
template <class E>
[[gnu::noinline, gnu::flatten]] rapt::Arithmetic<E> dot_long(const E *a, const E *b, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  if constexpr (aligns_dot<E>) {
    if (!(is_aligned(a) && is_aligned(b))) {
      const A result = sum_of_stretches<A>(n, [=](std::size_t begin, std::size_t count, A *lane) {
        if (worth_aligning(a, b, count)) {
          lanes_aligning(a + begin, b + begin, count, lane);
        } else {
          lanes_in_order<false>(a + begin, b + begin, count, lane);
        }
      });
      if (result != 0) [[likely]]
        return result;  // the sign of a zero may depend on which lanes the elements are in
    }
  }
  const auto lanes_of = n < past_caches_from<E> ? lanes_in_order<false, E> : lanes_in_order<true, E>;
  return sum_of_stretches<A>(
      n, [=](std::size_t begin, std::size_t count, A *lane) { lanes_of(a + begin, b + begin, count, lane); });
}

template <class E>
[[gnu::flatten, gnu::noinline]] rapt::Arithmetic<E> dot(const E *a, const E *b, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  if (n >= DotLanes<A>::lanes) [[unlikely]] {
    if (n > rapt::dot_stretch<A>) [[unlikely]]
      return dot_long(a, b, n);
    if constexpr (aligns_dot<E>) {
      if (!(is_aligned(a) && is_aligned(b))) [[unlikely]] {
        if (worth_aligning(a, b, n)) return dot_unaligned(a, b, n);
      }
    }
    return dot_in_order(a, b, n);
  }
  if (n == S::width) return dot_short<1, true>(a, b, n);
  if (n == 0) return 0;  // a and b may be invalid pointers
  return dot_short(a, b, n);
}

}  // namespace
