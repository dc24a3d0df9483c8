// Implements rapt_mean_pool and rapt_normalize by kernels of other functions. They check their arguments before they
// write anything.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/halves.hpp"
#include "api/matrix.hpp"
#include "api/read_options.hpp"
#include "call/element.hpp"
#include "call/reduce_call.hpp"
#include "dispatch/dispatch.hpp"
#include "rapt/rapt.h"

namespace rapt {
namespace {

// Calls run(numbers, count) for some elements as numbers of the arithmetic type: f32 itself, or a widened copy.
template <class E, class Run>
void as_numbers(const E *x, std::size_t count, Run run) {
  if constexpr (std::is_same_v<E, Arithmetic<E>>) {
    run(x);
  } else {
    alignas(64) float numbers[half_block];
    widen_elements<E>(x, numbers, count);
    run(static_cast<const float *>(numbers));
  }
}
template <class E>
void write_numbers(const Arithmetic<E> *from, E *to, std::size_t count) {
  if constexpr (std::is_same_v<E, Arithmetic<E>>) {
    for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
  } else {
    narrow_elements<E>(from, to, count);
  }
}

// A quotient is rounded once at every level, so that this is no kernel.
template <class A>
void divide(const A *x, A divisor, A *y, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) y[i] = x[i] / divisor;
}

struct MeanPool {
  rapt_mean_pool_options o = RAPT_MEAN_POOL_OPTIONS_INIT;
  const void *x;
  void *y;

  bool takes(std::size_t sequence, std::size_t token) const {
    return !o.mask || o.mask[sequence * o.tokens + token] != 0;
  }

  rapt_status check(const rapt_mean_pool_options *given) {
    if (!given) return RAPT_BAD_OPTIONS;
    const rapt_status status = read_options(given, o);
    if (status != RAPT_OK) return status;
    if (resolve_float_type(o.type) != RAPT_OK || o.type == RAPT_F64) return RAPT_BAD_TYPE;
    const std::size_t size = size_of(o.type);
    std::size_t flags, sequence_bytes;
    if (!set_stride(o.x_stride, o.dim) || !set_stride(o.y_stride, o.dim) ||
        __builtin_mul_overflow(o.batch, o.tokens, &flags) || flags > std::size_t{PTRDIFF_MAX})
      return RAPT_BAD_SIZE;
    const Matrix sequence{x, o.x_stride, o.tokens, o.dim, size};
    if (!sequence.stride_fits()) return RAPT_BAD_X_STRIDE;
    if (!sequence.extent(sequence_bytes)) return RAPT_BAD_SIZE;
    std::size_t contiguous = 0;
    if (o.batch_stride == 0 && o.batch > 1 && o.tokens > 0 &&
        __builtin_mul_overflow(
            o.tokens,
            static_cast<std::size_t>(o.tokens > 1 ? o.x_stride : static_cast<std::ptrdiff_t>(o.dim)),
            &contiguous))
      return RAPT_BAD_SIZE;
    if (!set_stride(o.batch_stride, contiguous)) return RAPT_BAD_SIZE;
    const Matrix all{x, o.batch_stride, o.batch, sequence_bytes / size, size};
    const Matrix result{y, o.y_stride, o.batch, o.dim, size};
    if (!all.stride_fits()) return RAPT_BAD_BATCH_STRIDE;
    if (!result.stride_fits()) return RAPT_BAD_Y_STRIDE;
    std::size_t bytes;
    if (!all.extent(bytes) || !result.extent(bytes)) return RAPT_BAD_SIZE;
    for (std::size_t i = 0; o.row_lengths && i < o.batch; ++i) {
      if (o.row_lengths[i] > o.tokens) return RAPT_BAD_ROW_LENGTHS;
    }
    if (o.batch == 0 || o.dim == 0) return RAPT_OK;
    if (!x && o.tokens > 0) return RAPT_BAD_X;
    if (!y) return RAPT_BAD_Y;
    const Matrix mask{o.mask, 0, 1, o.mask ? flags : 0, 1},
        lengths{o.row_lengths, 0, 1, o.row_lengths ? o.batch : 0, sizeof(std::size_t)};
    for (const Matrix &input : {all, mask, lengths}) {
      if (overlap(input, result) != Overlap::none) return RAPT_BAD_OVERLAP;
    }
    return RAPT_OK;
  }

