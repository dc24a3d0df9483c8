// Computes rms_norm: for each row a sum of squares, and a pass that writes y.
#pragma once

#include <cstddef>

#include "kernels/norm/rows.hpp"
#include "kernels/norm/sums.hpp"
#include "kernels/norm/weights.hpp"
#include "kernels/vector/inner.hpp"

namespace {

template <class E, class W>
[[gnu::flatten, gnu::noinline]] void rms_norm_rows(const rapt::NormCall &call, W weights) {
  using A = rapt::Arithmetic<E>;
  using batch = typename simd<A>::batch;
  const std::size_t cols = call.options.cols;
  const A eps = static_cast<A>(call.options.eps);
  const Columns<A> columns(cols);
  A *rstd = static_cast<A *>(call.options.rstd);
  const auto root_of = [&](const E *x)
                           RAPT_INNER { return inverse_root(columns.mean(sum_of_squares(x, cols)), eps); };
  each_norm_row<E>(call, root_of, [&](const E *x, E *y, const Writing<E> &writing, A of_row) RAPT_INNER {
    if (rstd) *rstd++ = of_row;
    const batch root(of_row);
    write_row(y, cols, writing, [&](auto part, std::size_t i) RAPT_INNER {
      return weights.times(part, i, part.load(x + i) * root);
    });
  });
}

template <class E>
void rms_norm(const rapt::NormCall *call) {
  with_weights<E>(call->options, [&](const auto &weights) { rms_norm_rows<E>(*call, weights); });
}

}  // namespace
