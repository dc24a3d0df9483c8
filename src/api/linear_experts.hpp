// Divides a call of rapt_linear_experts into the linear layers of its experts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/linear_arrays.hpp"
#include "api/read_options.hpp"
#include "call/element.hpp"
#include "call/linear_call.hpp"

namespace rapt {
namespace {

class Experts {
 public:
  // Checks what the caller says of the experts. `o` is resolved. Matrices of weights without gaps have dense_bytes; 0
  // says that their distance must be given.
  rapt_status read(const rapt_expert_options *given, const rapt_linear_options &o, std::size_t dense_bytes) {
    if (!given || read_options(given, experts_) != RAPT_OK) return RAPT_BAD_EXPERTS;
    if (count() == 0) return RAPT_BAD_SHAPE;
    if (count() >= PTRDIFF_MAX / sizeof(std::size_t)) return RAPT_BAD_SIZE;
    const rapt_status status = resolve_strides(o, dense_bytes);
    return status == RAPT_OK ? check_offsets(o) : status;
  }

  std::size_t count() const { return experts_.experts; }
  const std::size_t *offsets() const { return experts_.offsets; }
  bool w_stride_is_at_least(std::size_t bytes) const {
    return count() == 1 || static_cast<std::size_t>(experts_.w_stride) >= bytes;
  }

  // Calls f(expert, tasks, first, last) with the expert's tasks that are among [first, last) of all, from the first
  // expert on until a status is not RAPT_OK. Tasks are counted from the expert's first.
  template <class F>
  rapt_status for_each(const rapt_linear_options &o, std::size_t first, std::size_t last, F f) const {
    rapt_status status = RAPT_OK;
    for (std::size_t e = 0, before = 0; e < count() && before < last && status == RAPT_OK; ++e) {
      const LinearTasks tasks(o, rows(e));
      const std::size_t end = before + (rows(e) > 0 ? tasks.count() : 0);
      if (end > first && end > before)
        status = f(e, tasks, first > before ? first - before : 0, (last < end ? last : end) - before);
      before = end;
    }
    return status;
  }

  // Returns the layer of an expert that has rows, whose arrays must be known to fit the address space.
  LinearCall layer(const LinearCall &call, std::size_t expert) const {
    LinearCall one = call;
    rapt_linear_options &o = one.options;
    const std::size_t first = offsets()[expert], number = number_size(o.x_type);
    o.rows = rows(expert);
    if (o.x_rows) {
      o.x_rows += first;
    } else {
      skip(one.x, first * static_cast<std::size_t>(o.x_strides.row) * size_of(o.x_type));
      if (o.x_scales) o.x_scales += first * x_groups(o);
    }
    if (o.y_rows) {
      o.y_rows += first;
    } else {
      one.y = static_cast<char *>(one.y) + first * static_cast<std::size_t>(o.y_stride) * size_of(o.y_type);
      skip(o.add, first * static_cast<std::size_t>(o.add_stride) * size_of(o.add_type));
    }
    skip(o.row_scales, first * number);
    skip(one.w, expert * static_cast<std::size_t>(experts_.w_stride));
    skip(o.bias, expert * static_cast<std::size_t>(experts_.bias_stride) * number);
    skip(o.output_scales, expert * o.out_features * number);
    const std::size_t groups = expert * groups_of(o);
    skip(o.w_scales, groups * rows_of_scales(o, 0, o.out_features) * scale_size(o));
    skip(o.w_offsets, groups * o.out_features * scale_size(o));
    skip(o.w_zeros, groups * o.out_features);
    return one;
  }

 private:
  template <class T>
  static void skip(const T *&array, std::size_t bytes) {
    if (!array) return;
    const void *const moved = static_cast<const char *>(static_cast<const void *>(array)) + bytes;
    array = static_cast<const T *>(moved);
  }
  static std::size_t groups_of(const rapt_linear_options &o) {
    return is_quantized(o.w_type) ? scale_groups(o) : 0;
  }
  static std::size_t scale_size(const rapt_linear_options &o) {
    return o.w_scale_type == RAPT_TYPE_DEFAULT ? sizeof(float) : size_of(o.w_scale_type);
  }
  std::size_t rows(std::size_t expert) const { return offsets()[expert + 1] - offsets()[expert]; }

  // The strides of a single expert are not looked at.
  rapt_status resolve_strides(const rapt_linear_options &o, std::size_t dense_bytes) {
    std::ptrdiff_t &w_stride = experts_.w_stride, &bias_stride = experts_.bias_stride;
    if (!o.bias && bias_stride != 0) return RAPT_BAD_BIAS_STRIDE;
    if (count() == 1) w_stride = bias_stride = 0;
    if (count() == 1) return RAPT_OK;
    if (bias_stride == 0) bias_stride = static_cast<std::ptrdiff_t>(o.out_features);
    if (bias_stride < 0 || static_cast<std::size_t>(bias_stride) < o.out_features)
      return RAPT_BAD_BIAS_STRIDE;
    if (w_stride == 0) w_stride = static_cast<std::ptrdiff_t>(dense_bytes);
    const bool is_missing = w_stride == 0 && o.out_features > 0;
    if (is_missing || w_stride < 0 || static_cast<std::size_t>(w_stride) % size_of(o.w_type) != 0)
      return RAPT_BAD_EXPERT_STRIDE;
    const auto fits = [&](std::size_t distance, std::size_t size) {
      std::size_t bytes;
      return !__builtin_mul_overflow(distance, size, &bytes) &&
             !__builtin_mul_overflow(bytes, count(), &bytes) && bytes <= std::size_t{PTRDIFF_MAX};
    };
    const bool all_fit = fits(static_cast<std::size_t>(w_stride), 1) &&
                         fits(o.out_features * groups_of(o), scale_size(o)) &&
                         (!o.output_scales || fits(o.out_features, number_size(o.x_type))) &&
                         (!o.bias || fits(static_cast<std::size_t>(bias_stride), number_size(o.x_type)));
    return all_fit ? RAPT_OK : RAPT_BAD_SIZE;
  }
  rapt_status check_offsets(const rapt_linear_options &o) const {
    if (!offsets() || offsets()[0] != 0) return RAPT_BAD_EXPERT_OFFSETS;
    for (std::size_t e = 0; e < count(); ++e) {
      if (offsets()[e] > offsets()[e + 1]) return RAPT_BAD_EXPERT_OFFSETS;
    }
    return offsets()[count()] == o.rows ? RAPT_OK : RAPT_BAD_EXPERT_OFFSETS;
  }

  rapt_expert_options experts_ = RAPT_EXPERT_OPTIONS_INIT;
};

}  // namespace
}  // namespace rapt
