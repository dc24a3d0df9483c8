// Implements softmax_backward and log_softmax_backward. Each call checks its arguments before it writes anything.
#include <cmath>

#include "api/elements.hpp"
#include "api/floating_point.hpp"
#include "api/halves.hpp"
#include "api/matrix.hpp"
#include "call/softmax_gradient.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

template <class E>
struct BackwardCall {
  void (*Operations<Arithmetic<E>>::*kernel)(const SoftmaxGradient *);
  SoftmaxGradient call;
  Arithmetic<E> scale;

  rapt_status operator()() {
    const bool any_work = call.rows > 0 && call.cols > 0;
    if (any_work) {
      if (!call.y) return RAPT_BAD_Y;
      if (!call.dy) return RAPT_BAD_DY;
      if (!call.dx) return RAPT_BAD_DX;
    }
    const Matrix output{call.y, call.y_stride, call.rows, call.cols, sizeof(E)};
    const Matrix gradient{call.dy, call.dy_stride, call.rows, call.cols, sizeof(E)};
    const Matrix result{call.dx, call.dx_stride, call.rows, call.cols, sizeof(E)};
    if (!output.stride_fits()) return RAPT_BAD_Y_STRIDE;
    if (!gradient.stride_fits()) return RAPT_BAD_DY_STRIDE;
    if (!result.stride_fits()) return RAPT_BAD_DX_STRIDE;
    if (!std::isfinite(scale)) return RAPT_BAD_SCALE;
    if (!any_work) return RAPT_OK;
    std::size_t bytes;
    if (!output.extent(bytes) || !gradient.extent(bytes) || !result.extent(bytes)) return RAPT_BAD_SIZE;
    if (overlap(output, result) == Overlap::partial) return RAPT_BAD_OVERLAP;
    if (overlap(gradient, result) == Overlap::partial) return RAPT_BAD_OVERLAP;

    call.y_stride = output.used_stride();
    call.dy_stride = gradient.used_stride();
    call.dx_stride = result.used_stride();
    call.scale = scale;
    if constexpr (sizeof(E) == 2) {
      call.type = std::is_same_v<E, F16> ? RAPT_F16 : RAPT_BF16;
      call.widen = widen_elements<E>;
      call.narrow = narrow_elements<E>;
    }
    (kernels().of<Arithmetic<E>>().*kernel)(&call);
    return RAPT_OK;
  }
};

}  // namespace
}  // namespace rapt

using namespace rapt;

#define SOFTMAX_BACKWARD(name, type, E)                                                                  \
  rapt_status rapt_##name##_##type(const Public<E> *y, ptrdiff_t y_stride, const Public<E> *dy,          \
                                   ptrdiff_t dy_stride, Public<E> *dx, ptrdiff_t dx_stride, size_t rows, \
                                   size_t cols, Arithmetic<E> scale) {                                   \
    const SoftmaxGradient call{y, y_stride, dy, dy_stride, dx, dx_stride, rows, cols};                   \
    return in_default_mode(BackwardCall<E>{&Operations<Arithmetic<E>>::name, call, scale});              \
  }
RAPT_ALL_FLOATS(SOFTMAX_BACKWARD, softmax_backward)
RAPT_ALL_FLOATS(SOFTMAX_BACKWARD, log_softmax_backward)
