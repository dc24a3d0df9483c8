// dot and dot_rows.
#pragma once

#include <cstddef>

#include "contract/reductions.hpp"
#include "contract/types.hpp"
#include "kernels/vector/alignment.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class A>
struct DotLanes {
  using S = simd<A>;
  static constexpr std::size_t lanes = rapt::dot_lanes<A>;
  static constexpr std::size_t registers = lanes / S::width;
  typename S::batch lane[registers];

  // Not a constructor: gcc 12 constructs an array of these by a loop, which puts it in memory.
  [[gnu::always_inline]] void clear() {
    unroll<registers>([&](auto r) __attribute__((always_inline)) { lane[r] = typename S::batch(A(0)); });
  }
  // add() to lanes of 0.
  template <class E>
  [[gnu::always_inline]] void begin(const E *a, const E *b) {
    const typename S::batch zero(A(0));
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      lane[r] = S::fma(S::load(a + r * S::width), S::load(b + r * S::width), zero);
    });
  }
  template <class E>
  [[gnu::always_inline]] void add(const E *a, const E *b) {
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      lane[r] = S::fma(S::load(a + r * S::width), S::load(b + r * S::width), lane[r]);
    });
  }
  // The tail of `left` < lanes elements: whole registers, then a partial one.
  //
  //   100 elements, AVX-512                 | ns
  //   four masked fused operations          | 6.5
  //   four pairs of masked loads            | 5.3
  //   whole registers, then one (this one)  | 4.0
  //
  // At random lengths below 256, where the branch is mispredicted, it takes 4.9 ns against 6.8 and 5.7.
  //
  // Missing elements count as 0 * 0, which turns a sum of -0 in every lane into +0. One register suffices for
  // that.
  template <class E>
  [[gnu::always_inline]] void add_first(const E *a, const E *b, std::size_t left) {
    unroll_while<registers>([&](auto r) __attribute__((always_inline)) {
      constexpr std::size_t begin = r * S::width;
      if (left < begin + S::width) {
        if (left > begin) {
          const std::size_t k = left - begin;
          lane[r] = S::fma(S::load_first(a + begin, k), S::load_first(b + begin, k), lane[r]);
        }
        return false;
      }
      lane[r] = S::fma(S::load(a + begin), S::load(b + begin), lane[r]);
      return true;
    });
    lane[0] = lane[0] + typename S::batch(A(0));
  }
  [[gnu::always_inline]] A fold() { return fold_lanes<A>(lane); }
};

// For unaligned vectors. A first step of `head` elements, in the last lanes of the
// last register, brings a to alignment. That rotates all lanes, which the folds by halves do not see: lane i
// still meets lane i + half.
//
// A load that crosses a line takes two cycles, so that unaligned vectors halve the speed in L1 and L2. Where
// the two alignments differ, b is loaded in aligned vectors too and shifted in registers, if the level shifts
// by a variable count. Otherwise b alone is loaded unaligned.
//
//   1536 elements, AVX-512            | ns, unaligned loads | ns, this
//   both equally far from alignment   | 73                  | 36
//   one of them                       | 73                  | 54
template <class E>
[[gnu::always_inline]] inline rapt::Arithmetic<E> dot_aligning(const E *a, const E *b, std::size_t n,
                                                               std::size_t head) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  constexpr std::size_t lanes = DotLanes<A>::lanes;
  constexpr std::size_t registers = DotLanes<A>::registers;
  DotLanes<A> sum;
  sum.clear();
  if (head > 0) {
    const std::ptrdiff_t back = static_cast<std::ptrdiff_t>(S::width - head);
    sum.lane[registers - 1] = S::load_last(a - back, head) * S::load_last(b - back, head);
  }
  std::size_t i = head;
  if constexpr (ShiftsLanes<S>) {
    const std::size_t ahead = elements_to_alignment(b + i);
    if (ahead > 0) {
      // One whole step first: the aligned vectors then begin within b, and none is read past its end.
      sum.add(a + i, b + i);
      i += lanes;
      const auto shift = S::shift_by(S::width - ahead);
      auto before = S::load(b + i + ahead - S::width);
      for (; n - i >= lanes + S::width; i += lanes) {
        unroll<registers>([&](auto r) __attribute__((always_inline)) {
          const auto after = S::load(b + i + ahead + r * S::width);
          sum.lane[r] = S::fma(S::load(a + i + r * S::width), S::shifted(before, after, shift), sum.lane[r]);
          before = after;
        });
      }
    }
  }
  for (; n - i >= lanes; i += lanes) sum.add(a + i, b + i);
  if (i < n) sum.add_first(a + i, b + i, n - i);
  return sum.fold();
}

