// softmax: shape, options and size of the output choose a way; the bits do not depend on it.
//
//   a vector's columns or less        groups of rows, each in a register or in half of one
//   up to 256 columns                 groups of rows by way of a buffer
//   up to 131072 columns              row by row
//   more                              maximum and sum in one pass, then the probabilities: x is read twice
//   16 MiB of output, not in place    the two ways above, with non-temporal stores
//
// Each way tries rows without their maximum first (window.hpp), but not rows with a softcap, whose tanh costs
// more than all else: in the window they take .99 to 1.13 of the time. A vector costs in AVX-512, in
// operations:
//
//   rows                                                 | maximum | exponential | sum | quotient
//   without a maximum                                    | 0       | 11.5        | 2.5 | 2
//   by their maxima, of scores that lie close together   | 2       | 12          | 2.5 | 2
//   by their maxima                                      | 2       | 13          | 2.5 | 4
//
// Variants that lost, of rows of 512 and 1024 columns in L1:
//
//   variant                                        | time, relative
//   the row before divided beside this one         | 1.00 to 1.03
//   f32 lanes become f64 by way of memory          | 1.04
//   exponentials taken before the test             | 1.09
//   quotient by the rounded reciprocal alone       | saves an operation, but a row of one element is not 1
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
  const bool is_masked = call.plan.masked_only();
  // In place, scores with a bias would replace the elements of rows that turn out to need a maximum.
  const bool is_biased = call.plan.biased() && x != y;
  const bool without_max = WindowExp<A>::serves(call.k) && (is_plain || is_masked || is_biased);
  // Groups expect a bias to exclude elements, which row by row is found out: 1.2 times as fast at 256
  // columns.
  const bool alone = output_is_scratch<E> && without_max && is_biased && !rows->options.mask &&
                     rows->cols >= 2 * rapt::sum_block;
  if (rows->cols > longest_group_row || rows->rows < 4 || rows->options.sinks || alone) {
    if (is_plain && goes_past_caches(x, y, rows->rows * rows->cols)) {
      without_max && !rows->options.sinks ? softmax_past_caches_by_window(call, x, y)
                                          : softmax_past_caches(call, x, y, 0, rows->rows);
      S::end_streaming();
    } else if (output_is_scratch<E> && without_max) {
      if constexpr (output_is_scratch<E>) {
        is_plain    ? softmax_by_window<PlainWindow>(call, x, y)
        : is_masked ? softmax_by_window<MaskedWindow>(call, x, y)
                    : softmax_by_window<BiasedWindow>(call, x, y);
      }
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
