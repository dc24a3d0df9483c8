// Computes rms_norm: for each row a sum of squares, and a pass that writes y.
#pragma once

#include <cstddef>

#include "kernels/norm/rows.hpp"
#include "kernels/norm/sums.hpp"
#include "kernels/norm/weights.hpp"

namespace {

template <class E, class W>
[[gnu::flatten, gnu::noinline]] void rms_norm_rows(const rapt::NormCall &call, const W &weights) {
  using A = rapt::Arithmetic<E>;
  using batch = typename simd<A>::batch;
  const std::size_t cols = call.options.cols;
  const A n = static_cast<A>(cols), eps = static_cast<A>(call.options.eps);
  each_norm_row<E>(
      call, [&](const E *x, E *y) __attribute__((always_inline)) {
        const batch root(inverse_root(sum_of_squares(x, cols), n, eps));
        write_row(
            y, cols, [&](auto part, std::size_t i) __attribute__((always_inline)) {
              return weights.times(part, i, part.load(x + i) * root);
            });
      });
}

template <class E>
void rms_norm(const rapt::NormCall *call) {
  with_weights<E>(call->options, [&](const auto &weights) { rms_norm_rows<E>(*call, weights); });
}

}  // namespace
