// dot and dot_rows.
#pragma once

#include <cstddef>

#include "contract/exp.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/map.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class T>
struct DotLanes {
  using S = simd<T>;
  static constexpr std::size_t lanes = rapt::Contract<T>::dot_lanes;
  static constexpr std::size_t registers = lanes / S::width;
  typename S::batch lane[registers];

  // Not a constructor: gcc 12 constructs an array of these by a loop, which puts it in memory.
  [[gnu::always_inline]] void clear() {
    unroll<registers>([&](auto r) __attribute__((always_inline)) { lane[r] = typename S::batch(T(0)); });
  }
  [[gnu::always_inline]] void add(const T *a, const T *b) {
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      lane[r] = S::fma(S::load(a + r * S::width), S::load(b + r * S::width), lane[r]);
    });
  }
  // The last `left` < lanes elements. Whole registers and then one that is not: 100 elements took 6.5 ns with
  // four masked fused operations, 5.3 with four pairs of masked loads, 4.0 so; and at random lengths, where
  // the branch is mispredicted, it is still the fastest (below 256: 6.8, 5.7, 4.9 ns).
  //
  // Elements that are missing count as 0 * 0: of lanes that are all -0 the sum is then +0, for which one
  // register is enough.
  [[gnu::always_inline]] void add_first(const T *a, const T *b, std::size_t left) {
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
    lane[0] = lane[0] + typename S::batch(T(0));
  }
  [[gnu::always_inline]] T fold() { return fold_lanes<T>(lane); }
};

// For vectors of which one or both are not aligned: a is brought to alignment by a first step of `head`
// elements, which stand in the last lanes of the last register. All lanes are rotated by that, and the folds
// by halves do not see it: lane i meets lane i + half all the same.
//
// A load that crosses a line takes two turns, so that unaligned vectors halve the speed in L1 and L2: 1536
// elements took 73 ns, and take 36 on AVX-512 where both are as far from alignment. Where they differ, b is
// loaded in aligned vectors too and shifted in registers (54 ns), if the ISA can shift by a variable count;
// else it alone is loaded unaligned.
template <class T>
[[gnu::always_inline]] inline T dot_aligning(const T *a, const T *b, std::size_t n, std::size_t head) {
  using S = simd<T>;
  constexpr std::size_t lanes = DotLanes<T>::lanes;
  constexpr std::size_t registers = DotLanes<T>::registers;
  DotLanes<T> sum;
  sum.clear();
  if (head > 0) {
    const std::ptrdiff_t back = static_cast<std::ptrdiff_t>(S::width - head);
    sum.lane[registers - 1] = S::load_last(a - back, head) * S::load_last(b - back, head);
  }
  std::size_t i = head;
  if constexpr (ShiftsLanes<S>) {
    const std::size_t ahead = elements_to_alignment(b + i);
    if (ahead > 0) {
      // One block first, so that the aligned vectors do not begin before b, and none is read past its end.
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

template <class T>
[[gnu::always_inline]] inline T dot_in_order(const T *a, const T *b, std::size_t n) {
  DotLanes<T> sum;
  sum.clear();
  constexpr std::size_t lanes = DotLanes<T>::lanes;
  std::size_t i = 0;
  for (; n - i >= lanes; i += lanes) sum.add(a + i, b + i);
  if (i < n) sum.add_first(a + i, b + i, n - i);
  return sum.fold();
}

template <class T>
[[gnu::flatten]] T dot(const T *a, const T *b, std::size_t n) {
  using S = simd<T>;
  if (n <= S::width) {
    if (n == 0) return 0;  // without a look at the pointers, whatever they are
    return S::fold(S::load_first(a, n) * S::load_first(b, n)) + T(0);
  }
  if constexpr (S::aligns_dot) {
    constexpr std::size_t worthwhile = 4 * DotLanes<T>::lanes;
    const std::size_t head = elements_to_alignment(a);
    if (n >= worthwhile && (head > 0 || elements_to_alignment(b) > 0)) {
      const T result = dot_aligning(a, b, n, head);
      if (result != 0) [[likely]]
        return result;  // else its sign may depend on which lanes had elements
    }
  }
  return dot_in_order(a, b, n);
}

// Four rows at a time: their lanes are folded jointly, in half the shuffles. `together` of them share each
// load of the query, as many as have registers.
template <std::size_t together, class T>
[[gnu::always_inline]] inline void dot_four_rows(const T *query, const T *rows, std::ptrdiff_t row_stride,
                                                 std::size_t dim, T scale, T *out) {
  using S = simd<T>;
  constexpr std::size_t lanes = DotLanes<T>::lanes;
  typename S::batch folded[4];
  unroll<4 / together>([&](auto group) __attribute__((always_inline)) {
    const T *row[together];
    DotLanes<T> sum[together];
    unroll<together>([&](auto j) __attribute__((always_inline)) {
      sum[j].clear();
      row[j] = rows + static_cast<std::ptrdiff_t>(group * together + j) * row_stride;
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
      folded[group * together + j] = fold_registers(sum[j].lane);
    });
  });
  S::store_scaled_folds(out, scale, folded[0], folded[1], folded[2], folded[3]);
}

template <class T>
[[gnu::flatten]] void dot_rows(const T *query, const T *rows, std::ptrdiff_t row_stride,
                               std::size_t row_count, std::size_t dim, T scale, T *out) {
  std::size_t r = 0;
  for (; row_count - r >= 4; r += 4, rows += 4 * row_stride) {
    dot_four_rows<simd<T>::dot_rows_together>(query, rows, row_stride, dim, scale, out + r);
  }
  for (; r < row_count; ++r, rows += row_stride) out[r] = scale * dot(query, rows, dim);
}

}  // namespace
