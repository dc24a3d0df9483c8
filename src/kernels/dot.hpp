// dot and dot_rows.
#pragma once

#include <cstddef>

#include "kernels/contract.hpp"
#include "kernels/fold.hpp"
#include "kernels/unroll.hpp"

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
  // The last `left` < lanes elements; every lane takes part, as the contract counts missing elements as 0 *
  // 0.
  [[gnu::always_inline]] void add_first(const T *a, const T *b, std::size_t left) {
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      constexpr std::size_t begin = r * S::width;
      const std::size_t k = left > begin ? left - begin : 0;
      lane[r] = S::fma(S::load_first(a + begin, k), S::load_first(b + begin, k), lane[r]);
    });
  }
  [[gnu::always_inline]] T fold() { return fold_lanes<T>(lane); }
};

template <class T>
[[gnu::flatten]] T dot(const T *a, const T *b, std::size_t n) {
  DotLanes<T> sum;
  sum.clear();
  constexpr std::size_t lanes = DotLanes<T>::lanes;
  std::size_t i = 0;
  for (; n - i >= lanes; i += lanes) sum.add(a + i, b + i);
  if (i < n) sum.add_first(a + i, b + i, n - i);
  return sum.fold();
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
