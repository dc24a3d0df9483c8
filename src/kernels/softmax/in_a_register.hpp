// Computes softmax of rows that fit in a register, one by one. Each row's division must wait for its sum, so
// calls of 4 or more rows use in_registers.hpp instead.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/softmax/by_rows.hpp"
#include "kernels/softmax/quotient.hpp"
#include "kernels/softmax/softmax_call.hpp"
#include "kernels/softmax/without_max.hpp"

namespace {

// call.plan must be simple(): scores are the elements, and every row sees all columns.
template <class A>
[[gnu::noinline, gnu::flatten]] void softmax_in_a_register(const SoftmaxCall<A> &call, const A *x, A *y) {
  using S = simd<A>;
  using D = simd<double>;
  const rapt::SoftmaxRows &rows = call.plan.rows;
  ExpWithoutMax<A> exp_of(call.k);
  for (std::size_t r = 0; r < rows.rows; ++r, x += rows.x_stride, y += rows.y_stride) {
    typename S::batch v[1] = {S::load_first(x, rows.cols)};
    exp_of.forget();
    if (!exp_of(v)) [[unlikely]] {
      softmax_by_rows(call, x, y, r, r + 1);
      continue;
    }
    const typename S::batch e = S::keep_first(v[0], rows.cols);
    double sum;
    if constexpr (std::is_same_v<A, double>) {
      sum = D::fold(e);
    } else {
      sum = D::fold(S::template widened<0>(e) + S::template widened<1>(e));
    }
    const Reciprocal<A> reciprocal(sum);
    S::store_first(y, PlainQuotient<A>(reciprocal.high, reciprocal.low)(e), rows.cols);
  }
}

}  // namespace
