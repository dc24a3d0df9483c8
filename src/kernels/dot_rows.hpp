// Computes the dot products of a query with many rows.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/dot.hpp"
#include "kernels/vector/inner.hpp"
#include "machine/questions.hpp"

namespace {

// Multiplies `together` rows, which share each load of the query, and folds each row's lanes to one register.
// The number of registers limits `together`.
template <std::size_t together, class E, class Batch>
RAPT_INNER inline void dot_together(const E *query, const E *const *row, std::size_t dim, Batch *folded) {
  using Lanes = LanesForDot<E>;
  Lanes sum[together];
  const auto each = [](auto step) RAPT_INNER { unroll<together>(step); };
  each([&](std::size_t j) RAPT_INNER { sum[j].clear(); });
  std::size_t i = 0;
  for (; dim - i >= Lanes::lanes; i += Lanes::lanes) {
    each([&](std::size_t j) RAPT_INNER { sum[j].add(query + i, row[j] + i); });
  }
  each([&](std::size_t j) RAPT_INNER {
    if (i == dim) {
      folded[j] = sum[j].folded();
    } else {
      auto &in_order = sum[j].in_order();
      in_order.add_first(query + i, row[j] + i, dim - i);
      folded[j] = in_order.folded();
    }
  });
}

// dot_in_passes does the work of dot_together for levels that have registers for only one row's accumulators.
// `passes` rows share each load of the query. A pass uses only every fourth accumulator register of a row, or
// two of every four if there are two passes. The table lists the registers of each pass:
//
//   AVX2, f32, ns per row of | 128 in L1 | 128 in L2 | 512 in L1 | 768 in L2 | 128 in memory
//   one row, one pass        | 4.9       | 6.4       | 17.1      | 35        | 29
//   0, then 2, then 1, 3     | 4.5       | 5.7       | 15.5      | 34        | 31
//   0 1, then 2 3            | 4.5       | 6.1       | 14.6      | 31        | 36
//   0 2, then 1 3            | 4.8       | 5.7       | 17.1      | 32        | 29
//   0 3, then 2 1 (this one) | 4.6       | 5.7       | 14.6      | 30        | 29
//
// The last variant reads every cache line in the first pass, as the prefetchers expect. It also reads both
// halves of lines equally often, which uses the banks of L1 evenly.
template <class S>
concept TakesRowsInPasses = S::dot_rows_passes == 2 || S::dot_rows_passes == 4;
// Rows of up to this many elements stay in L1 from one pass to the next.
template <class S>
inline constexpr std::size_t most_in_passes = 8192 / sizeof(typename S::batch::value_type);
template <std::size_t passes>
inline constexpr std::size_t quarters_in_order[4] = {0, 2, 1, 3};
template <>
inline constexpr std::size_t quarters_in_order<2>[4] = {0, 3, 2, 1};

template <std::size_t passes, class E, class Batch>
RAPT_INNER inline void dot_in_passes(const E *query, const E *const *row, std::size_t dim, Batch *folded) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  constexpr std::size_t lanes = DotLanes<A>::lanes, registers = DotLanes<A>::registers / 4;
  constexpr std::size_t quarters = 4 / passes;
  const auto each_row = [](auto step) RAPT_INNER { unroll<passes>(step); };
  Batch total[passes][4];
  unroll<passes>([&](auto pass) RAPT_INNER {
    const auto quarter = [=](auto q) { return quarters_in_order<passes>[pass * quarters + q]; };
    const auto each = [&](auto step) RAPT_INNER {
      unroll<registers * quarters>([&](auto k) RAPT_INNER {
        constexpr std::size_t r = k / quarters;
        constexpr std::integral_constant<std::size_t, k % quarters> q;
        step(std::integral_constant<std::size_t, r>{}, q, (4 * r + quarter(q)) * S::width);
      });
    };
    Batch sum[passes][quarters][registers];
    each([&](std::size_t r, std::size_t q, std::size_t)
             RAPT_INNER { each_row([&](std::size_t j) RAPT_INNER { sum[j][q][r] = Batch(A(0)); }); });
    std::size_t i = 0;
    for (; dim - i >= lanes; i += lanes) {
      each([&](std::size_t r, std::size_t q, std::size_t at) RAPT_INNER {
        const Batch factor = S::load(query + i + at);
        each_row([&](std::size_t j)
                     RAPT_INNER { sum[j][q][r] = S::fma(factor, S::load(row[j] + i + at), sum[j][q][r]); });
      });
    }
    if (i < dim) {
      each([&](std::size_t r, std::size_t q, std::size_t at) RAPT_INNER {
        if (i + at >= dim) return;
        const std::size_t left = dim - i - at;
        const Batch factor = S::load_first(query + i + at, left);
        each_row([&](std::size_t j) RAPT_INNER {
          sum[j][q][r] = S::fma(factor, S::load_first(row[j] + i + at, left), sum[j][q][r]);
        });
      });
      each_row([&](std::size_t j) RAPT_INNER {
        if constexpr (pass == 0) sum[j][0][0] = sum[j][0][0] + Batch(A(0));  // turns -0 into +0
      });
    }
    // Adds the four quarters in the order of a fold by halves: (0 + 2) + (1 + 3).
    each_row([&](std::size_t j) RAPT_INNER {
      unroll<quarters>([&](std::size_t q) RAPT_INNER { total[j][quarter(q)] = fold_registers(sum[j][q]); });
      if constexpr (pass == passes / 2) total[j][0] = total[j][0] + total[j][2];
    });
  });
  each_row([&](std::size_t j) RAPT_INNER { folded[j] = total[j][0] + (total[j][1] + total[j][3]); });
}

