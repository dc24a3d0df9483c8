// Implements rms_norm, layer_norm and their gradients. Each call checks its arguments before it writes anything.
#include <cmath>
#include <cstdint>
#include <iterator>

#include "api/any_element.hpp"
#include "api/floating_point.hpp"
#include "api/halves.hpp"
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
rapt_status resolve_common(Norm norm, Options &o) {
  if (resolve_float_type(o.type) != RAPT_OK) return RAPT_BAD_TYPE;
  const bool is_usable_eps = o.type == RAPT_F64 ? is_usable<double>(o.eps) : is_usable<float>(o.eps);
  if (o.eps != 0 && !(o.eps > 0 && is_usable_eps)) return RAPT_BAD_EPS;
  if (o.weight_plus_one != 0 && (!o.weight || norm == Norm::layer)) return RAPT_BAD_WEIGHT;
  if (norm == Norm::rms && (o.mean || o.mean_rest)) return RAPT_BAD_NORM_MEAN;
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
    if (status == RAPT_OK) status = resolve_common(norm, o);
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
    const Matrix statistics[] = {Matrix{o.rstd, 0, 1, o.rows, number_size(o.type)},
                                 Matrix{o.mean, 0, 1, o.rows, number_size(o.type)},
                                 Matrix{o.mean_rest, 0, 1, o.rows, number_size(o.type)}};
    status = check_sizes(statistics);
    if (status != RAPT_OK) return status;
    for (const Matrix &written : statistics) {
      if (written.data && overlaps_any(written, {x, y, weight, bias, residual})) return RAPT_BAD_OVERLAP;
      for (const Matrix &other : statistics) {
        if (&other != &written && written.data && overlaps_any(written, {other})) return RAPT_BAD_OVERLAP;
      }
    }
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

// Longer rows of 16 bits are widened into the workspace. 48 KB of stack are what a thread of any system has.
constexpr std::size_t cols_on_stack = 4096;

// Counts the bytes that x, dy and the weight take as f32. Returns false if the count is no size.
bool workspace_of(const rapt_norm_backward_options &o, std::size_t &bytes) {
  bytes = 0;
  const bool needs_one = size_of(o.type) == 2 && o.cols > cols_on_stack;
  return !needs_one || !__builtin_mul_overflow(o.cols, 3 * sizeof(float), &bytes);
}

struct Backward {
  Norm norm;
  NormBackwardCall call;
  const rapt_norm_backward_options *given;

  rapt_status operator()() {
    rapt_norm_backward_options &o = call.options;
    if (!given) return RAPT_BAD_OPTIONS;
    rapt_status status = read_options(given, o);
    if (status == RAPT_OK) status = resolve_common(norm, o);
    if (status != RAPT_OK) return status;
    if (norm == Norm::layer && o.mean && !o.rstd) return RAPT_BAD_RSTD;
    if (norm == Norm::layer && !o.mean && (o.rstd || o.mean_rest)) return RAPT_BAD_NORM_MEAN;
    if (o.dbias && norm == Norm::rms) return RAPT_BAD_NORM_DBIAS;
    if (o.accumulate != 0 && !o.dweight && !o.dbias) return RAPT_BAD_ACCUMULATE;
    if (o.rows > 1 && o.cols > std::size_t{PTRDIFF_MAX}) return RAPT_BAD_SIZE;
    if (!resolve_stride(o.x_stride, o)) return RAPT_BAD_X_STRIDE;
    if (!resolve_stride(o.dy_stride, o)) return RAPT_BAD_DY_STRIDE;
    if (!resolve_stride(o.dx_stride, o)) return RAPT_BAD_DX_STRIDE;
    const std::size_t size = size_of(o.type), sum_size = number_size(o.type);
    const Matrix x{call.x, o.x_stride, o.rows, o.cols, size}, dy{call.dy, o.dy_stride, o.rows, o.cols, size},
        dx{call.dx, o.dx_stride, o.rows, o.cols, size};
    const Matrix weight{o.weight, 0, 1, o.cols, size}, dweight{o.dweight, 0, 1, o.cols, sum_size},
        dbias{o.dbias, 0, 1, o.cols, sum_size};
    const Matrix rstd{o.rstd, 0, 1, o.rows, sum_size}, mean{o.mean, 0, 1, o.rows, sum_size},
        mean_rest{o.mean_rest, 0, 1, o.rows, sum_size};
    status = check_sizes({x, dy, dx});
    if (status == RAPT_OK && (o.dweight || o.dbias)) status = check_sizes({dweight});  // there may be no rows
    if (status == RAPT_OK && o.rstd) status = check_sizes({rstd});
    if (status != RAPT_OK || o.cols == 0) return status;
    if (o.rows > 0) {
      if (!call.x) return RAPT_BAD_X;
      if (!call.dy) return RAPT_BAD_DY;
      if (!call.dx) return RAPT_BAD_DX;
      if (overlap(x, dx) == Overlap::partial || overlap(dy, dx) == Overlap::partial) return RAPT_BAD_OVERLAP;
      if (overlaps_any(dx, {weight, dweight, dbias, rstd, mean, mean_rest})) return RAPT_BAD_OVERLAP;
      for (const Matrix &sums : {dweight, dbias}) {
        if (sums.data && overlaps_any(sums, {x, dy, weight, rstd, mean, mean_rest})) return RAPT_BAD_OVERLAP;
      }
      std::size_t bytes;
      if (!workspace_of(o, bytes)) return RAPT_BAD_SIZE;
      if (bytes > 0) {
        const Matrix workspace{o.workspace, 0, 1, bytes, 1};
        if (!o.workspace || o.workspace_size < bytes ||
            reinterpret_cast<std::uintptr_t>(o.workspace) % alignof(float) != 0 ||
            overlaps_any(workspace, {x, dy, dx, weight, dweight, dbias, rstd, mean, mean_rest}))
          return RAPT_BAD_WORKSPACE;
      }
    }
    if (o.dweight && overlaps_any(dweight, {dbias})) return RAPT_BAD_OVERLAP;
    with_any_element(o.type, [&](auto element) { run_on<typename decltype(element)::type>(); });
    return RAPT_OK;
  }

 private:
  template <class A>
  void run_kernel(const NormBackwardCall &given_call) const {
    const auto &table = kernels().of<A>();
    (norm == Norm::rms ? table.rms_norm_backward : table.layer_norm_backward)(&given_call);
  }
  template <class E>
  void run_on() const {
    if constexpr (sizeof(E) != 2) {
      run_kernel<E>(call);
    } else if (call.options.cols > cols_on_stack) {
      run_on_halves<E>(static_cast<float *>(call.options.workspace));
    } else {
      alignas(64) float scratch[3 * cols_on_stack];
      run_on_halves<E>(scratch);
    }
  }
  // Widens row by row, so that a row's sums find it in the caches, and runs f32's kernel on it.
  template <class E>
  void run_on_halves(float *scratch) const {
    const rapt_norm_backward_options &o = call.options;
    float *const x = scratch, *const dy = x + o.cols, *const weight = dy + o.cols;
    NormBackwardCall row{x, dy, dy, o};
    row.options.type = RAPT_F32;
    row.options.rows = o.rows > 0;
    row.options.x_stride = row.options.dy_stride = row.options.dx_stride = 0;
    if (o.weight && o.rows > 0) widen_elements<E>(o.weight, weight, o.cols);
    row.options.weight = o.weight ? weight : nullptr;
    if (o.rows == 0) return run_kernel<float>(row);
    const auto next = [](const void *&statistics) {
      if (statistics) statistics = static_cast<const float *>(statistics) + 1;
    };
    for (std::size_t r = 0; r < o.rows; ++r) {
      const auto at = static_cast<std::ptrdiff_t>(r);
      widen_elements<E>(static_cast<const E *>(call.x) + at * o.x_stride, x, o.cols);
      widen_elements<E>(static_cast<const E *>(call.dy) + at * o.dy_stride, dy, o.cols);
      run_kernel<float>(row);
      narrow_elements<E>(dy, static_cast<E *>(call.dx) + at * o.dx_stride, o.cols);
      row.options.accumulate = 1;  // the sums go on from row to row
      next(row.options.rstd);
      next(row.options.mean);
      next(row.options.mean_rest);
    }
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
rapt_status rapt_norm_backward_workspace(const rapt_norm_backward_options *options, size_t *bytes) {
  if (!options) return RAPT_BAD_OPTIONS;
  rapt_norm_backward_options o = RAPT_NORM_BACKWARD_OPTIONS_INIT;
  const rapt_status status = read_options(options, o);
  if (status != RAPT_OK) return status;
  const int type = number_of(o.type);
  if (type < RAPT_TYPE_DEFAULT || type > RAPT_BF16) return RAPT_BAD_TYPE;
  if (!bytes) return RAPT_BAD_OUT;
  std::size_t counted;
  if (!workspace_of(o, counted)) return RAPT_BAD_SIZE;
  *bytes = counted;
  return RAPT_OK;
}
rapt_status rapt_rms_norm_backward(const void *x, const void *dy, void *dx,
                                   const rapt_norm_backward_options *options) {
  return in_default_mode(Backward{Norm::rms, {.x = x, .dy = dy, .dx = dx}, options});
}
rapt_status rapt_layer_norm_backward(const void *x, const void *dy, void *dx,
                                     const rapt_norm_backward_options *options) {
  return in_default_mode(Backward{Norm::layer, {.x = x, .dy = dy, .dx = dx}, options});
}
