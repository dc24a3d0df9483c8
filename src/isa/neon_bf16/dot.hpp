// Computes dot and dot_rows of bf16 with BFMLALB and BFMLALT. These instructions multiply the even and the
// odd elements of a vector of 8. The products go to 8 of the 64 lanes (contract/reductions.hpp). Eight
// products need two vector instructions. With FMLA they would need ten, eight of them for widening.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract/reductions.hpp"
#include "contract/types.hpp"
#include "isa/neon_bf16/simd.hpp"
#include "kernels/dot_lanes.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Holds eight of the 64 lanes: four even and four odd lanes.
struct HalfLanes {
  using S = simd<float>;
  using N = NeonBf16;
  using batch = S::batch;
  static constexpr std::size_t count = rapt::dot_lanes<float> / N::width;
  batch even, odd;

  RAPT_INNER void clear() { even = odd = batch(0.0f); }
  RAPT_INNER void add(N::Halves a, N::Halves b) {
    even = N::add_even(even, a, b);
    odd = N::add_odd(odd, a, b);
  }
  RAPT_INNER friend HalfLanes operator+(HalfLanes a, HalfLanes b) { return {a.even + b.even, a.odd + b.odd}; }
  RAPT_INNER void store(float *lanes_in_order) const {
    batch low = even, high = odd;
    S::interleave(low, high);
    S::store(lanes_in_order, low);
    S::store(lanes_in_order + S::width, high);
  }
  // Folds to four lanes: lane i plus lane i + 4.
  RAPT_INNER batch folded() const {
    batch low = even, high = odd;
    S::interleave(low, high);
    return low + high;
  }
};

// For each of `rows` rows, sums `count` HalfLanes: those with the numbers begin, begin + step and so on.
// Missing elements count as 0 * 0.
template <std::size_t begin, std::size_t step, std::size_t rows, std::size_t count>
RAPT_INNER inline void add_lanes(const rapt::BF16 *query, const rapt::BF16 *const (&row)[rows],
                                 std::size_t dim, HalfLanes (&sum)[rows][count]) {
  using N = NeonBf16;
  constexpr std::size_t lanes = rapt::dot_lanes<float>;
  const auto each = [](auto f) RAPT_INNER {
    unroll<count>([&](auto i) RAPT_INNER {
      f(i, std::integral_constant<std::size_t, (begin + i * step) * N::width>{});
    });
  };
  const auto add = [&](auto i, auto load) RAPT_INNER {
    const auto factors = load(query);
    unroll<rows>([&](std::size_t r) RAPT_INNER { sum[r][i].add(factors, load(row[r])); });
  };
  each([&](std::size_t i, auto)
           RAPT_INNER { unroll<rows>([&](std::size_t r) RAPT_INNER { sum[r][i].clear(); }); });
  std::size_t d = 0;
  for (; dim - d >= lanes; d += lanes) {
    each([&](std::size_t i, std::size_t at)
             RAPT_INNER { add(i, [&](const rapt::BF16 *p) RAPT_INNER { return N::load(p + d + at); }); });
  }
  if (d < dim) {
    each([&](std::size_t i, std::size_t at) RAPT_INNER {
      if (dim - d >= at + N::width) {
        add(i, [&](const rapt::BF16 *p) RAPT_INNER { return N::load(p + d + at); });
      } else if (dim - d > at) {
        add(i, [&](const rapt::BF16 *p) RAPT_INNER { return N::load_first(p + d + at, dim - d - at); });
      }
    });
    // Changes sums of -0 to +0, as adding a missing lane of +0 does in the contract's order.
    unroll<rows>([&](std::size_t r) RAPT_INNER { sum[r][0].even = sum[r][0].even + HalfLanes::batch(0.0f); });
  }
}

// Sums lanes by add_lanes(), and stores their folds to `folded`. dim is at most one stretch.
template <std::size_t rows, std::size_t count, std::size_t begin, std::size_t step>
RAPT_INNER inline void dot_lanes(const rapt::BF16 *query, const rapt::BF16 *const (&row)[rows],
                                 std::size_t dim, HalfLanes (&folded)[rows]) {
  HalfLanes sum[rows][count];
  add_lanes<begin, step>(query, row, dim, sum);
  unroll<rows>([&](std::size_t r) RAPT_INNER { folded[r] = fold_registers<HalfLanes, count>(sum[r]); });
}

// Computes dot() of more than one stretch of elements.
template <class E>
[[gnu::flatten, gnu::noinline]] float dot_long(const E *a, const E *b, std::size_t n) {
  return sum_of_stretches<float>(n, [=](std::size_t begin, std::size_t elements, float *lane) {
    const E *const row[1] = {b + begin};
    HalfLanes sum[1][HalfLanes::count];
    add_lanes<0, 1>(a + begin, row, elements, sum);
    unroll<HalfLanes::count>([&](std::size_t i) RAPT_INNER { sum[0][i].store(lane + i * NeonBf16::width); });
  });
}

template <class E>
[[gnu::flatten, gnu::noinline]] float dot(const E *a, const E *b, std::size_t n) {
  if (n == 0) return 0;  // the pointers may be invalid
  if (n > rapt::dot_stretch<float>) [[unlikely]]
    return dot_long(a, b, n);
  const E *const row[1] = {b};
  HalfLanes folded[1];
  dot_lanes<1, HalfLanes::count, 0, 1>(a, row, n, folded);
  return simd<float>::fold(folded[0].folded());
}

// Four rows share each load of the query. Each of four passes sums a quarter of the lanes, in 8 accumulators.
template <class E>
[[gnu::flatten]] void dot_rows(const E *query, const E *rows, std::ptrdiff_t row_stride,
                               std::size_t row_count, std::size_t dim, float scale, float *out) {
  using S = simd<float>;
  constexpr std::size_t passes = 4;
  std::size_t r = 0;
  for (; dim <= rapt::dot_stretch<float> && row_count - r >= 4; r += 4, rows += 4 * row_stride) {
    const E *const row[4] = {rows, rows + row_stride, rows + 2 * row_stride, rows + 3 * row_stride};
    HalfLanes folded[passes][4];
    unroll<passes>([&](auto pass) RAPT_INNER {
      dot_lanes<4, HalfLanes::count / passes, pass, passes>(query, row, dim, folded[pass]);
    });
    S::batch four[4];
    unroll<4>([&](std::size_t j) RAPT_INNER {
      four[j] = ((folded[0][j] + folded[2][j]) + (folded[1][j] + folded[3][j])).folded();
    });
    S::store_scaled_folds(out + r, scale, four[0], four[1], four[2], four[3]);
  }
  for (; r < row_count; ++r, rows += row_stride) out[r] = scale * dot(query, rows, dim);
}

}  // namespace

#define RAPT_FAMILY_dot(kernel) kernel
#include "kernels/part.hpp"
