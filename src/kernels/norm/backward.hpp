// Computes the gradients of rms_norm and layer_norm: the sums of each row again, unless the call has its statistics,
// and a pass that writes dx and adds to the gradients of weight and bias.
#pragma once

#include <cstddef>

#include "call/norm_call.hpp"
#include "kernels/norm/layer_norm.hpp"
#include "kernels/norm/sums.hpp"
#include "kernels/norm/weights.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Sets the gradients of weight and bias to 0, unless they are added to.
template <class A>
RAPT_INNER inline void begin_sums(const rapt_norm_backward_options &o) {
  A *const arrays[] = {static_cast<A *>(o.dweight), static_cast<A *>(o.dbias)};
  for (A *const sums : arrays) {
    for (std::size_t i = 0; sums && !o.accumulate && i < o.cols; ++i) sums[i] = 0;
  }
}

// Calls f(x, dy, dx) for each row.
template <class A, class F>
RAPT_INNER inline void each_gradient_row(const rapt::NormBackwardCall &call, const F &f) {
  const rapt_norm_backward_options &o = call.options;
  const A *x = static_cast<const A *>(call.x), *dy = static_cast<const A *>(call.dy);
  A *dx = static_cast<A *>(call.dx);
  for (std::size_t r = 0; r < o.rows; ++r, x += o.x_stride, dy += o.dy_stride, dx += o.dx_stride)
    f(x, dy, dx);
}

template <class A, class W>
[[gnu::flatten, gnu::noinline]] void rms_norm_gradients(const rapt::NormBackwardCall &call, W weights) {
  using S = simd<A>;
  using batch = typename S::batch;
  const rapt_norm_backward_options &o = call.options;
  const A eps = static_cast<A>(o.eps);
  const Columns<A> columns(o.cols);
  A *const dweight = static_cast<A *>(o.dweight);
  const A *rstd = static_cast<const A *>(o.rstd);
  each_gradient_row<A>(call, [&](const A *x, const A *dy, A *dx) RAPT_INNER {
    const A r = rstd ? *rstd++ : inverse_root(columns.mean(sum_of_squares(x, o.cols)), eps);
    const A c = sum_of_terms<A>(o.cols, [&](auto part, std::size_t i) RAPT_INNER {
      return Factors<batch>{part.keep(weights.times(part, i, part.load(dy + i))), part.load(x + i)};
    });
    const batch root(r), k(columns.mean((r * r) * c));
    each_vector<A>(o.cols, [&](auto part, std::size_t i) RAPT_INNER {
      const batch element = part.load(x + i), gradient = part.load(dy + i);
      const batch result = root * S::fnma(element, k, weights.times(part, i, gradient));
      if (dweight) part.store(dweight + i, S::fma(gradient, element * root, part.load(dweight + i)));
      part.store(dx + i, result);
    });
  });
}

template <class A, class W>
[[gnu::flatten, gnu::noinline]] void layer_norm_gradients(const rapt::NormBackwardCall &call, W weights) {
  using S = simd<A>;
  using batch = typename S::batch;
  const rapt_norm_backward_options &o = call.options;
  const A eps = static_cast<A>(o.eps);
  const Columns<A> columns(o.cols);
  A *const dweight = static_cast<A *>(o.dweight), *const dbias = static_cast<A *>(o.dbias);
  const batch one(A(1));
  const A *rstd = static_cast<const A *>(o.rstd), *mean = static_cast<const A *>(o.mean),
          *mean_rest = static_cast<const A *>(o.mean_rest);
  each_gradient_row<A>(call, [&](const A *x, const A *dy, A *dx) RAPT_INNER {
    const Normals<A> normals = rstd ? Normals<A>(*mean++, mean_rest ? *mean_rest++ : A(0), *rstd++)
                                    : Normals<A>(x, o.cols, eps, columns);
    const auto g = [&](auto part, std::size_t i)
                       RAPT_INNER { return part.keep(weights.times(part, i, part.load(dy + i))); };
    const auto h = [&](auto part, std::size_t i)
                       RAPT_INNER { return part.keep(normals.of(part.load(x + i))); };
    A sums[2];
    sums_of_terms(
        o.cols,
        [&](auto part, std::size_t i) RAPT_INNER {
          const batch gradient = g(part, i);
          return TwoFactors<batch>{{gradient, one}, {gradient, h(part, i)}};
        },
        sums);
    const batch j(columns.mean(sums[0])), k(columns.mean(sums[1]));
    each_vector<A>(o.cols, [&](auto part, std::size_t i) RAPT_INNER {
      const batch gradient = part.load(dy + i), normal = h(part, i);
      const batch result = normals.root() * S::fnma(normal, k, weights.times(part, i, gradient) - j);
      if (dweight) part.store(dweight + i, S::fma(gradient, normal, part.load(dweight + i)));
      if (dbias) part.store(dbias + i, part.load(dbias + i) + gradient);
      part.store(dx + i, result);
    });
  });
}

template <class A>
void rms_norm_backward(const rapt::NormBackwardCall *call) {
  begin_sums<A>(call->options);
  with_weights<A>(call->options, [&](const auto &weights) { rms_norm_gradients<A>(*call, weights); });
}

template <class A>
void layer_norm_backward(const rapt::NormBackwardCall *call) {
  begin_sums<A>(call->options);
  const A *weight = static_cast<const A *>(call->options.weight);
  if (weight) {
    layer_norm_gradients<A>(*call, Weights<A, Weight::plain>{weight});
  } else {
    layer_norm_gradients<A>(*call, Weights<A, Weight::none>{weight});
  }
}

}  // namespace