// Says whether four rows are read together, in passes (dot_in_passes), or one after the other.
enum class RowOrder { together, in_passes, one_by_one };

// Multiplies four rows, `row_stride` elements apart. Folding their lanes together takes half as many shuffles
// as folding each row.
template <RowOrder order, class E, class A>
RAPT_INNER inline void dot_four_rows(const E *query, const E *rows, std::ptrdiff_t row_stride,
                                     std::size_t dim, A scale, A *out) {
  using S = simd<A>;
  typename S::batch folded[4];
  const E *row[4];
  unroll<4>([&](std::size_t j) RAPT_INNER { row[j] = rows + static_cast<std::ptrdiff_t>(j) * row_stride; });
  if constexpr (order == RowOrder::in_passes) {
    constexpr std::size_t passes = S::dot_rows_passes;
    unroll<4 / passes>([&](std::size_t part) RAPT_INNER {
      dot_in_passes<passes>(query, row + part * passes, dim, folded + part * passes);
    });
  } else {
    constexpr std::size_t together = order == RowOrder::together ? S::dot_rows_together : 1;
    unroll<4 / together>([&](std::size_t part) RAPT_INNER {
      dot_together<together>(query, row + part * together, dim, folded + part * together);
    });
  }
  S::store_scaled_folds(out, scale, folded[0], folded[1], folded[2], folded[3]);
}

// dot_row_fours and dot_row_quarters are separate, because in one function gcc 12 keeps less in registers.
template <RowOrder order, class E, class A>
[[gnu::flatten, gnu::noinline]] void dot_row_fours(const E *query, const E *rows, std::ptrdiff_t row_stride,
                                                   std::size_t row_count, std::size_t dim, A scale, A *out) {
  for (; row_count >= 4; row_count -= 4, rows += 4 * row_stride, out += 4) {
    dot_four_rows<order>(query, rows, row_stride, dim, scale, out);
  }
}

// Multiplies four rows at a time, one from each quarter of the matrix, because the core's prefetchers follow
// one stream of lines per page.
//
//   Sapphire Rapids, AVX-512, GB/s in memory | dim 64 | 128  | 768  | f16, 128 | bf16, 128
//   four rows side by side                   | 12.4   | 13.4 | 16.0 | 9.6      | 14.2
//   one after the other                      | 12.8   | 13.2 | 16.1 |          |
//   the same, fetching lines 8 KB ahead      | 14.1   | 13.8 | 14.3 |          |
//   four quarters (this one)                 | 15.4   | 16.3 | 17.3 | 14.5     | 14.9
//
// This is 3 to 9 % slower for a matrix that stays in L2. If the matrix has 256 KB or more and comes from L3
// or memory, as in a model, it is 3 to 9 % faster. In L2 it is 20 % slower than passes, so levels with passes
// use it only beyond L2.
template <RowOrder order, class E, class A>
[[gnu::flatten, gnu::noinline]] void dot_row_quarters(const E *query, const E *rows,
                                                      std::ptrdiff_t row_stride, std::size_t quarter,
                                                      std::size_t dim, A scale, A *out) {
  const std::ptrdiff_t apart = static_cast<std::ptrdiff_t>(quarter) * row_stride;
  for (std::size_t r = 0; r < quarter; ++r, rows += row_stride) {
    A four[4];
    dot_four_rows<order>(query, rows, apart, dim, scale, four);
    for (std::size_t i = 0; i < 4; ++i) out[r + i * quarter] = four[i];
  }
}

// A matrix of up to this many elements stays in L1.
template <class E>
inline constexpr std::size_t most_in_l1 = (std::size_t{32} << 10) / sizeof(E);
template <class E, class S>
inline constexpr std::size_t most_side_by_side = (TakesRowsInPasses<S> ? std::size_t{2} << 20
                                                                       : std::size_t{256} << 10) /
                                                 sizeof(E);

template <class E>
void dot_rows(const E *query, const E *rows, std::ptrdiff_t row_stride, std::size_t row_count,
              std::size_t dim, rapt::Arithmetic<E> scale, rapt::Arithmetic<E> *out) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  std::size_t r = 0;
  if (dim <= rapt::dot_stretch<A>) {
    r = row_count - row_count % 4;
    const std::size_t elements = row_count * dim;
    if (elements > most_in_l1<E> && rapt_reads_rows_one_by_one()) {
      dot_row_fours<RowOrder::one_by_one>(query, rows, row_stride, row_count, dim, scale, out);
    } else if (elements > most_side_by_side<E, S>) {
      dot_row_quarters<RowOrder::together>(query, rows, row_stride, row_count / 4, dim, scale, out);
    } else if (TakesRowsInPasses<S> && !std::is_same_v<E, rapt::BF16> && dim <= most_in_passes<S>) {
      // In bf16, each loaded word of a row needs two FMAs, so sharing the query's loads would save little.
      if constexpr (TakesRowsInPasses<S>) {
        dot_row_fours<RowOrder::in_passes>(query, rows, row_stride, row_count, dim, scale, out);
      }
    } else {
      dot_row_fours<RowOrder::together>(query, rows, row_stride, row_count, dim, scale, out);
    }
    rows += static_cast<std::ptrdiff_t>(r) * row_stride;
  }
  for (; r < row_count; ++r, rows += row_stride) out[r] = scale * dot(query, rows, dim);
}

}  // namespace
