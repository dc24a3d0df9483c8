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
  each_norm_row<E>(call, [&](const E *x, E *y, const Writing<E> &writing) RAPT_INNER {
    const batch root(inverse_root(columns.mean(sum_of_squares(x, cols)), eps));
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
