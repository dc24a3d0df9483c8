// Functions of rows, and sums over dimensions.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <tuple>

#include "kernels.hpp"

namespace rapt_torch {
namespace {

constexpr std::int64_t grain = 1 << 14;  // elements that pay for a thread

std::int64_t rows_of_grain(std::int64_t cols) { return std::max<std::int64_t>(grain / cols, 1); }

using OfRows = rapt_status(const void *, void *, std::int64_t rows, std::int64_t cols, rapt_type);

// Calls a function such as rapt_softmax_f32() on rows without gaps.
template <class E>
rapt_status call(rapt_status (*function)(const E *, std::ptrdiff_t, E *, std::ptrdiff_t, std::size_t,
                                         std::size_t, const rapt_softmax_options *),
                 const void *x, void *y, std::int64_t rows, std::int64_t cols) {
  return function(static_cast<const E *>(x), cols, static_cast<E *>(y), cols, rows, cols, nullptr);
}

rapt_status softmax_rows(const void *x, void *y, std::int64_t rows, std::int64_t cols, rapt_type type) {
  switch (type) {
    case RAPT_F32:
      return call(rapt_softmax_f32, x, y, rows, cols);
    case RAPT_F64:
      return call(rapt_softmax_f64, x, y, rows, cols);
    case RAPT_F16:
      return call(rapt_softmax_f16, x, y, rows, cols);
    default:
      return call(rapt_softmax_bf16, x, y, rows, cols);
  }
}

rapt_status log_softmax_rows(const void *x, void *y, std::int64_t rows, std::int64_t cols, rapt_type type) {
  switch (type) {
    case RAPT_F32:
      return call(rapt_log_softmax_f32, x, y, rows, cols);
    case RAPT_F64:
      return call(rapt_log_softmax_f64, x, y, rows, cols);
    case RAPT_F16:
      return call(rapt_log_softmax_f16, x, y, rows, cols);
    default:
      return call(rapt_log_softmax_bf16, x, y, rows, cols);
  }
}

bool are_last_rows(const Tensor &x, std::int64_t dim) {
  return has_elements(x) && x.dim() > 0 && (dim == -1 || dim == x.dim() - 1) && x.is_contiguous();
}

Tensor of_rows(OfRows *function, const Tensor &x) {
  Tensor y = at::empty_like(x);
  const std::int64_t cols = x.size(-1), bytes = cols * static_cast<std::int64_t>(x.element_size());
  const char *from = static_cast<const char *>(x.const_data_ptr());
  char *to = static_cast<char *>(y.mutable_data_ptr());
  in_parallel(x.numel() / cols, rows_of_grain(cols), [&](std::int64_t first, std::int64_t last) {
    check(function(from + first * bytes, to + first * bytes, last - first, cols, type_of(x)));
  });
  return y;
}

Tensor softmax(const Tensor &x, std::int64_t dim, bool half_to_float) {
  static Counter counter("_softmax");
  if (!half_to_float && are_last_rows(x, dim)) {
    counter.add();
    return of_rows(softmax_rows, x);
  }
  static const InPython<Tensor(const Tensor &, std::int64_t, bool)> in_python("_softmax");
  return in_python(x, dim, half_to_float);
}

Tensor log_softmax(const Tensor &x, std::int64_t dim, bool half_to_float) {
  static Counter counter("_log_softmax");
  if (!half_to_float && are_last_rows(x, dim)) {
    counter.add();
    return of_rows(log_softmax_rows, x);
  }
  static const InPython<Tensor(const Tensor &, std::int64_t, bool)> in_python("_log_softmax");
  return in_python(x, dim, half_to_float);
}

using OfGradientRows = rapt_status(const void *y, const void *dy, void *dx, std::int64_t rows,
                                   std::int64_t cols, rapt_type);

// Calls a function such as rapt_softmax_backward_f32() on rows without gaps.
template <class E>
rapt_status call(rapt_status (*function)(const E *, std::ptrdiff_t, const E *, std::ptrdiff_t, E *,
                                         std::ptrdiff_t, std::size_t, std::size_t, E scale),
                 const void *y, const void *dy, void *dx, std::int64_t rows, std::int64_t cols) {
  return function(static_cast<const E *>(y), cols, static_cast<const E *>(dy), cols, static_cast<E *>(dx),
                  cols, rows, cols, 1);
}

rapt_status softmax_backward_rows(const void *y, const void *dy, void *dx, std::int64_t rows,
                                  std::int64_t cols, rapt_type type) {
  return type == RAPT_F32 ? call(rapt_softmax_backward_f32, y, dy, dx, rows, cols)
                          : call(rapt_softmax_backward_f64, y, dy, dx, rows, cols);
}

// rapt leaves an element of -inf out. PyTorch adds its dy to the sum. So does rapt for -1e30, whose e^y is 0 too.
template <class E>
rapt_status call_of_finite(rapt_status (*function)(const E *, std::ptrdiff_t, const E *, std::ptrdiff_t, E *,
                                                   std::ptrdiff_t, std::size_t, std::size_t, E scale),
                           const void *y, const void *dy, void *dx, std::int64_t rows, std::int64_t cols,
                           rapt_type type) {
  rapt_map_options clamp = RAPT_MAP_OPTIONS_INIT;
  clamp.function = RAPT_MAP_CLAMP;
  clamp.type = type;
  clamp.dims = 1;
  clamp.alpha = -1e30;
  clamp.beta = std::numeric_limits<double>::infinity();
  const std::int64_t step = rows_of_grain(cols);
  for (std::int64_t row = 0; row < rows; row += step) {
    const std::int64_t count = std::min(step, rows - row), place = row * cols;
    clamp.shape[0] = static_cast<std::size_t>(count * cols);
    void *const finite = workspace(clamp.shape[0] * sizeof(E));
    check(rapt_map(static_cast<const E *>(y) + place, nullptr, nullptr, finite, &clamp));
    check(call(function, finite, static_cast<const E *>(dy) + place, static_cast<E *>(dx) + place, count,
               cols));
  }
  return RAPT_OK;
}

rapt_status log_softmax_backward_rows(const void *y, const void *dy, void *dx, std::int64_t rows,
                                      std::int64_t cols, rapt_type type) {
  return type == RAPT_F32 ? call_of_finite(rapt_log_softmax_backward_f32, y, dy, dx, rows, cols, type)
                          : call_of_finite(rapt_log_softmax_backward_f64, y, dy, dx, rows, cols, type);
}

bool is_wide(const Tensor &x) { return x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble; }

bool are_gradient_rows(const Tensor &dy, const Tensor &y, std::int64_t dim, at::ScalarType type) {
  return is_wide(y) && type == y.scalar_type() && dy.scalar_type() == type && dy.sizes() == y.sizes() &&
         are_last_rows(y, dim) && dy.is_contiguous();
}

Tensor of_gradient_rows(OfGradientRows *function, const Tensor &dy, const Tensor &y) {
  Tensor dx = at::empty_like(y);
  const std::int64_t cols = y.size(-1), bytes = cols * static_cast<std::int64_t>(y.element_size());
  const char *from = static_cast<const char *>(y.const_data_ptr()),
             *of_y = static_cast<const char *>(dy.const_data_ptr());
  char *to = static_cast<char *>(dx.mutable_data_ptr());
  in_parallel(y.numel() / cols, rows_of_grain(cols), [&](std::int64_t first, std::int64_t last) {
    const std::int64_t place = first * bytes;
    check(function(from + place, of_y + place, to + place, last - first, cols, type_of(y)));
  });
  return dx;
}

Tensor softmax_backward(const Tensor &dy, const Tensor &y, std::int64_t dim, at::ScalarType type) {
  static Counter counter("_softmax_backward_data");
  if (are_gradient_rows(dy, y, dim, type)) {
    counter.add();
    return of_gradient_rows(softmax_backward_rows, dy, y);
  }
  static const InPython<Tensor(const Tensor &, const Tensor &, std::int64_t, at::ScalarType)> in_python(
      "_softmax_backward_data");
  return in_python(dy, y, dim, type);
}

Tensor log_softmax_backward(const Tensor &dy, const Tensor &y, std::int64_t dim, at::ScalarType type) {
  static Counter counter("_log_softmax_backward_data");
  if (are_gradient_rows(dy, y, dim, type)) {
    counter.add();
    return of_gradient_rows(log_softmax_backward_rows, dy, y);
  }
  static const InPython<Tensor(const Tensor &, const Tensor &, std::int64_t, at::ScalarType)> in_python(
      "_log_softmax_backward_data");
  return in_python(dy, y, dim, type);
}

// ---- layer_norm

using Parameter = std::optional<Tensor>;
using Normed = std::tuple<Tensor, Tensor, Tensor>;

bool is_none_or_row(const Parameter &p, const Tensor &x) {
  return !p || !p->defined() || (p->scalar_type() == x.scalar_type() && p->is_contiguous());
}

const void *data_of(const Parameter &p) { return p && p->defined() ? p->const_data_ptr() : nullptr; }

bool is_normed(const Tensor &x, at::IntArrayRef shape, const Parameter &weight) {
  const std::int64_t leading = x.dim() - static_cast<std::int64_t>(shape.size());
  return is_wide(x) && x.numel() > 0 && x.is_contiguous() && leading >= 0 &&
         x.sizes().slice(leading) == shape && is_none_or_row(weight, x);
}

std::int64_t columns(at::IntArrayRef shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// f32 and f64, whose statistics have the type of x.
Normed layer_norm(const Tensor &x, at::IntArrayRef shape, const Parameter &weight, const Parameter &bias,
                  double eps) {
  static Counter counter("native_layer_norm");
  const rapt_type type = type_of(x);
  const std::int64_t leading = x.dim() - static_cast<std::int64_t>(shape.size());
  if ((type == RAPT_F32 || type == RAPT_F64) && x.numel() > 0 && x.is_contiguous() && eps >= 0 &&
      leading >= 0 && x.sizes().slice(leading) == shape && is_none_or_row(weight, x) &&
      is_none_or_row(bias, x)) {
    counter.add();
    const std::int64_t cols =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    Tensor y = at::empty_like(x);
    at::DimVector of_statistics(x.sizes().begin(), x.sizes().end());
    std::fill(of_statistics.begin() + leading, of_statistics.end(), 1);
    Tensor mean = at::empty(of_statistics, x.options()), rstd = at::empty(of_statistics, x.options());
    const std::int64_t size = x.element_size();
    const char *from = static_cast<const char *>(x.const_data_ptr());
    char *to = static_cast<char *>(y.mutable_data_ptr());
    char *to_mean = static_cast<char *>(mean.mutable_data_ptr()),
         *to_rstd = static_cast<char *>(rstd.mutable_data_ptr());
    in_parallel(x.numel() / cols, rows_of_grain(cols), [&](std::int64_t first, std::int64_t last) {
      rapt_norm_options options = RAPT_NORM_OPTIONS_INIT;
      options.type = type_of(x);
      options.rows = last - first;
      options.cols = cols;
      options.eps = eps;
      options.weight = data_of(weight);
      options.bias = data_of(bias);
      options.mean = to_mean + first * size;
      options.rstd = to_rstd + first * size;
      check(rapt_layer_norm(from + first * cols * size, to + first * cols * size, &options));
    });
    return {y, mean, rstd};
  }
  static const InPython<Normed(const Tensor &, at::IntArrayRef, const Parameter &, const Parameter &, double)>
      in_python("native_layer_norm");
  return in_python(x, shape, weight, bias, eps);
}

Normed layer_norm_backward(const Tensor &dy, const Tensor &x, at::IntArrayRef shape, const Tensor &mean,
                           const Tensor &rstd, const Parameter &weight, const Parameter &bias,
                           std::array<bool, 3> wanted) {
  static Counter counter("native_layer_norm_backward");
  const auto is_statistic = [&](const Tensor &t) {
    return t.scalar_type() == x.scalar_type() && t.is_contiguous();
  };
  if (is_normed(x, shape, weight) && is_statistic(mean) && is_statistic(rstd) &&
      dy.scalar_type() == x.scalar_type() && dy.sizes() == x.sizes() && dy.is_contiguous()) {
    counter.add();
    // dx is computed in any case.
    Tensor dx = at::empty_like(x);
    Tensor dweight = wanted[1] ? at::empty(shape, x.options()) : Tensor();
    Tensor dbias = wanted[2] ? at::empty(shape, x.options()) : Tensor();
    rapt_norm_backward_options options = RAPT_NORM_BACKWARD_OPTIONS_INIT;
    options.type = type_of(x);
    options.cols = columns(shape);
    options.rows = x.numel() / options.cols;
    options.weight = data_of(weight);
    options.mean = mean.const_data_ptr();
    options.rstd = rstd.const_data_ptr();
    options.dweight = wanted[1] ? dweight.mutable_data_ptr() : nullptr;
    options.dbias = wanted[2] ? dbias.mutable_data_ptr() : nullptr;
    check(rapt_layer_norm_backward(x.const_data_ptr(), dy.const_data_ptr(), dx.mutable_data_ptr(), &options));
    return {wanted[0] ? dx : Tensor(), dweight, dbias};
  }
  static const InPython<Normed(const Tensor &, const Tensor &, at::IntArrayRef, const Tensor &,
                               const Tensor &, const Parameter &, const Parameter &, std::array<bool, 3>)>
      in_python("native_layer_norm_backward");
  return in_python(dy, x, shape, mean, rstd, weight, bias, wanted);
}

// ---- sums

using Dims = at::OptionalIntArrayRef;
using Type = std::optional<at::ScalarType>;

// The bits of the dimensions that are reduced, or 0: a call that C++ does not take.
std::uint32_t reduced(const Tensor &x, const Dims &dims, const Type &type) {
  if (!has_elements(x) || x.dim() == 0 || x.dim() > RAPT_MAX_DIMS || !has_strides(x) ||
      (type && *type != x.scalar_type())) {
    return 0;
  }
  const std::uint32_t all = (1u << x.dim()) - 1;
  if (!dims || dims->empty()) return all;
  std::uint32_t bits = 0;
  for (std::int64_t dim : *dims) {
    if (dim < 0) dim += x.dim();
    if (dim < 0 || dim >= x.dim() || (bits >> dim & 1)) return 0;
    bits |= 1u << dim;
  }
  return bits;
}

Tensor reduce(int operation, const Tensor &x, std::uint32_t bits, bool keepdim) {
  at::DimVector shape;
  rapt_reduce_options options = RAPT_REDUCE_OPTIONS_INIT;
  options.operation = operation;
  options.type = type_of(x);
  options.reduced = bits;
  options.dims = x.dim();
  for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
    options.shape[dim] = x.size(dim);
    options.x_strides[dim] = x.stride(dim);
    if (bits >> dim & 1) {
      if (keepdim) shape.push_back(1);
    } else {
      shape.push_back(x.size(dim));
    }
  }
  Tensor out = at::empty(shape, x.options());
  const std::int64_t size = x.element_size();
  const char *from = static_cast<const char *>(x.const_data_ptr());
  char *to = static_cast<char *>(out.mutable_data_ptr());
  if (bits & 1) {
    check(rapt_reduce(from, to, &options));
    return out;
  }
  // The outputs of the first dimension are shared out.
  const std::int64_t outputs = out.numel() / x.size(0), elements = x.numel() / x.size(0);
  in_parallel(x.size(0), rows_of_grain(elements), [&](std::int64_t first, std::int64_t last) {
    rapt_reduce_options part = options;
    part.shape[0] = last - first;
    check(rapt_reduce(from + first * x.stride(0) * size, to + first * outputs * size, &part));
  });
  return out;
}

Tensor sum(const Tensor &x, Dims dims, bool keepdim, Type type) {
  static Counter counter("sum.dim_IntList");
  if (const std::uint32_t bits = reduced(x, dims, type)) {
    counter.add();
    return reduce(RAPT_SUM, x, bits, keepdim);
  }
  static const InPython<Tensor(const Tensor &, Dims, bool, Type)> in_python("sum", "dim_IntList");
  return in_python(x, dims, keepdim, type);
}

Tensor mean(const Tensor &x, Dims dims, bool keepdim, Type type) {
  static Counter counter("mean.dim");
  if (const std::uint32_t bits = reduced(x, dims, type)) {
    counter.add();
    return reduce(RAPT_MEAN, x, bits, keepdim);
  }
  static const InPython<Tensor(const Tensor &, Dims, bool, Type)> in_python("mean", "dim");
  return in_python(x, dims, keepdim, type);
}

}  // namespace

void add_rows(torch::Library &library) {
  library.impl("_softmax", TORCH_FN(softmax));
  library.impl("_log_softmax", TORCH_FN(log_softmax));
  library.impl("native_layer_norm", TORCH_FN(layer_norm));
  library.impl("_softmax_backward_data", TORCH_FN(softmax_backward));
  library.impl("_log_softmax_backward_data", TORCH_FN(log_softmax_backward));
  library.impl("native_layer_norm_backward", TORCH_FN(layer_norm_backward));
  library.impl("sum.dim_IntList", TORCH_FN(sum));
  library.impl("mean.dim", TORCH_FN(mean));
}

}  // namespace rapt_torch
