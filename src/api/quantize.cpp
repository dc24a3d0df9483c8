// Implements rapt_quantize_rows and rapt_dequantize_rows. Each call checks its arguments before it writes
// anything.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "api/floating_point.hpp"
#include "api/matrix.hpp"
#include "api/read_options.hpp"
#include "api/strided.hpp"
#include "call/element.hpp"
#include "call/quantized_rows.hpp"
#include "contract/file_blocks.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

// Fills in the defaults.
rapt_status resolve(QuantizedRows &of, rapt_status bad_stride) {
  if (of.group == 0) of.group = of.inputs > 0 ? of.inputs : 1;
  if (!set_stride(of.stride, of.inputs)) return RAPT_BAD_SIZE;
  return of.stride >= 0 && static_cast<std::size_t>(of.stride) >= of.inputs ? RAPT_OK : bad_stride;
}
bool is_empty(const QuantizedRows &of) { return of.rows == 0 || of.inputs == 0; }

// Measures the arrays. All sizes must fit the address space.
bool measure(const QuantizedRows &of, const void *numbers, const void *q, Strided &of_numbers,
             Strided &of_q) {
  std::size_t integers, scales;
  if (__builtin_mul_overflow(of.rows, of.q_row(), &integers) ||
      __builtin_mul_overflow(of.rows, of.groups() * sizeof(float), &scales))
    return false;
  of_numbers = {numbers,   {0, 0, of.stride}, Reach::of_all(1, of.rows), 1,
                of.inputs, of.inputs,         size_of(of.type)};
  of_q = {q, integers, 1};
  return of_numbers.measure() && of_q.measure() && scales <= std::size_t{PTRDIFF_MAX};
}

bool is_of_numbers(const rapt_type &type) {
  const int number = number_of(type);
  return number == RAPT_F32 || number == RAPT_F16 || number == RAPT_BF16;
}
bool is_of_signed_integers(const rapt_type &type) {
  return number_of(type) == RAPT_I8 || number_of(type) == RAPT_I4;
}

FileBlocks blocks_of(const rapt_type &type) {
  const int number = number_of(type);
  return number >= RAPT_Q8_0 && number <= RAPT_NVFP4 ? FileBlocks::of(type) : FileBlocks();
}

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_quantize_rows(const void *x, rapt_type x_type, ptrdiff_t x_stride, size_t rows,
                               size_t inputs, size_t group, rapt_type q_type, void *q, float *scales) {
  return in_default_mode([&] {
    if (!is_of_signed_integers(q_type) || !is_of_numbers(x_type)) return RAPT_BAD_TYPE;
    QuantizeCall of{
        {rows, inputs, group, q_type, x_type, x_stride}, x, static_cast<std::uint8_t *>(q), scales};
    const rapt_status status = resolve(of, RAPT_BAD_X_STRIDE);
    if (status != RAPT_OK || is_empty(of)) return status;
    if (!x) return RAPT_BAD_X;
    if (!q) return RAPT_BAD_Q;
    if (!scales) return RAPT_BAD_SCALES;
    Strided numbers, integers;
    if (!measure(of, x, q, numbers, integers)) return RAPT_BAD_SIZE;
    Strided steps(scales, rows * of.groups() * sizeof *scales, 1);
    if (!steps.measure()) return RAPT_BAD_SIZE;
    if (numbers.overlaps(integers) || numbers.overlaps(steps) || integers.overlaps(steps))
      return RAPT_BAD_OVERLAP;
    kernels().i8.quantize_rows(&of);
    return RAPT_OK;
  });
}

rapt_status rapt_dequantize_rows(const void *q, rapt_type q_type, size_t rows, size_t inputs, size_t group,
                                 const void *scales, const uint8_t *zeros, const void *offsets,
                                 rapt_type scale_type, const float *codebook, void *y, rapt_type y_type,
                                 ptrdiff_t y_stride) {
  return in_default_mode([&] {
    const FileBlocks file = blocks_of(q_type);
    const bool is_unsigned = number_of(q_type) == RAPT_U4 || number_of(q_type) == RAPT_U8;
    if (!(is_of_signed_integers(q_type) || is_unsigned || file) || !is_of_numbers(y_type))
      return RAPT_BAD_TYPE;
    if (file && inputs % file.inputs != 0) return RAPT_BAD_SHAPE;
    if (file && group != 0 && group != file.group) return RAPT_BAD_SCALE_GROUP;
    if (file) group = file.group;
    DequantizeCall of{{rows, inputs, group, q_type, y_type, y_stride},
                      static_cast<const std::uint8_t *>(q),
                      scales,
                      zeros,
                      offsets,
                      scale_type,
                      codebook,
                      y};
    const rapt_status status = resolve(of, RAPT_BAD_Y_STRIDE);
    if (status != RAPT_OK) return status;
    if (file && scales) return RAPT_BAD_W_SCALES;
    if (file && offsets) return RAPT_BAD_W_OFFSETS;
    const bool has_scale_type = number_of(scale_type) != RAPT_TYPE_DEFAULT;
    if (has_scale_type && (!is_of_numbers(scale_type) || (!scales && !offsets))) return RAPT_BAD_W_SCALES;
    if (!has_scale_type) of.scale_type = RAPT_F32;
    if (zeros && (!may_have_zeros(q_type) || codebook)) return RAPT_BAD_W_ZEROS;
    if (codebook && q_type != RAPT_U4) return RAPT_BAD_W_CODEBOOK;
    if (is_empty(of)) return RAPT_OK;
    if (!q) return RAPT_BAD_Q;
    if (!y) return RAPT_BAD_Y;
    Strided numbers, integers;
    if (!measure(of, y, q, numbers, integers)) return RAPT_BAD_SIZE;
    const std::size_t count = rows * of.groups(), scale_size = size_of(of.scale_type);
    Strided reads[] = {integers,
                       {scales, count * scale_size, 1},
                       {zeros, count, 1},
                       {offsets, count * scale_size, 1},
                       {codebook, 16 * sizeof(float), 1}};
    for (Strided &array : reads) {
      if (!array.measure()) return RAPT_BAD_SIZE;
      if (array.overlaps(numbers)) return RAPT_BAD_OVERLAP;
    }
    file ? kernels().i8.dequantize_blocks(&of) : kernels().i8.dequantize_rows(&of);
    return RAPT_OK;
  });
}
