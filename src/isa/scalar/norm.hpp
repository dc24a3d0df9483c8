// Implements the scalar reference of rms_norm, layer_norm and their gradients.
#pragma once

#include <cstddef>

#include "call/norm_call.hpp"
#include "contract/fused.hpp"
#include "contract/norm.hpp"
#include "contract/types.hpp"
#include "isa/scalar/dot.hpp"

namespace {

// Returns 1 / sqrt(mean + eps).
template <class A>
A inverse_root(A mean, double eps) {
  const A shifted = mean + static_cast<A>(eps);
  return 1 / rapt::square_root(shifted);
}

// Returns element i of the weight.
template <class E, class Options>
rapt::Arithmetic<E> weight_at(const Options &o, std::size_t i) {
  if (!o.weight) return 1;  // a product with 1 is exact
  const rapt::Arithmetic<E> w = rapt::widened(static_cast<const E *>(o.weight)[i]);
  return o.weight_plus_one ? w + 1 : w;
}

// Returns the elements of row r to normalise, after it has added x to the residual.
template <class E>
const E *norm_input(const rapt::NormCall &call, std::size_t r) {
  const rapt_norm_options &o = call.options;
  const E *x = static_cast<const E *>(call.x) + static_cast<std::ptrdiff_t>(r) * o.x_stride;
  if (!o.residual) return x;
  E *residual = static_cast<E *>(o.residual) + static_cast<std::ptrdiff_t>(r) * o.residual_stride;
  for (std::size_t i = 0; i < o.cols; ++i) {
    residual[i] = rapt::narrowed<E>(rapt::widened(x[i]) + rapt::widened(residual[i]));
  }
  return residual;
}

template <class E>
void rms_norm(const rapt::NormCall *call) {
  using A = rapt::Arithmetic<E>;
  const rapt_norm_options &o = call->options;
  for (std::size_t r = 0; r < o.rows; ++r) {
    const E *x = norm_input<E>(*call, r);
    E *y = static_cast<E *>(call->y) + static_cast<std::ptrdiff_t>(r) * o.y_stride;
    const A root = inverse_root(dot(x, x, o.cols) / static_cast<A>(o.cols), o.eps);
    if (o.rstd) static_cast<A *>(o.rstd)[r] = root;
    for (std::size_t i = 0; i < o.cols; ++i) {
      y[i] = rapt::narrowed<E>((rapt::widened(x[i]) * root) * weight_at<E>(o, i));
    }
  }
}

// Holds what layer_norm finds out about a row. The letters are those of contract/norm.hpp.
template <class E>
struct Deviations {
  using A = rapt::Arithmetic<E>;
  const E *x;
  A c, rest, root, k;  // rest: l + m

