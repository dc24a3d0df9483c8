// Implements softmax_backward. Each call checks its arguments before it writes anything.
#include <cmath>

#include "api/elements.hpp"
#include "api/floating_point.hpp"
#include "api/matrix.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

template <class T>
struct BackwardCall {
  const T *y;
  std::ptrdiff_t y_stride;
  const T *dy;
  std::ptrdiff_t dy_stride;
  T *dx;
  std::ptrdiff_t dx_stride;
  std::size_t rows, cols;
  T scale;

  rapt_status operator()() const {
    const bool any_work = rows > 0 && cols > 0;
    if (any_work) {
      if (!y) return RAPT_BAD_Y;
      if (!dy) return RAPT_BAD_DY;
      if (!dx) return RAPT_BAD_DX;
    }
    const Matrix output{y, y_stride, rows, cols, sizeof(T)};
    const Matrix gradient{dy, dy_stride, rows, cols, sizeof(T)};
    const Matrix result{dx, dx_stride, rows, cols, sizeof(T)};
    if (!output.stride_fits()) return RAPT_BAD_Y_STRIDE;
    if (!gradient.stride_fits()) return RAPT_BAD_DY_STRIDE;
    if (!result.stride_fits()) return RAPT_BAD_DX_STRIDE;
    if (!std::isfinite(scale)) return RAPT_BAD_SCALE;
    if (!any_work) return RAPT_OK;
    std::size_t bytes;
    if (!output.extent(bytes) || !gradient.extent(bytes) || !result.extent(bytes)) return RAPT_BAD_SIZE;
    if (overlap(output, result) == Overlap::partial) return RAPT_BAD_OVERLAP;
    if (overlap(gradient, result) == Overlap::partial) return RAPT_BAD_OVERLAP;

    kernels().of<T>().softmax_backward(y, output.used_stride(), dy, gradient.used_stride(), dx,
                                       result.used_stride(), rows, cols, scale);
    return RAPT_OK;
  }
};

}  // namespace
}  // namespace rapt

using namespace rapt;

#define SOFTMAX_BACKWARD(name, type, E)                                                                     \
  rapt_status rapt_##name##_##type(const E *y, ptrdiff_t y_stride, const E *dy, ptrdiff_t dy_stride, E *dx, \
                                   ptrdiff_t dx_stride, size_t rows, size_t cols, E scale) {                \
    return in_default_mode(BackwardCall<E>{y, y_stride, dy, dy_stride, dx, dx_stride, rows, cols, scale});  \
  }
RAPT_FLOATS(SOFTMAX_BACKWARD, softmax_backward)
