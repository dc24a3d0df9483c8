// softmax: which way is taken depends on the shape, the options and, past the caches, on the size of the
// output; the bits do not depend on the way.
//
//   a register's columns or less      groups of rows, each in a register (or in half of one)
//   up to 256 columns                 groups of rows by way of a buffer
//   up to 131072 columns              row by row, the passes of neighbours interleaved
//   more                              maximum and sum in one pass, then the probabilities: x is read twice
//   16 MiB of output, not in place    as the two before, written past the caches
//
// A vector costs 1 + 14 + 4 operations in AVX-512 (maximum; exponential and sum; quotient), 1.5 + 14 + 5 in
// AVX2. A quotient by the reciprocal alone would save 2, and the row of one element would not be 1. Summing
// exponentials four lanes to a tree lost 1.5x. The second pass runs at 7.8 cycles a vector where its 14
// operations need 7: the scheduler holds 7 chains of it, of the 8 that two ports of latency 4 ask for;
// starting the next vectors' reductions early, in registers, gained nothing (7.5 to 8.1), four chains
// interleaved by hand spilled (11).
#pragma once

#include <cstddef>

#include "kernels/softmax/by_groups.hpp"
#include "kernels/softmax/by_rows.hpp"
#include "kernels/vector/simd.hpp"

namespace {

template <class T>
void softmax(const T *x, T *y, const rapt::SoftmaxRows *rows) {
  using S = simd<T>;
  const SoftmaxCall<T> call(*rows);
  const bool simple = call.plan.simple();
  if (rows->cols > SoftmaxGroup<T, true>::longest_row || rows->rows < 4 || rows->options.sinks) {
    if (call.plan.plain() && goes_past_caches(x, y, rows->rows * rows->cols)) {
      softmax_past_caches(call, x, y);
    } else {
      softmax_by_rows(call, x, y, 0, rows->rows);
    }
  } else if (rows->cols > S::width) {
    simple ? softmax_by_groups<true>(call, x, y) : softmax_by_groups<false>(call, x, y);
  } else {
    if constexpr (JoinsHalves<S>) {
      if (rows->cols <= S::width / 2) {
        return simple ? softmax_in_registers<true, 2>(call, x, y)
                      : softmax_in_registers<false, 2>(call, x, y);
      }
    }
    simple ? softmax_in_registers<true, 1>(call, x, y) : softmax_in_registers<false, 1>(call, x, y);
  }
}

}  // namespace
