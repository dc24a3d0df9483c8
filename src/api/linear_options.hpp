// Reads the options of rapt_linear and its companions, fills in their defaults, and says what follows from them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/any_element.hpp"
#include "api/read_options.hpp"
#include "api/strides.hpp"
#include "api/tasks.hpp"
#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "contract/f8.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

inline bool resolve_type(rapt_type &type, rapt_type by_default) {
  const int number = number_of(type);
  if (number == RAPT_TYPE_DEFAULT) type = by_default;
  return number >= RAPT_TYPE_DEFAULT && number <= RAPT_U8;
}
constexpr bool is_float(rapt_type type) { return type == RAPT_F32 || type == RAPT_F16 || type == RAPT_BF16; }

inline rapt_status resolve_types(rapt_linear_options &o) {
  if (!resolve_type(o.x_type, RAPT_F32) || !resolve_type(o.w_type, o.x_type) ||
      !resolve_type(o.y_type, o.x_type == RAPT_I8 ? RAPT_F32 : o.x_type) ||
      !resolve_type(o.add_type, o.y_type)) {
    return RAPT_BAD_TYPE;
  }
  if (o.x_type == RAPT_F64 || o.w_type == RAPT_F64) {
    for (const rapt_type type : {o.x_type, o.w_type, o.y_type, o.add_type}) {
      if (type != RAPT_F64) return RAPT_BAD_TYPE;
    }
    return o.arithmetic == RAPT_ARITHMETIC_DEFAULT ? RAPT_OK : RAPT_BAD_ARITHMETIC;
  }
  const bool quantized = is_quantized(o.w_type), x_is_i8 = o.x_type == RAPT_I8;
  if (!is_float(o.y_type) || !is_float(o.add_type) || !(is_float(o.x_type) || (x_is_i8 && quantized)))
    return RAPT_BAD_TYPE;
  const bool is_bf16 = o.x_type == RAPT_BF16 && o.w_type == RAPT_BF16;
  if (o.arithmetic == RAPT_ARITHMETIC_DEFAULT) {
    o.arithmetic = is_bf16 ? RAPT_ARITHMETIC_BF16 : x_is_i8 ? RAPT_ARITHMETIC_I8 : RAPT_ARITHMETIC_F32;
  }
  const bool is_known = (o.arithmetic == RAPT_ARITHMETIC_F32 && !x_is_i8) ||
                        (o.arithmetic == RAPT_ARITHMETIC_BF16 && is_bf16) ||
                        (o.arithmetic == RAPT_ARITHMETIC_I8 && quantized && !F8::of(o.w_type));
  return is_known ? RAPT_OK : RAPT_BAD_ARITHMETIC;
}

// Checks the fields of quantized weights, and those of I8 arithmetic. The types must be resolved.
inline rapt_status check_quantized(const rapt_linear_options &o) {
  const bool quantized = is_quantized(o.w_type), in_file_blocks = is_in_file_blocks(o.w_type),
             plain = quantized && !o.packed_w && !in_file_blocks;
  const bool in_i8 = o.arithmetic == RAPT_ARITHMETIC_I8;
  const std::size_t g = o.scale_group;
  if (g != 0 && !(quantized && g >= 16 && g <= 256 && (g & (g - 1)) == 0)) return RAPT_BAD_SCALE_GROUP;
  if (o.w_scales && !plain) return RAPT_BAD_W_SCALES;
  if (o.w_zeros && !(plain && may_have_zeros(o.w_type) && !o.w_codebook)) return RAPT_BAD_W_ZEROS;
  if (o.w_offsets && !plain) return RAPT_BAD_W_OFFSETS;
  if (o.w_codebook && !(plain && o.w_type == RAPT_U4)) return RAPT_BAD_W_CODEBOOK;
  const int scale_type = number_of(o.w_scale_type);
  if (scale_type != RAPT_TYPE_DEFAULT) {
    const bool is_known = scale_type == RAPT_F32 || scale_type == RAPT_F16 || scale_type == RAPT_BF16;
    if (!is_known || !quantized || in_file_blocks || (plain && !o.w_scales && !o.w_offsets))
      return RAPT_BAD_W_SCALES;
  }
  const std::size_t shared = o.outputs_per_scale;
  const bool is_known = shared <= 1 || shared == 64 || shared == 128 || shared == 256 || shared == SIZE_MAX;
  if (shared != 0 && !(is_known && quantized && !in_file_blocks && (o.packed_w || o.w_scales)))
    return RAPT_BAD_W_SCALES;
  if (o.x_scales && o.x_type != RAPT_I8) return RAPT_BAD_X_SCALES;
  if (o.x_group != 0 && !(in_i8 && (o.x_group == SIZE_MAX || o.x_group % sum_group_of(o) == 0)))
    return RAPT_BAD_X_GROUP;
  return RAPT_OK;
}

// Fills in the groups of weights in blocks of a file. Only packed ones are multiplied.
inline rapt_status resolve_file_blocks(rapt_linear_options &o, bool are_multiplied) {
  const FileBlocks file = FileBlocks::of(o.w_type);
  if (!file) return RAPT_OK;
  if (are_multiplied && !o.packed_w) return RAPT_BAD_TYPE;
  if (o.in_features % file.inputs != 0) return RAPT_BAD_SHAPE;
  if (o.scale_group != 0 && o.scale_group != file.group) return RAPT_BAD_SCALE_GROUP;
  o.scale_group = file.group;
  if (o.x_group == 0 && o.arithmetic == RAPT_ARITHMETIC_I8) o.x_group = 32;
  return RAPT_OK;
}