// At least one step. The return after the first keeps the usual 64 elements free of jumps.
template <class E>
[[gnu::always_inline]] inline rapt::Arithmetic<E> dot_in_order(const E *a, const E *b, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  constexpr std::size_t lanes = DotLanes<A>::lanes;
  DotLanes<A> sum;
  sum.begin(a, b);
  if (n == lanes) return sum.fold();
  for (std::size_t left = n / lanes - 1; left > 0; --left) sum.add(a += lanes, b += lanes);
  if (n % lanes > 0) sum.add_first(a + lanes, b + lanes, n % lanes);
  return sum.fold();
}

// Less than a step: `live` registers of elements, the last of them `whole` or partial. Products stand for
// fused additions to +0, and the folds leave out registers of +0. Both change sums of -0 and +0 alone. With a
// missing lane of +0 the result is never -0: the last addition sees to that.
template <std::size_t live, bool whole, class E>
[[gnu::always_inline]] inline rapt::Arithmetic<E> dot_short(const E *a, const E *b, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  constexpr std::size_t begin = (live - 1) * S::width;
  typename S::batch product[live];
  unroll<live - 1>([&](auto r) __attribute__((always_inline)) {
    product[r] = S::load(a + r * S::width) * S::load(b + r * S::width);
  });
  if constexpr (whole) {
    product[live - 1] = S::load(a + begin) * S::load(b + begin);
  } else {
    product[live - 1] = S::load_first(a + begin, n - begin) * S::load_first(b + begin, n - begin);
  }
  return S::fold(fold_live<DotLanes<A>::registers>(product)) + A(0);
}

template <class E>
[[gnu::always_inline]] inline rapt::Arithmetic<E> dot_short(const E *a, const E *b, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  constexpr std::size_t registers = DotLanes<A>::registers, width = simd<A>::width;
  if constexpr (registers > 8) {  // too much code for all cases
    DotLanes<A> sum;
    sum.clear();
    sum.add_first(a, b, n);
    return sum.fold();
  } else {
    A result = 0;
    unroll_while<registers>([&](auto r) __attribute__((always_inline)) {
      constexpr std::size_t live = r + 1;
      if (n > live * width) return true;
      result = n == live * width ? dot_short<live, true>(a, b, n) : dot_short<live, false>(a, b, n);
      return false;
    });
    return result;
  }
}

// A function of its own: within dot it would take registers from the short vectors.
template <class E>
[[gnu::flatten, gnu::noinline]] rapt::Arithmetic<E> dot_unaligned(const E *a, const E *b, std::size_t n) {
  const auto result = dot_aligning(a, b, n, elements_to_alignment(a));
  if (result != 0) [[likely]]
    return result;  // the sign of a zero may depend on which lanes have elements
  return dot_in_order(a, b, n);
}

// Whether to align, where one or both are not aligned. In L1 one unaligned vector costs less than shifting
// it:
//
//   elements, AVX-512, a aligned   | ns in order | ns aligning
//   256                            | 10.4        | 11.7
//   768                            | 28.4        | 29.3
//   4096                           | 140         | 146
//   8000, in L2                    | 511         | 430
template <class E>
[[gnu::always_inline]] inline bool worth_aligning(const E *a, const E *b, std::size_t n) {
  constexpr std::size_t both = 1024 / sizeof(E), one = 16384 / sizeof(E);
  return n > one || (n >= both && !is_aligned(a) && !is_aligned(b));
}

template <class E>
[[gnu::flatten, gnu::noinline]] rapt::Arithmetic<E> dot(const E *a, const E *b, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  if (n >= DotLanes<A>::lanes) [[unlikely]] {
    if constexpr (S::aligns_dot) {
      if (!(is_aligned(a) && is_aligned(b))) [[unlikely]] {
        if (worth_aligning(a, b, n)) return dot_unaligned(a, b, n);
      }
    }
    return dot_in_order(a, b, n);
  }
  if (n == S::width) return dot_short<1, true>(a, b, n);
  if (n == 0) return 0;  // the pointers may be anything
  return dot_short(a, b, n);
}

