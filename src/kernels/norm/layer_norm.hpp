// Computes layer_norm: for each row the mean, the sum of squared deviations, and a pass that writes y.
#pragma once

#include <cstddef>

#include "kernels/norm/rows.hpp"
#include "kernels/norm/sums.hpp"
#include "kernels/norm/weights.hpp"

namespace {

template <class E>
[[gnu::always_inline]] inline rapt::Arithmetic<E> sum_of(const E *x, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  using batch = typename simd<A>::batch;
  const batch one(A(1));
  return sum_of_terms<A>(
      n, [&](auto part, std::size_t i) __attribute__((always_inline)) {
        return Factors<batch>{part.load(x + i), one};
      });
}

// Returns the sum of (x - mean)^2.
template <class E, class V>
[[gnu::always_inline]] inline rapt::Arithmetic<E> sum_of_deviations(const E *x, std::size_t n, V mean) {
  return sum_of_terms<rapt::Arithmetic<E>>(
      n, [&](auto part, std::size_t i) __attribute__((always_inline)) {
        const V d = part.keep(part.load(x + i) - mean);
        return Factors<V>{d, d};
      });
}

template <class E, bool has_bias, class W>
[[gnu::flatten, gnu::noinline]] void layer_norm_rows(const rapt::NormCall &call, W weights) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;
  const std::size_t cols = call.options.cols;
  const A eps = static_cast<A>(call.options.eps);
  const Columns<A> columns(cols);
  const E *bias = static_cast<const E *>(call.options.bias);
  each_norm_row<E>(
      call, [&](const E *x, E *y, const Writing<E> &writing) __attribute__((always_inline)) {
        const batch mean(columns.mean(sum_of(x, cols)));
        const batch root(inverse_root(columns.mean(sum_of_deviations(x, cols, mean)), eps));
        write_row(
            y, cols, writing, [&](auto part, std::size_t i) __attribute__((always_inline)) {
              const batch h = (part.load(x + i) - mean) * root;
              if constexpr (!has_bias) {
                return weights.times(part, i, h);
              } else if constexpr (W::is_given) {
                return S::fma(h, weights.template load<batch>(part, i), part.load(bias + i));
              } else {
                return h + part.load(bias + i);
              }
            });
      });
}

template <class E>
void layer_norm(const rapt::NormCall *call) {
  const auto run = [&](const auto &weights) {
    call->options.bias ? layer_norm_rows<E, true>(*call, weights) : layer_norm_rows<E, false>(*call, weights);
  };
  const E *weight = static_cast<const E *>(call->options.weight);
  weight ? run(Weights<E, Weight::plain>{weight}) : run(Weights<E, Weight::none>{weight});
}

}  // namespace
