// Implements rms_norm, layer_norm and their gradients. Each call checks its arguments before it writes anything.
#include <cmath>
#include <iterator>

#include "api/floating_point.hpp"
#include "api/matrix.hpp"
#include "api/numbers.hpp"
#include "api/read_options.hpp"
#include "call/element.hpp"
#include "call/norm_call.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

enum class Norm { rms, layer };

// Judges the options that both directions have, and fills in the type.
template <class Options>
rapt_status resolve_common(Norm norm, Options &o, bool halves) {
  const int type = number_of(o.type);
  if (type == RAPT_TYPE_DEFAULT) o.type = RAPT_F32;
  const bool is_half = type == RAPT_F16 || type == RAPT_BF16;
  if (type != RAPT_TYPE_DEFAULT && type != RAPT_F32 && type != RAPT_F64 && !(halves && is_half))
    return RAPT_BAD_TYPE;
  const bool is_usable_eps = o.type == RAPT_F64 ? is_usable<double>(o.eps) : is_usable<float>(o.eps);
  if (o.eps != 0 && !(o.eps > 0 && is_usable_eps)) return RAPT_BAD_EPS;
  if (o.weight_plus_one != 0 && (!o.weight || norm == Norm::layer)) return RAPT_BAD_WEIGHT;
  return RAPT_OK;
}

// Fills in the stride of a matrix. Returns false if its rows would overlap.
template <class Options>
bool resolve_stride(std::ptrdiff_t &stride, const Options &o) {
  if (o.rows <= 1) stride = 0;
  if (o.rows <= 1) return true;
  if (stride == 0) stride = static_cast<std::ptrdiff_t>(o.cols);
  return Matrix{nullptr, stride, o.rows, o.cols, 1}.stride_fits();
}

// Returns RAPT_BAD_SIZE if a matrix does not fit the address space.
template <std::size_t count>
rapt_status check_sizes(const Matrix (&matrices)[count]) {
  std::size_t bytes;
  for (const Matrix &matrix : matrices) {
    if (!matrix.extent(bytes)) return RAPT_BAD_SIZE;
  }
  return RAPT_OK;
}

template <std::size_t count>
bool overlaps_any(const Matrix &output, const Matrix (&others)[count]) {
  for (const Matrix &other : others) {
    if (other.data && overlap(output, other) != Overlap::none) return true;
  }
  return false;
}

struct Forward {
  Norm norm;
  NormCall call;
  const rapt_norm_options *given;

  rapt_status operator()() {
    rapt_norm_options &o = call.options;
    if (!given) return RAPT_BAD_OPTIONS;
    rapt_status status = read_options(given, o);
    if (status == RAPT_OK) status = resolve_common(norm, o, true);
    if (status != RAPT_OK) return status;
    if (o.bias && norm == Norm::rms) return RAPT_BAD_BIAS;
    if (!o.residual && o.residual_stride != 0) return RAPT_BAD_RESIDUAL_STRIDE;
    if (o.rows > 1 && o.cols > std::size_t{PTRDIFF_MAX}) return RAPT_BAD_SIZE;
    if (!resolve_stride(o.x_stride, o)) return RAPT_BAD_X_STRIDE;
    if (!resolve_stride(o.y_stride, o)) return RAPT_BAD_Y_STRIDE;
    if (!resolve_stride(o.residual_stride, o)) return RAPT_BAD_RESIDUAL_STRIDE;
    const std::size_t size = size_of(o.type);
    const Matrix x{call.x, o.x_stride, o.rows, o.cols, size}, y{call.y, o.y_stride, o.rows, o.cols, size},
        residual{o.residual, o.residual_stride, o.rows, o.cols, size};
    status = check_sizes({x, y, residual});
    if (status != RAPT_OK || o.rows == 0 || o.cols == 0) return status;
    if (!call.x) return RAPT_BAD_X;
    if (!call.y) return RAPT_BAD_Y;
    const Matrix weight{o.weight, 0, 1, o.cols, size}, bias{o.bias, 0, 1, o.cols, size};
    if (overlap(x, y) == Overlap::partial || overlaps_any(y, {weight, bias, residual}))
      return RAPT_BAD_OVERLAP;
    if (o.residual && overlaps_any(residual, {x, weight, bias})) return RAPT_BAD_OVERLAP;
    run();
    return RAPT_OK;
  }