// Four rows at a time: a joint fold of their lanes takes half the shuffles. `together` rows share each load
// of the query, as many as have registers.
template <std::size_t together, class E, class A>
[[gnu::always_inline]] inline void dot_four_rows(const E *query, const E *rows, std::ptrdiff_t row_stride,
                                                 std::size_t dim, A scale, A *out) {
  using S = simd<A>;
  constexpr std::size_t lanes = DotLanes<A>::lanes;
  typename S::batch folded[4];
  unroll<4 / together>([&](auto part) __attribute__((always_inline)) {
    const E *row[together];
    DotLanes<A> sum[together];
    unroll<together>([&](auto j) __attribute__((always_inline)) {
      sum[j].clear();
      row[j] = rows + static_cast<std::ptrdiff_t>(part * together + j) * row_stride;
    });
    std::size_t i = 0;
    for (; dim - i >= lanes; i += lanes) {
      unroll<together>([&](auto j) __attribute__((always_inline)) { sum[j].add(query + i, row[j] + i); });
    }
    if (i < dim) {
      unroll<together>([&](auto j) __attribute__((always_inline)) {
        sum[j].add_first(query + i, row[j] + i, dim - i);
      });
    }
    unroll<together>([&](auto j) __attribute__((always_inline)) {
      folded[part * together + j] = fold_registers(sum[j].lane);
    });
  });
  S::store_scaled_folds(out, scale, folded[0], folded[1], folded[2], folded[3]);
}

// Four rows in four passes over every fourth register of lanes, where a row's accumulators leave no room for
// another row's: 20 loads per 16 operations instead of 32. The lines of a row are read four times, from L1 up
// to 2048 elements.
template <class S>
concept TakesRowsInPasses = S::dot_rows_passes == 4;
template <class S>
inline constexpr std::size_t most_in_passes = 8192 / sizeof(typename S::batch::value_type);

template <class E, class A>
[[gnu::always_inline]] inline void dot_four_rows_in_passes(const E *query, const E *rows,
                                                           std::ptrdiff_t row_stride, std::size_t dim,
                                                           A scale, A *out) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t lanes = DotLanes<A>::lanes, registers = DotLanes<A>::registers / 4;
  const E *row[4];
  batch total[4], before[4];
  unroll<4>([&](auto j) __attribute__((always_inline)) {
    row[j] = rows + static_cast<std::ptrdiff_t>(j()) * row_stride;
  });
  // In the order of the fold by halves: (0 + 2) + (1 + 3).
  unroll<4>([&](auto step) __attribute__((always_inline)) {
    constexpr std::size_t first = (step % 2 * 2 + step / 2) * S::width;
    batch sum[4][registers];
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      unroll<4>([&](auto j) __attribute__((always_inline)) { sum[j][r] = batch(A(0)); });
    });
    std::size_t i = 0;
    for (; dim - i >= lanes; i += lanes) {
      unroll<registers>([&](auto r) __attribute__((always_inline)) {
        const std::size_t at = i + first + 4 * r * S::width;
        const batch q = S::load(query + at);
        unroll<4>([&](auto j) __attribute__((always_inline)) {
          sum[j][r] = S::fma(q, S::load(row[j] + at), sum[j][r]);
        });
      });
    }
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      const std::size_t at = i + first + 4 * r * S::width;
      if (at < dim) {
        const batch q = S::load_first(query + at, dim - at);
        unroll<4>([&](auto j) __attribute__((always_inline)) {
          sum[j][r] = S::fma(q, S::load_first(row[j] + at, dim - at), sum[j][r]);
        });
      }
    });
    unroll<4>([&](auto j) __attribute__((always_inline)) {
      if (first == 0 && i < dim) sum[j][0] = sum[j][0] + batch(A(0));  // as in add_first
      const batch folded = fold_registers(sum[j]);
      if constexpr (step == 0) total[j] = folded;
      if constexpr (step == 1) total[j] = total[j] + folded;
      if constexpr (step == 2) before[j] = folded;
      if constexpr (step == 3) total[j] = total[j] + (before[j] + folded);
    });
  });
  S::store_scaled_folds(out, scale, total[0], total[1], total[2], total[3]);
}

template <class E>
[[gnu::flatten]] void dot_rows(const E *query, const E *rows, std::ptrdiff_t row_stride,
                               std::size_t row_count, std::size_t dim, rapt::Arithmetic<E> scale,
                               rapt::Arithmetic<E> *out) {
  std::size_t r = 0;
  if constexpr (TakesRowsInPasses<simd<rapt::Arithmetic<E>>>) {
    if (dim <= most_in_passes<simd<rapt::Arithmetic<E>>>) {
      for (; row_count - r >= 4; r += 4, rows += 4 * row_stride) {
        dot_four_rows_in_passes(query, rows, row_stride, dim, scale, out + r);
      }
    }
  }
  for (; row_count - r >= 4; r += 4, rows += 4 * row_stride) {
    dot_four_rows<simd<rapt::Arithmetic<E>>::dot_rows_together>(query, rows, row_stride, dim, scale, out + r);
  }
  for (; r < row_count; ++r, rows += row_stride) out[r] = scale * dot(query, rows, dim);
}

}  // namespace