  // Tokens are added one after the other, so that those that are left out change no sum.
  template <class E>
  void pool(std::size_t sequence) const {
    const E *const tokens = static_cast<const E *>(x) +
                            (o.batch > 1 ? o.batch_stride : 0) * static_cast<std::ptrdiff_t>(sequence);
    E *const row =
        static_cast<E *>(y) + (o.batch > 1 ? o.y_stride : 0) * static_cast<std::ptrdiff_t>(sequence);
    const std::size_t length = o.row_lengths ? o.row_lengths[sequence] : o.tokens;
    for_each_block(o.dim, [&](std::size_t first, std::size_t count) {
      alignas(64) float sum[half_block];
      std::size_t taken = 0;
      for (std::size_t t = 0; t < length; ++t) {
        if (!takes(sequence, t)) continue;
        const float *const before = taken++ > 0 ? sum : nullptr;
        as_numbers(
            tokens + o.x_stride * static_cast<std::ptrdiff_t>(t) + first, count,
            [&](const float *token) { kernels().f32.expert_sum(token, 0, 1, nullptr, before, sum, count); });
      }
      if (taken == 0) {
        for (std::size_t i = 0; i < count; ++i) sum[i] = 0;
      } else {
        divide(sum, static_cast<float>(taken), sum, count);
      }
      write_numbers(sum, row + first, count);
    });
  }

  rapt_status run(const rapt_mean_pool_options *given) {
    const rapt_status status = check(given);
    if (status != RAPT_OK || o.batch == 0 || o.dim == 0) return status;
    with_element<float>(o.type, [&](auto element) {
      for (std::size_t i = 0; i < o.batch; ++i) pool<typename decltype(element)::type>(i);
    });
    return RAPT_OK;
  }
};

template <class E>
void normalize_row(const E *x, E *y, std::size_t cols, double eps, rapt_type type) {
  using A = Arithmetic<E>;
  A norm;
  ReduceCall call{.x = x, .out = &norm, .operation = RAPT_NORM_2, .type = type};
  call.out_type = std::is_same_v<A, double> ? RAPT_F64 : RAPT_F32;
  call.reduced_dims = 1;
  call.reduced[0] = {cols, 1, 0};
  call.elements = cols;
  kernels().of<A>().reduce(&call, 0, call.tasks());
  const A least = static_cast<A>(eps), divisor = norm < least ? least : norm;
  for_each_block(cols, [&](std::size_t first, std::size_t count) {
    alignas(64) A quotients[half_block];
    as_numbers(x + first, count, [&](const A *numbers) { divide(numbers, divisor, quotients, count); });
    write_numbers(quotients, y + first, count);
  });
}

rapt_status normalize(const void *x, void *y, const rapt_normalize_options *given) {
  rapt_normalize_options o = RAPT_NORMALIZE_OPTIONS_INIT;
  if (!given) return RAPT_BAD_OPTIONS;
  const rapt_status status = read_options(given, o);
  if (status != RAPT_OK) return status;
  if (resolve_float_type(o.type) != RAPT_OK) return RAPT_BAD_TYPE;
  const double least = o.type == RAPT_F64 ? std::numeric_limits<double>::min() : 0x1p-126,
               most = o.type == RAPT_F64 ? std::numeric_limits<double>::max() : 0x1.fffffep127;
  if (o.eps == 0) o.eps = 1e-12;
  if (!(o.eps >= least && o.eps <= most)) return RAPT_BAD_EPS;
  if (!set_stride(o.x_stride, o.cols) || !set_stride(o.y_stride, o.cols)) return RAPT_BAD_SIZE;
  const std::size_t size = size_of(o.type);
  const Matrix from{x, o.x_stride, o.rows, o.cols, size}, to{y, o.y_stride, o.rows, o.cols, size};
  if (!from.stride_fits()) return RAPT_BAD_X_STRIDE;
  if (!to.stride_fits()) return RAPT_BAD_Y_STRIDE;
  std::size_t bytes;
  if (!from.extent(bytes) || !to.extent(bytes)) return RAPT_BAD_SIZE;
  if (o.rows == 0 || o.cols == 0) return RAPT_OK;
  if (!x) return RAPT_BAD_X;
  if (!y) return RAPT_BAD_Y;
  if (overlap(from, to) == Overlap::partial) return RAPT_BAD_OVERLAP;
  with_any_element(o.type, [&](auto element) {
    using E = typename decltype(element)::type;
    for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(o.rows); ++i) {
      normalize_row(static_cast<const E *>(x) + i * from.used_stride(),
                    static_cast<E *>(y) + i * to.used_stride(), o.cols, o.eps, o.type);
    }
  });
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

rapt_status rapt_mean_pool(const void *x, void *y, const rapt_mean_pool_options *options) {
  return rapt::in_default_mode([&] { return rapt::MeanPool{.x = x, .y = y}.run(options); });
}

rapt_status rapt_normalize(const void *x, void *y, const rapt_normalize_options *options) {
  return rapt::in_default_mode([&] { return rapt::normalize(x, y, options); });
}
