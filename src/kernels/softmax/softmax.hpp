// Computes softmax in one of several ways, depending on the shape, the options and the output's size. All
// ways give the same bits.
//
//   up to one vector of columns       batches of rows that fit in a register or half of one, or single rows
//   up to 256 columns                 batches of rows, through a buffer
//   up to 131072 columns              row by row
//   more                              maximum and sum in one pass, then the probabilities: x is read twice
//   16 MiB of output, not in place    the two ways above, with non-temporal stores
//
// Each way first tries to compute rows without their maximum (without_max.hpp), except rows with a softcap.
// There tanh costs more than everything else, and leaving out the maximum takes .99 to 1.13 of the time. On
// AVX-512 a vector costs these operations:
//
//   rows                                                 | maximum | exponential | sum | quotient
//   without a maximum                                    | 0       | 11.5        | 2.5 | 2
//   with their maxima, of scores that are close together | 2       | 12          | 2.5 | 2
//   with their maxima                                    | 2       | 13          | 2.5 | 4
//
// Rejected variants, for rows of 512 and 1024 columns in L1:
//
//   variant                                        | time, relative
//   a row is divided while the next one is summed  | 1.00 to 1.03
//   f32 lanes become f64 through memory            | 1.04
//   exponentials computed before the test          | 1.09
//   quotient with only the rounded reciprocal      | saves an operation, but softmax of one element is not 1
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/softmax/by_rows.hpp"
#include "kernels/softmax/in_a_register.hpp"
#include "kernels/softmax/in_registers.hpp"
#include "kernels/softmax/past_caches.hpp"
#include "kernels/softmax/row_batches.hpp"
#include "kernels/softmax/rows_without_max.hpp"
#include "kernels/vector/simd.hpp"

namespace {

enum class SoftmaxWay {
  in_a_register,
  in_registers,
  row_batches,
  by_rows,
  without_max,
  past_caches,
  past_caches_without_max
};

// Chooses the way. in_a_register, in_registers and row_batches do not handle sinks.
template <class E, class A>
SoftmaxWay softmax_way(const SoftmaxCall<A> &call, const E *x, const E *y) {
  const ScorePlan<A> &plan = call.plan;
  const rapt::SoftmaxRows &rows = plan.rows;
  const bool has_sinks = rows.options.sinks != nullptr;
  // In place, biased scores would overwrite the row's elements, which are needed again if the row needs its
  // maximum.
  const bool is_biased = plan.biased() && x != y;
  const bool tries_without_max =
      ExpWithoutMax<A>::serves(call.k) && (plan.plain() || plan.masked_only() || is_biased);
  // Row batches must assume that a bias excludes elements. SoftmaxWay::without_max finds this out for each
  // row, which is 1.2 times as fast at 256 columns.
  const bool is_wide_with_bias = output_is_scratch<E> && tries_without_max && is_biased &&
                                 !rows.options.mask && rows.cols >= 2 * rapt::sum_block;
  if (rows.cols <= simd<A>::width && !has_sinks) {
    if (rows.rows >= 4) return SoftmaxWay::in_registers;
    if (std::is_same_v<E, A> && plan.simple() && tries_without_max) return SoftmaxWay::in_a_register;
  }
  if (rows.cols <= longest_batched_row && rows.rows >= 4 && !has_sinks && !is_wide_with_bias) {
    return SoftmaxWay::row_batches;
  }
  if (plan.plain() && goes_past_caches(x, y, rows.rows * rows.cols)) {
    return tries_without_max && !has_sinks ? SoftmaxWay::past_caches_without_max : SoftmaxWay::past_caches;
  }
  return output_is_scratch<E> && tries_without_max ? SoftmaxWay::without_max : SoftmaxWay::by_rows;
}

template <class E, class A>
void softmax_in_registers(const SoftmaxCall<A> &call, const E *x, E *y) {
  using S = simd<A>;
  const bool simple = call.plan.simple();
  if constexpr (JoinsHalves<S>) {
    if (call.plan.rows.cols <= S::width / 2) {
      return simple ? softmax_in_registers<true, 2>(call, x, y) : softmax_in_registers<false, 2>(call, x, y);
    }
  }
  simple ? softmax_in_registers<true, 1>(call, x, y) : softmax_in_registers<false, 1>(call, x, y);
}

template <class E, class A>
void softmax_without_max(const SoftmaxCall<A> &call, const E *x, E *y) {
  if constexpr (output_is_scratch<E>) {
    if (call.plan.plain()) return softmax_without_max<PlainRows>(call, x, y);
    if (call.plan.masked_only()) return softmax_without_max<MaskedRows>(call, x, y);
    softmax_without_max<BiasedRows>(call, x, y);
  }
}

template <class E>
void softmax(const E *x, E *y, const rapt::SoftmaxRows *rows) {
  using A = rapt::Arithmetic<E>;
  const SoftmaxCall<A> call(*rows);
  switch (softmax_way(call, x, y)) {
    case SoftmaxWay::in_a_register:
      if constexpr (std::is_same_v<E, A>) softmax_in_a_register(call, x, y);
      return;
    case SoftmaxWay::in_registers:
      return softmax_in_registers(call, x, y);
    case SoftmaxWay::row_batches:
      return call.plan.simple() ? softmax_by_row_batches<true>(call, x, y)
                                : softmax_by_row_batches<false>(call, x, y);
    case SoftmaxWay::by_rows:
      return softmax_by_rows(call, x, y, 0, rows->rows);
    case SoftmaxWay::without_max:
      return softmax_without_max(call, x, y);
    case SoftmaxWay::past_caches:
      softmax_past_caches(call, x, y, 0, rows->rows);
      return simd<A>::end_streaming();
    case SoftmaxWay::past_caches_without_max:
      if (rows->cols <= longest_kept_row<A>) {
        softmax_past_caches_without_max<true>(call, x, y);
      } else {
        softmax_past_caches_without_max<false>(call, x, y);
      }
      return simd<A>::end_streaming();
  }
}

}  // namespace