 private:
  template <class E>
  void run_on() const {
    const auto &table = kernels().of<E>();
    (norm == Norm::rms ? table.rms_norm : table.layer_norm)(&call);
  }
  void run() const {
    if (call.options.type == RAPT_F64) return run_on<double>();
    with_element<float>(call.options.type, [&]<class E>(Element<E>) { run_on<E>(); });
  }
};

struct Backward {
  Norm norm;
  NormBackwardCall call;
  const rapt_norm_backward_options *given;

  rapt_status operator()() {
    rapt_norm_backward_options &o = call.options;
    if (!given) return RAPT_BAD_OPTIONS;
    rapt_status status = read_options(given, o);
    if (status == RAPT_OK) status = resolve_common(norm, o, false);
    if (status != RAPT_OK) return status;
    if (o.dbias && norm == Norm::rms) return RAPT_BAD_NORM_DBIAS;
    if (o.accumulate != 0 && !o.dweight && !o.dbias) return RAPT_BAD_ACCUMULATE;
    if (o.rows > 1 && o.cols > std::size_t{PTRDIFF_MAX}) return RAPT_BAD_SIZE;
    if (!resolve_stride(o.x_stride, o)) return RAPT_BAD_X_STRIDE;
    if (!resolve_stride(o.dy_stride, o)) return RAPT_BAD_DY_STRIDE;
    if (!resolve_stride(o.dx_stride, o)) return RAPT_BAD_DX_STRIDE;
    const std::size_t size = size_of(o.type);
    const Matrix x{call.x, o.x_stride, o.rows, o.cols, size}, dy{call.dy, o.dy_stride, o.rows, o.cols, size},
        dx{call.dx, o.dx_stride, o.rows, o.cols, size};
    const Matrix weight{o.weight, 0, 1, o.cols, size}, dweight{o.dweight, 0, 1, o.cols, size},
        dbias{o.dbias, 0, 1, o.cols, size};
    status = check_sizes({x, dy, dx});
    if (status == RAPT_OK && (o.dweight || o.dbias)) status = check_sizes({dweight});  // there may be no rows
    if (status != RAPT_OK || o.cols == 0) return status;
    if (o.rows > 0) {
      if (!call.x) return RAPT_BAD_X;
      if (!call.dy) return RAPT_BAD_DY;
      if (!call.dx) return RAPT_BAD_DX;
      if (overlap(x, dx) == Overlap::partial || overlap(dy, dx) == Overlap::partial) return RAPT_BAD_OVERLAP;
      if (overlaps_any(dx, {weight, dweight, dbias})) return RAPT_BAD_OVERLAP;
      if (o.dweight && overlaps_any(dweight, {x, dy, weight})) return RAPT_BAD_OVERLAP;
      if (o.dbias && overlaps_any(dbias, {x, dy, weight})) return RAPT_BAD_OVERLAP;
    }
    if (o.dweight && overlaps_any(dweight, {dbias})) return RAPT_BAD_OVERLAP;
    if (o.type == RAPT_F64) {
      run_on<double>();
    } else {
      run_on<float>();
    }
    return RAPT_OK;
  }

 private:
  template <class T>
  void run_on() const {
    const auto &table = kernels().of<T>();
    (norm == Norm::rms ? table.rms_norm_backward : table.layer_norm_backward)(&call);
  }
};

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_rms_norm(const void *x, void *y, const rapt_norm_options *options) {
  return in_default_mode(Forward{Norm::rms, {.x = x, .y = y}, options});
}
rapt_status rapt_layer_norm(const void *x, void *y, const rapt_norm_options *options) {
  return in_default_mode(Forward{Norm::layer, {.x = x, .y = y}, options});
}
rapt_status rapt_rms_norm_backward(const void *x, const void *dy, void *dx,
                                   const rapt_norm_backward_options *options) {
  return in_default_mode(Backward{Norm::rms, {.x = x, .dy = dy, .dx = dx}, options});
}
rapt_status rapt_layer_norm_backward(const void *x, const void *dy, void *dx,
                                     const rapt_norm_backward_options *options) {
  return in_default_mode(Backward{Norm::layer, {.x = x, .dy = dy, .dx = dx}, options});
}
