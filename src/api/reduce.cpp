// Implements rapt_reduce. It checks its arguments before it writes anything.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "api/floating_point.hpp"
#include "api/read_options.hpp"
#include "api/tensor.hpp"
#include "call/element.hpp"
#include "call/reduce_call.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

bool needs_elements(int operation) {
  return operation == RAPT_MIN || operation == RAPT_MAX || operation == RAPT_ARGMIN ||
         operation == RAPT_ARGMAX;
}

// Judges the options that are not of an array, and fills in the types.
rapt_status resolve(rapt_reduce_options &o) {
  if (o.operation < RAPT_SUM || o.operation > RAPT_ARGMAX) return RAPT_BAD_OPERATION;
  const int out_type = number_of(o.out_type);
  if (resolve_float_type(o.type) != RAPT_OK) return RAPT_BAD_TYPE;
  const bool is_index = o.operation == RAPT_ARGMIN || o.operation == RAPT_ARGMAX;
  const rapt_type arithmetic = o.type == RAPT_F64 ? RAPT_F64 : RAPT_F32;
  const bool is_given = out_type != RAPT_TYPE_DEFAULT;
  if (is_given && (is_index || (out_type != number_of(o.type) && out_type != number_of(arithmetic))))
    return RAPT_BAD_TYPE;
  if (!is_given) o.out_type = o.type;
  if (o.dims == 0 || o.dims > RAPT_MAX_DIMS) return RAPT_BAD_DIMS;
  const std::uint32_t all = (std::uint32_t{1} << o.dims) - 1;
  if ((o.reduced & ~all) != 0) return RAPT_BAD_REDUCED;
  if (o.reduced == 0) o.reduced = all;
  const bool is_variance = o.operation == RAPT_VARIANCE;
  if (!std::isfinite(o.correction) || (o.correction != 0 && !is_variance)) return RAPT_BAD_CORRECTION;
  return o.mean && !is_variance ? RAPT_BAD_MEAN : RAPT_OK;
}

// Reads the strides, and lists the dimensions as kernels need them.
struct Run {
  ReduceCall call;
  const rapt_reduce_options *given;
  rapt_reduce_options o = RAPT_REDUCE_OPTIONS_INIT;
  Tensor x{}, out{}, mean{};
  std::size_t kept_shape[RAPT_MAX_DIMS] = {}, kept_dims = 0;

  rapt_status operator()() {
    if (!given) return RAPT_BAD_OPTIONS;
    rapt_status status = read_options(given, o);
    if (status == RAPT_OK) status = resolve(o);
    if (status == RAPT_OK) status = count();
    if (status == RAPT_OK) status = read_arrays();
    if (status != RAPT_OK || call.outputs == 0) return status;
    if (!call.x && call.elements > 0) return RAPT_BAD_X;
    if (!call.out) return RAPT_BAD_OUT;
    if (x.overlaps(out) || (o.mean && (x.overlaps(mean) || out.overlaps(mean)))) return RAPT_BAD_OVERLAP;
    call.operation = o.operation;
    call.type = o.type;
    call.out_type = o.out_type;
    call.correction = o.correction;
    call.mean = o.mean;
    list_kept();
    list_reduced();
    if (o.type == RAPT_F64) {
      kernels().of<double>().reduce(&call, 0, call.tasks());
    } else {
      kernels().of<float>().reduce(&call, 0, call.tasks());
    }
    return RAPT_OK;
  }

 private:
  bool is_reduced(std::size_t d) const { return (o.reduced >> d & 1) != 0; }

  // Counts outputs and elements. One product may be too large for memory where the other is 0.
  rapt_status count() {
    bool is_empty = false;
    for (std::size_t d = 0; d < o.dims; ++d) {
      is_empty = is_empty || (o.shape[d] == 0 && !is_reduced(d));
      if (is_reduced(d) && o.shape[d] == 0) call.elements = 0;
      if (!is_reduced(d)) kept_shape[kept_dims++] = o.shape[d];
    }
    if (call.elements == 0 && needs_elements(o.operation)) return RAPT_BAD_SHAPE;
    if (is_empty) call.outputs = 0;
    for (std::size_t d = 0; d < o.dims; ++d) {
      std::size_t &product = is_reduced(d) ? call.elements : call.outputs;
      if (__builtin_mul_overflow(product, o.shape[d], &product)) return RAPT_BAD_SIZE;
    }
    return RAPT_OK;
  }

  rapt_status read_arrays() {
    const bool is_index = needs_elements(o.operation) && o.operation >= RAPT_ARGMIN;
    const std::size_t size = is_index ? sizeof(std::int64_t) : size_of(o.out_type);
    rapt_status status =
        x.read(call.x, size_of(o.type), o.dims, o.shape, o.x_strides, Repeats::yes, RAPT_BAD_X_STRIDES);
    for (Tensor *const tensor : {&out, &mean}) {
      if (status != RAPT_OK) return status;
      status = tensor->read(tensor == &out ? call.out : o.mean, size, kept_dims, kept_shape, o.out_strides,
                            Repeats::no, RAPT_BAD_OUT_STRIDES);
    }
    if (status != RAPT_OK) return status;
    return call.outputs == 0 || out.elements_are_apart() ? RAPT_OK : RAPT_BAD_OUT_STRIDES;
  }

  // Puts the dimension with the smallest stride of x last, and merges dimensions that lie in one another in x and out.
  void list_kept() {
    struct Kept {
      std::size_t count;
      std::ptrdiff_t x, out;
    } kept[RAPT_MAX_DIMS];
    std::size_t n = 0;
    for (std::size_t d = 0, k = 0; d < o.dims; ++d) {
      if (is_reduced(d)) continue;
      const Kept added{o.shape[d], x.strides[d], out.strides[k++]};
      if (added.count == 1) continue;
      std::size_t at = n++;
      for (; at > 0 && kept[at - 1].x < added.x; --at) kept[at] = kept[at - 1];
      kept[at] = added;
    }
    Loops<2> loops;
    for (std::size_t i = 0; i < n; ++i) loops.add(kept[i].count, {kept[i].x, kept[i].out});
    call.kept_dims = loops.dims;
    for (std::size_t i = 0; i < loops.dims; ++i)
      call.kept[i] = {loops.shape[i], loops.strides[0][i], loops.strides[1][i]};
  }

  // There is at least one, so that kernels need not ask.
  void list_reduced() {
    Loops<1> loops;
    for (std::size_t d = 0; d < o.dims; ++d) {
      if (is_reduced(d)) loops.add(o.shape[d], {x.strides[d]});
    }
    call.reduced_dims = loops.dims == 0 ? 1 : loops.dims;
    call.reduced[0] = {1, 1, 0};
    for (std::size_t i = 0; i < loops.dims; ++i) call.reduced[i] = {loops.shape[i], loops.strides[0][i], 0};
  }
};

}  // namespace
}  // namespace rapt

rapt_status rapt_reduce(const void *x, void *out, const rapt_reduce_options *options) {
  return rapt::in_default_mode(rapt::Run{.call = {.x = x, .out = out}, .given = options});
}