// Fills in the strides of a matrix.
inline rapt_status resolve_matrix(rapt_matrix_strides &strides, std::size_t rows, std::size_t columns,
                                  rapt_status bad, MayRepeat may_repeat = MayRepeat::yes) {
  rapt_strides three{0, strides.row, strides.column};
  const rapt_status status = resolve_strides(three, {1, rows, columns, 1}, may_repeat, bad);
  strides = {three.head, three.token};
  return status;
}
// Fills in the stride of rows whose elements are contiguous.
inline rapt_status resolve_rows(std::ptrdiff_t &stride, std::size_t columns, rapt_status bad) {
  if (stride == 0) stride = static_cast<std::ptrdiff_t>(columns);
  return stride >= 0 && static_cast<std::size_t>(stride) >= columns ? RAPT_OK : bad;
}

// The sizes of one matrix, and with them all sums that a call needs, must fit the address space.
inline bool shape_fits(const rapt_linear_options &o) {
  const std::size_t sides[] = {o.rows, o.in_features, o.out_features};
  for (int i = 0; i < 3; ++i) {
    std::size_t elements = 1024;
    for (const std::size_t side : {sides[i], sides[(i + 1) % 3]}) {
      if (__builtin_mul_overflow(elements, side > 0 ? side : 1, &elements)) return false;
    }
    if (elements > std::size_t{PTRDIFF_MAX}) return false;
  }
  return true;
}

// Returns the elements of a row of w, where 4-bit weights and blocks of a file are bytes.
inline std::size_t columns_of_w(const rapt_linear_options &o) {
  if (const FileBlocks file = FileBlocks::of(o.w_type)) return o.in_features / file.inputs * file.bytes;
  return is_4_bits(o.w_type) ? o.in_features / 2 + o.in_features % 2 : o.in_features;
}

// Fills in the strides of plain weights.
inline rapt_status resolve_w(rapt_linear_options &o, MayRepeat may_repeat) {
  const std::size_t columns = columns_of_w(o);
  const rapt_status status =
      resolve_matrix(o.w_strides, o.out_features, columns, RAPT_BAD_W_STRIDES, may_repeat);
  if (status != RAPT_OK) return status;
  const bool are_bytes_in_turn = !(is_4_bits(o.w_type) || is_in_file_blocks(o.w_type)) ||
                                 o.out_features == 0 || columns == 1 || o.w_strides.column == 1;
  return are_bytes_in_turn ? RAPT_OK : RAPT_BAD_W_STRIDES;
}

// Whose options they are. Weights to unpack are packed, and options.w_strides are those of the result.
enum class Reads { layer, weights_to_pack, weights_to_unpack };

// Fills in the defaults of options that have been read.
inline rapt_status resolve(rapt_linear_options &o, Reads reads) {
  if (!o.add && (number_of(o.add_type) != RAPT_TYPE_DEFAULT || o.add_stride != 0)) return RAPT_BAD_ADD;
  if (o.in_features == 0) return RAPT_BAD_SHAPE;
  if (!shape_fits(o)) return RAPT_BAD_SIZE;
  rapt_status status = resolve_types(o);
  if (status == RAPT_OK) status = resolve_file_blocks(o, reads == Reads::layer);
  if (status == RAPT_OK) status = check_quantized(o);
  // A list of rows may lead to any row of x.
  const std::size_t rows_of_x = o.x_rows ? 2 : o.rows;
  if (status == RAPT_OK) status = resolve_matrix(o.x_strides, rows_of_x, o.in_features, RAPT_BAD_X_STRIDES);
  const bool unpacks = reads == Reads::weights_to_unpack;
  if (status == RAPT_OK && o.packed_w && !unpacks) {
    status = o.w_strides.row == 0 && o.w_strides.column == 0 ? RAPT_OK : RAPT_BAD_W_STRIDES;
  } else if (status == RAPT_OK) {
    status = resolve_w(o, unpacks ? MayRepeat::no : MayRepeat::yes);
  }
  if (status == RAPT_OK) status = resolve_rows(o.y_stride, o.out_features, RAPT_BAD_Y_STRIDE);
  if (status == RAPT_OK) status = resolve_rows(o.add_stride, o.out_features, RAPT_BAD_ADD);
  return status;
}

// Reads options and fills in their defaults. Those of weights to pack or unpack may say either of packed_w.
inline rapt_status read_and_resolve(const rapt_linear_options *given, rapt_linear_options &o,
                                    Reads reads = Reads::layer) {
  if (!given) return RAPT_BAD_OPTIONS;
  const rapt_status status = read_options(given, o);
  if (status != RAPT_OK) return status;
  if (reads != Reads::layer) o.packed_w = reads == Reads::weights_to_unpack;
  return resolve(o, reads);
}

inline std::size_t workspace_bytes(const rapt_linear_options &o) {
  return LinearWorkspace(o).length() * number_size(o.x_type) + workspace_alignment;
}

// Returns how many tasks a call has.
inline std::size_t count_tasks(const rapt_linear_options &o) {
  return o.rows == 0 || o.out_features == 0 ? 0 : LinearTasks(o).count();
}

// Returns the kernel of the active level.
inline auto linear_kernel(const rapt_linear_options &o) -> decltype(kernels().f32.linear) {
  if (is_quantized(o.w_type)) {
    return o.arithmetic == RAPT_ARITHMETIC_I8 ? kernels().i8.linear_in_i8 : kernels().i8.linear_quantized;
  }
  if (o.arithmetic == RAPT_ARITHMETIC_BF16) return kernels().bf16.linear_in_bf16;
  return with_any_element(
      o.w_type, [](auto element) { return kernels().of<typename decltype(element)::type>().linear; });
}

}  // namespace
}  // namespace rapt
