// Implements softmax, log_softmax and logsumexp. Each call checks its arguments before it writes anything.
#include "api/elements.hpp"
#include "api/floating_point.hpp"
#include "api/matrix.hpp"
#include "api/numbers.hpp"
#include "api/read_options.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

// Fills in defaults, and checks the options that are numbers.
template <class T>
rapt_status resolve(SoftmaxRows &rows) {
  rapt_softmax_options &o = rows.options;
  rapt_status status = check_scores<T>(o.scale, 1, o.softcap);
  if (status == RAPT_OK) status = check_causal(o.causal, o.causal_offset);
  if (status != RAPT_OK) return status;
  if (o.scale == 0) o.scale = 1;
  if (o.causal == RAPT_CAUSAL_BOTTOM_RIGHT) {
    o.causal_offset = static_cast<std::ptrdiff_t>(rows.cols - rows.rows);
  }
  const auto resolve_stride = [&](const void *data, std::ptrdiff_t &stride) {
    if (!data) return stride == 0;
    if (stride == 0) stride = static_cast<std::ptrdiff_t>(rows.cols);
    if (stride == RAPT_REPEAT || rows.rows <= 1) stride = 0;
    return stride >= 0;
  };
  if (!resolve_stride(o.bias, o.bias_stride)) return RAPT_BAD_BIAS_STRIDE;
  if (!resolve_stride(o.mask, o.mask_stride)) return RAPT_BAD_MASK_STRIDE;
  return RAPT_OK;
}

// Checks the strides, sizes and overlap of the options' arrays, and the row lengths.
rapt_status check_arrays(const SoftmaxRows &rows, const Matrix &output, std::size_t number_size) {
  const rapt_softmax_options &options = rows.options;
  const auto check_operand = [&](const void *data, std::ptrdiff_t stride, std::size_t size,
                                 rapt_status bad_stride) {
    if (!data) return RAPT_OK;
    const Matrix operand{data, stride, stride == 0 ? 1 : rows.rows, rows.cols, size};
    if (!operand.stride_fits()) return bad_stride;
    std::size_t bytes;
    if (!operand.extent(bytes)) return RAPT_BAD_SIZE;
    return overlap(operand, output) == Overlap::none ? RAPT_OK : RAPT_BAD_OVERLAP;
  };
  rapt_status status = check_operand(options.bias, options.bias_stride, number_size, RAPT_BAD_BIAS_STRIDE);
  if (status == RAPT_OK) status = check_operand(options.mask, options.mask_stride, 1, RAPT_BAD_MASK_STRIDE);
  if (status != RAPT_OK) return status;

  const auto overlaps_output = [&](const void *data, std::size_t size) {
    return data && overlap({data, 0, 1, rows.rows, size}, output) != Overlap::none;
  };
  if (overlaps_output(options.row_lengths, sizeof(std::size_t)) ||
      overlaps_output(options.sinks, number_size)) {
    return RAPT_BAD_OVERLAP;
  }
  if (options.row_lengths) {
    for (std::size_t r = 0; r < rows.rows; ++r) {
      if (options.row_lengths[r] > rows.cols) return RAPT_BAD_ROW_LENGTHS;
    }
  }
  return RAPT_OK;
}

enum class Output { matrix, one_per_row };

template <class E, class Out>
using RowsKernel = void (*Operations<E>::*)(const E *, Out *, const SoftmaxRows *);

template <class E, class Out = E>
struct RowsCall {
  using A = Arithmetic<E>;

  RowsKernel<E, Out> kernel;
  Output kind;
  const E *x;
  std::ptrdiff_t x_stride;
  Out *y;
  std::ptrdiff_t y_stride;
  std::size_t row_count, cols;
  const rapt_softmax_options *options;

  // The call must run in the default floating-point mode, because a caller's DAZ would make a subnormal
  // option 0.
  rapt_status operator()() const {
    const bool is_matrix = kind == Output::matrix;
    SoftmaxRows rows{.rows = row_count, .cols = cols};
    rapt_status status = read_options(options, rows.options);
    if (status == RAPT_OK) status = resolve<A>(rows);
    if (status != RAPT_OK) return status;
    // empty_rows_are_zero would have no effect: the log-sum-exp of a row of -inf is -inf anyway.
    if (!is_matrix && rows.options.empty_rows_are_zero) return RAPT_BAD_EMPTY_ROWS;

    const bool any_input = row_count > 0 && cols > 0;
    const bool any_output = is_matrix ? any_input : row_count > 0;
    if (any_input && !x) return RAPT_BAD_X;
    if (any_output && !y) return is_matrix ? RAPT_BAD_Y : RAPT_BAD_OUT;

    const Matrix input{x, x_stride, row_count, cols, sizeof(E)};
    const Matrix output{y, y_stride, row_count, is_matrix ? cols : 1, sizeof(Out)};
    if (!input.stride_fits()) return RAPT_BAD_X_STRIDE;
    if (!output.stride_fits()) return RAPT_BAD_Y_STRIDE;
    if (!any_output) return RAPT_OK;

    std::size_t bytes;
    if (!input.extent(bytes) || !output.extent(bytes)) return RAPT_BAD_SIZE;
    const Overlap shared = overlap(input, output);
    if (shared == Overlap::partial || (shared == Overlap::exact && !is_matrix)) return RAPT_BAD_OVERLAP;
    status = check_arrays(rows, output, sizeof(A));
    if (status != RAPT_OK) return status;

    rows.x_stride = any_input ? input.used_stride() : 0;  // x may be null then
    // Bias and mask of rows without columns are not read, so their strides may be any number. Steps by such
    // strides could leave the address space.
    if (!any_input) rows.options.bias_stride = rows.options.mask_stride = 0;
    rows.y_stride = output.used_stride();
    (kernels().of<E>().*kernel)(x, y, &rows);
    return RAPT_OK;
  }
};

}  // namespace
}  // namespace rapt

using namespace rapt;

#define SOFTMAX(name, type, E)                                                                               \
  rapt_status rapt_##name##_##type(const Public<E> *x, ptrdiff_t x_stride, Public<E> *y, ptrdiff_t y_stride, \
                                   size_t rows, size_t cols, const rapt_softmax_options *options) {          \
    return in_default_mode(RowsCall<E>{&Operations<E>::name, Output::matrix, elements<E>(x), x_stride,       \
                                       elements<E>(y), y_stride, rows, cols, options});                      \
  }
RAPT_ALL_FLOATS(SOFTMAX, softmax)
RAPT_ALL_FLOATS(SOFTMAX, log_softmax)

#define LOGSUMEXP(name, type, E)                                                                           \
  rapt_status rapt_##name##_##type(const E *x, ptrdiff_t x_stride, E *out, size_t rows, size_t cols,       \
                                   const rapt_softmax_options *options) {                                  \
    return in_default_mode(                                                                                \
        RowsCall<E>{&Operations<E>::name, Output::one_per_row, x, x_stride, out, 1, rows, cols, options}); \
  }
RAPT_FLOATS(LOGSUMEXP, logsumexp)