  Deviations(const E *row, std::size_t n, double eps) : x(row) {
    const A p = at(0), count = static_cast<A>(n);
    const auto one = [](std::size_t) { return A(1); };
    const A a = sum_of_products<A>(
                    n, [&](std::size_t i) { return at(i) - p; }, one) /
                count;
    c = p + a;
    const A l = (p - c) + a;
    const auto d = [&](std::size_t i) { return (at(i) - c) - l; };
    const A m = sum_of_products<A>(n, d, one) / count;
    const A mean_square = sum_of_products<A>(n, d, d) / count;
    root = inverse_root(fused(-m, m, mean_square), eps);
    rest = l + m;
    k = rest * root;
  }
  // The statistics of row r that a forward call has written.
  Deviations(const E *row, const rapt_norm_backward_options &o, std::size_t r)
      : x(row),
        c(static_cast<const A *>(o.mean)[r]),
        rest(o.mean_rest ? static_cast<const A *>(o.mean_rest)[r] : A(0)),
        root(static_cast<const A *>(o.rstd)[r]),
        k(rest * root) {}
  A at(std::size_t i) const { return rapt::widened(x[i]); }
  A normal(std::size_t i) const { return fused(at(i) - c, root, -k); }
};

template <class E>
void layer_norm(const rapt::NormCall *call) {
  using A = rapt::Arithmetic<E>;
  const rapt_norm_options &o = call->options;
  const E *bias = static_cast<const E *>(o.bias);
  for (std::size_t r = 0; r < o.rows; ++r) {
    const Deviations<E> row(norm_input<E>(*call, r), o.cols, o.eps);
    if (o.rstd) static_cast<A *>(o.rstd)[r] = row.root;
    if (o.mean) static_cast<A *>(o.mean)[r] = row.c;
    if (o.mean_rest) static_cast<A *>(o.mean_rest)[r] = row.rest;
    E *y = static_cast<E *>(call->y) + static_cast<std::ptrdiff_t>(r) * o.y_stride;
    for (std::size_t i = 0; i < o.cols; ++i) {
      const A h = row.normal(i), w = weight_at<E>(o, i);
      y[i] = rapt::narrowed<E>(bias ? fused(h, w, rapt::widened(bias[i])) : h * w);
    }
  }
}

// Sets the gradients of weight and bias to 0, unless they are added to.
template <class A>
void begin_sums(const rapt_norm_backward_options &o) {
  for (void *const sums : {o.dweight, o.dbias}) {
    for (std::size_t i = 0; sums && !o.accumulate && i < o.cols; ++i) static_cast<A *>(sums)[i] = 0;
  }
}

template <class A>
void rms_norm_backward(const rapt::NormBackwardCall *call) {
  const rapt_norm_backward_options &o = call->options;
  begin_sums<A>(o);
  for (std::size_t r = 0; r < o.rows; ++r) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(r);
    const A *x = static_cast<const A *>(call->x) + row * o.x_stride;
    const A *dy = static_cast<const A *>(call->dy) + row * o.dy_stride;
    A *dx = static_cast<A *>(call->dx) + row * o.dx_stride, *dweight = static_cast<A *>(o.dweight);
    const A root = o.rstd ? static_cast<const A *>(o.rstd)[r]
                          : inverse_root(dot(x, x, o.cols) / static_cast<A>(o.cols), o.eps);
    const auto g = [&](std::size_t i) { return dy[i] * weight_at<A>(o, i); };
    const A c = sum_of_products<A>(o.cols, g, [&](std::size_t i) { return x[i]; });
    const A k = ((root * root) * c) / static_cast<A>(o.cols);
    for (std::size_t i = 0; i < o.cols; ++i) {
      const A result = root * fused(-x[i], k, g(i));
      if (dweight) dweight[i] = fused(dy[i], x[i] * root, dweight[i]);
      dx[i] = result;
    }
  }
}

template <class A>
void layer_norm_backward(const rapt::NormBackwardCall *call) {
  const rapt_norm_backward_options &o = call->options;
  begin_sums<A>(o);
  const A n = static_cast<A>(o.cols);
  for (std::size_t r = 0; r < o.rows; ++r) {
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(r);
    const A *const elements = static_cast<const A *>(call->x) + row * o.x_stride;
    const Deviations<A> x = o.rstd ? Deviations<A>(elements, o, r) : Deviations<A>(elements, o.cols, o.eps);
    const A *dy = static_cast<const A *>(call->dy) + row * o.dy_stride;
    A *dx = static_cast<A *>(call->dx) + row * o.dx_stride, *dweight = static_cast<A *>(o.dweight),
      *dbias = static_cast<A *>(o.dbias);
    const auto g = [&](std::size_t i) { return dy[i] * weight_at<A>(o, i); };
    const auto h = [&](std::size_t i) { return x.normal(i); };
    const A j = sum_of_products<A>(o.cols, g, [](std::size_t) { return A(1); }) / n;
    const A k = sum_of_products<A>(o.cols, g, h) / n;
    for (std::size_t i = 0; i < o.cols; ++i) {
      const A normal = h(i), result = x.root * fused(-normal, k, g(i) - j);
      if (dweight) dweight[i] = fused(dy[i], normal, dweight[i]);
      if (dbias) dbias[i] = dbias[i] + dy[i];
      dx[i] = result;
    }
  }
}

}  // namespace
