// softmax: shape, options and size of the output choose a way; the bits do not depend on it.
//
//   a vector's columns or less        groups of rows, each in a register or in half of one
//   up to 256 columns                 groups of rows by way of a buffer
//   up to 131072 columns              row by row, the passes of neighbours interleaved
//   more                              maximum and sum in one pass, then the probabilities: x is read twice
//   16 MiB of output, not in place    the two ways above, with non-temporal stores
//
// A vector costs 1 + 14 + 4 operations in AVX-512 (maximum; exponential and sum; quotient), 1.5 + 14 + 5 in
// AVX2. The second pass runs at 7.8 cycles per vector where its 14 operations need 7. The scheduler holds 7
// of its chains; two ports of latency 4 ask for 8. Variants that lost:
//
//   quotient by the reciprocal alone            | saves 2 operations, but a row of one element would not be 1
//   sum of exponentials, four lanes to a tree   | 1.5 times as long
//   next vectors' reductions started early      | 7.5 to 8.1 cycles per vector
//   four chains interleaved by hand             | 11 cycles per vector, by spills
#pragma once

#include <cstddef>

#include "kernels/softmax/by_groups.hpp"
#include "kernels/softmax/by_rows.hpp"
#include "kernels/softmax/by_window.hpp"
#include "kernels/softmax/in_registers.hpp"
#include "kernels/softmax/past_caches.hpp"
#include "kernels/vector/simd.hpp"

namespace {

template <class E>
void softmax(const E *x, E *y, const rapt::SoftmaxRows *rows) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  const SoftmaxCall<A> call(*rows);
  const bool simple = call.plan.simple();
  const bool is_plain = call.plan.plain();
  const bool without_max =
      (is_plain || call.plan.masked_only()) && !rows->options.sinks && WindowExp<A>::serves(call.k);
  // Groups of rows that differ know no window: each row of its own in the window is faster, if it is longer than a
  // register.
  const bool alone = output_is_scratch<E> && without_max && !simple && rows->cols > S::width;
  if (rows->cols > longest_group_row || rows->rows < 4 || rows->options.sinks || alone) {
    if (is_plain && goes_past_caches(x, y, rows->rows * rows->cols)) {
      without_max ? softmax_past_caches_by_window(call, x, y)
                  : softmax_past_caches(call, x, y, 0, rows->rows);
      S::end_streaming();
    } else if (output_is_scratch<E> && without_max) {
      if constexpr (output_is_scratch<E>) softmax_by_window(call, x, y);
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
