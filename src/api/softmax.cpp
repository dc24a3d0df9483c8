// softmax, log_softmax and logsumexp: the arguments are checked here, once, before anything is written.
#include <cmath>

#include "api/floating_point.hpp"
#include "api/matrix.hpp"
#include "api/read_options.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

// The arrays that options point to.
rapt_status check_arrays(const SoftmaxRows &rows, const Matrix &output) {
  const rapt_softmax_options &options = rows.options;
  const auto check_operand = [&](const void *data, std::ptrdiff_t stride, std::size_t element_size,
                                 rapt_status bad_stride) {
    if (!data) return RAPT_OK;
    const Matrix operand{data, stride, stride == 0 ? 1 : rows.rows, rows.cols, element_size};
    if (!operand.stride_fits()) return bad_stride;
    std::size_t bytes;
    if (!operand.extent(bytes)) return RAPT_BAD_SIZE;
    return overlap(operand, output) == Overlap::none ? RAPT_OK : RAPT_BAD_OVERLAP;
  };
  rapt_status status = check_operand(options.bias, options.bias_stride, sizeof(float), RAPT_BAD_BIAS_STRIDE);
  if (status == RAPT_OK) status = check_operand(options.mask, options.mask_stride, 1, RAPT_BAD_MASK_STRIDE);
  if (status != RAPT_OK) return status;

  const auto overlaps_output = [&](const void *data, std::size_t element_size) {
    return data && overlap({data, 0, 1, rows.rows, element_size}, output) != Overlap::none;
  };
  if (overlaps_output(options.row_lengths, sizeof(std::size_t)) ||
      overlaps_output(options.sinks, sizeof(float))) {
    return RAPT_BAD_OVERLAP;
  }
  if (options.row_lengths) {
    for (std::size_t r = 0; r < rows.rows; ++r) {
      if (options.row_lengths[r] > rows.cols) return RAPT_BAD_ROW_LENGTHS;
    }
  }
  return RAPT_OK;
}

enum class Output { matrix, one_a_row };

template <class T>
using RowsKernel = void (*KernelTable::*)(const T *, T *, const SoftmaxRows *);

template <class T>
rapt_status run(RowsKernel<T> kernel, Output kind, const T *x, std::ptrdiff_t x_stride, T *y,
                std::ptrdiff_t y_stride, std::size_t row_count, std::size_t cols,
                const rapt_softmax_options *options) {
  const bool is_matrix = kind == Output::matrix;
  SoftmaxRows rows{.rows = row_count, .cols = cols};
  rapt_status status = read_options(options, rows.options);
  if (status != RAPT_OK) return status;

  const bool any_work = row_count > 0 && cols > 0;
  if (any_work && !x) return RAPT_BAD_X;
  if (any_work && !y) return is_matrix ? RAPT_BAD_Y : RAPT_BAD_OUT;

  const Matrix input{x, x_stride, row_count, cols, sizeof(T)};
  const Matrix output =
      is_matrix ? Matrix{y, y_stride, row_count, cols, sizeof(T)} : Matrix{y, 1, row_count, 1, sizeof(T)};
  if (!input.stride_fits()) return RAPT_BAD_X_STRIDE;
  if (!output.stride_fits()) return RAPT_BAD_Y_STRIDE;
  const bool is_f64 = sizeof(T) == sizeof(double);
  if (!std::isfinite(rows.options.scale) || (is_f64 && !std::isfinite(rows.options.scale_f64)))
    return RAPT_BAD_SCALE;
  if (!std::isfinite(rows.options.softcap) || rows.options.softcap < 0) return RAPT_BAD_SOFTCAP;
  if (!any_work) return RAPT_OK;
  std::size_t bytes;
  if (!input.extent(bytes) || !output.extent(bytes)) return RAPT_BAD_SIZE;
  const Overlap shared = overlap(input, output);
  if (shared == Overlap::partial || (shared == Overlap::exact && !is_matrix)) return RAPT_BAD_OVERLAP;
  status = check_arrays(rows, output);
  if (status != RAPT_OK) return status;

  rows.x_stride = input.used_stride();
  rows.y_stride = output.used_stride();
  in_default_mode([&] {
    // Here, as a subnormal scale is 0 to a caller who has DAZ set.
    rows.scale = is_f64 && rows.options.scale_f64 != 0 ? rows.options.scale_f64 : double{rows.options.scale};
    (kernels().*kernel)(x, y, &rows);
  });
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_softmax_f32(const float *x, ptrdiff_t x_stride, float *y, ptrdiff_t y_stride, size_t rows,
                             size_t cols, const rapt_softmax_options *options) {
  return run(&KernelTable::softmax_f32, Output::matrix, x, x_stride, y, y_stride, rows, cols, options);
}

rapt_status rapt_softmax_f64(const double *x, ptrdiff_t x_stride, double *y, ptrdiff_t y_stride, size_t rows,
                             size_t cols, const rapt_softmax_options *options) {
  return run(&KernelTable::softmax_f64, Output::matrix, x, x_stride, y, y_stride, rows, cols, options);
}

rapt_status rapt_log_softmax_f32(const float *x, ptrdiff_t x_stride, float *y, ptrdiff_t y_stride,
                                 size_t rows, size_t cols, const rapt_softmax_options *options) {
  return run(&KernelTable::log_softmax_f32, Output::matrix, x, x_stride, y, y_stride, rows, cols, options);
}

rapt_status rapt_log_softmax_f64(const double *x, ptrdiff_t x_stride, double *y, ptrdiff_t y_stride,
                                 size_t rows, size_t cols, const rapt_softmax_options *options) {
  return run(&KernelTable::log_softmax_f64, Output::matrix, x, x_stride, y, y_stride, rows, cols, options);
}

rapt_status rapt_logsumexp_f32(const float *x, ptrdiff_t x_stride, float *out, size_t rows, size_t cols,
                               const rapt_softmax_options *options) {
  return run(&KernelTable::logsumexp_f32, Output::one_a_row, x, x_stride, out, 1, rows, cols, options);
}

rapt_status rapt_logsumexp_f64(const double *x, ptrdiff_t x_stride, double *out, size_t rows, size_t cols,
                               const rapt_softmax_options *options) {
  return run(&KernelTable::logsumexp_f64, Output::one_a_row, x, x_stride, out, 1, rows, cols, options);
}
