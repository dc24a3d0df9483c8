// Describes a call of rapt_linear, whose arguments have been checked, and its division into tasks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract/file_blocks.hpp"
#include "contract/linear.hpp"
#include "rapt/rapt.h"

namespace rapt {

// A task is some rows of x with some outputs.
struct LinearTask {
  std::size_t first_row, rows, first_output, outputs;
};

// Tasks depend on the call's sizes alone, never on the instruction-set level. The tasks of a block of rows
// follow each other, so that a thread packs the rows once.
class LinearTasks {
 public:
  // A block of rows is a multiple of 6 rows, the height of a tile. 96 rows of 512 inputs take 192 KB as
  // f32, which a small L2 holds next to the weights. On AVX-512, 144 and 288 rows were 2 to 4 % slower.
  static constexpr std::size_t row_unit = 6, most_rows = 96;
  // Two tiles of rows. Up to so many rows wait for weights more than for products: tasks have fewer outputs, and
  // weights are read in the order of memory, once or twice. More rows gain by weights in scratch (linear/ways.hpp).
  static constexpr std::size_t few_rows = 2 * row_unit;
  // AMX multiplies 16 rows at a time. It waits for weights from memory unless many rows share them.
  static constexpr std::size_t row_unit_of_amx = 16, most_rows_of_amx = 256;

  explicit LinearTasks(const rapt_linear_options &o) : LinearTasks(o, o.rows) {}
  // The layer may have another number of rows than its options.
  LinearTasks(const rapt_linear_options &o, std::size_t rows_of_layer)
      : rows_(rows_of_layer), outputs_(o.out_features) {
    const bool may_use_amx = has_kernels_by_amx(o);
    outputs_per_task_ = o.arithmetic == RAPT_ARITHMETIC_BF16 || rows_ <= few_rows ? 128 : 256;
    const std::size_t most = most_rows_of(o);
    const std::size_t blocks = rows_ == 0 ? 1 : (rows_ + most - 1) / most;
    const std::size_t unit = may_use_amx && blocks > 1 ? row_unit_of_amx : row_unit;
    const std::size_t rows = (rows_ + blocks - 1) / blocks;
    rows_per_task_ = rows == 0 ? unit : (rows + unit - 1) / unit * unit;
  }

  // Returns whether some level computes the layer with AMX.
  static bool has_kernels_by_amx(const rapt_linear_options &o) {
    return o.arithmetic == RAPT_ARITHMETIC_BF16 || o.arithmetic == RAPT_ARITHMETIC_I8;
  }
  // Returns the most rows of a task. A call with so many rows needs the largest workspace.
  static std::size_t most_rows_of(const rapt_linear_options &o) {
    return has_kernels_by_amx(o) ? most_rows_of_amx : most_rows;
  }
  std::size_t count() const { return row_blocks() * output_groups(); }
  std::size_t rows_per_task() const { return rows_per_task_; }
  std::size_t outputs_per_task() const { return outputs_per_task_; }
  LinearTask operator[](std::size_t task) const {
    const std::size_t row = task / output_groups() * rows_per_task_,
                      output = task % output_groups() * outputs_per_task_;
    return {row, rows_ - row < rows_per_task_ ? rows_ - row : rows_per_task_, output,
            outputs_ - output < outputs_per_task_ ? outputs_ - output : outputs_per_task_};
  }

 private:
  std::size_t row_blocks() const { return rows_ / rows_per_task_ + (rows_ % rows_per_task_ != 0); }
  std::size_t output_groups() const {
    return outputs_ / outputs_per_task_ + (outputs_ % outputs_per_task_ != 0);
  }

  std::size_t rows_, outputs_, outputs_per_task_, rows_per_task_;
};

constexpr bool is_4_bits(rapt_type type) { return type == RAPT_I4 || type == RAPT_U4; }
// Whether weights may have the array w_zeros.
constexpr bool may_have_zeros(rapt_type type) { return type == RAPT_U4 || type == RAPT_U8; }
constexpr bool is_in_file_blocks(rapt_type type) { return type >= RAPT_Q8_0 && type <= RAPT_NVFP4; }
constexpr bool is_quantized(rapt_type type) { return type >= RAPT_I8; }

// Returns the inputs of a group of the sum over quantized weights.
inline std::size_t sum_group_of(const rapt_linear_options &o) {
  return o.scale_group ? o.scale_group : linear_sum_group;
}
// Returns how many groups the sum has.
inline std::size_t sum_groups_of(const rapt_linear_options &o) {
  return (o.in_features - 1) / sum_group_of(o) + 1;
}
// Returns how many scales an output has.
inline std::size_t scale_groups(const rapt_linear_options &o) {
  return o.scale_group ? (o.in_features - 1) / o.scale_group + 1 : 1;
}
// Returns how many inputs share a scale of x, and how many scales a row of x has.
inline std::size_t x_group_of(const rapt_linear_options &o) {
  const std::size_t group = o.x_group ? o.x_group : o.scale_group ? o.scale_group : SIZE_MAX;
  return group < o.in_features ? group : o.in_features;
}
inline std::size_t x_groups(const rapt_linear_options &o) { return (o.in_features - 1) / x_group_of(o) + 1; }

// Holds the arguments of the public functions, with every default filled in.
struct LinearCall {
  const void *x = nullptr;
  const void *w = nullptr;
  void *y = nullptr;
  rapt_linear_options options{};
  // Convolutions have these, or null. A number of the arithmetic type for each row is added like a bias. With offsets,
  // one for each input, the weight of output n and input k is at w + w_offsets[k] + n. Weights have the arithmetic type
  // then, and may be read up to 64 elements behind the last.
  const void *row_bias = nullptr;
  const std::ptrdiff_t *w_offsets = nullptr;

  // Row r of the call reads this row of x, and writes this row of y.
  std::size_t x_row(std::size_t r) const { return options.x_rows ? options.x_rows[r] : r; }
  std::size_t y_row(std::size_t r) const { return options.y_rows ? options.y_rows[r] : r; }

  template <class E>
  const E *x_at(std::size_t r) const {
    return static_cast<const E *>(x) + options.x_strides.row * static_cast<std::ptrdiff_t>(x_row(r));
  }
  template <class E>
  const E *w_at(std::size_t output, std::size_t input) const {
    return static_cast<const E *>(w) + options.w_strides.row * static_cast<std::ptrdiff_t>(output) +
           options.w_strides.column * static_cast<std::ptrdiff_t>(input);
  }
  template <class E>
  E *y_at(std::size_t r, std::size_t output) const {
    return static_cast<E *>(y) + options.y_stride * static_cast<std::ptrdiff_t>(y_row(r)) + output;
  }
  template <class E>
  const E *add_at(std::size_t r, std::size_t output) const {
    return static_cast<const E *>(options.add) + options.add_stride * static_cast<std::ptrdiff_t>(y_row(r)) +
           output;
  }
  template <class A>
  A row_scale(std::size_t r) const {
    return static_cast<const A *>(options.row_scales)[r];
  }
};

// In bf16 arithmetic, this many outputs of the same rows may be computed together.
inline constexpr std::size_t most_outputs_in_bf16 = 512;

// Counts the elements of the arithmetic type in a thread's workspace. Parts that AMX uses begin with a cache line.
//
//   rows          a task's rows of x in the order of the tiles; up to 16 elements after them are overwritten.
//                 In bf16 and i8 arithmetic they may be AMX's tiles of 16 rows and 64 bytes instead
//   sums          the sums of the task's outputs
//   weights       two blocks of weights
//   scales        the scales and offsets of a block of quantized weights, its zeros as f32 and as bytes
//   row_numbers   three numbers per row and group of the sum, for quantized weights
//   row_integers  a row as integers, in i8 arithmetic
struct LinearWorkspace {
  static constexpr std::size_t smallest_group = 16,
                               block_scales = linear_sum_group / smallest_group * linear_block,
                               integers_at_once = 32;

  std::size_t padded_rows;  // AMX also computes sums of rows that do not exist
  std::size_t rows, sums, weights, scales = 0, row_numbers = 0, row_integers = 0;

  explicit LinearWorkspace(const rapt_linear_options &o) : weights(2 * linear_block * linear_sum_group) {
    const LinearTasks tasks(o);
    const auto up_to = [](std::size_t n, std::size_t unit) { return (n + unit - 1) / unit * unit; };
    const std::size_t row_count = tasks.rows_per_task(), inputs = o.in_features;
    padded_rows = LinearTasks::has_kernels_by_amx(o) ? up_to(row_count, 16) : row_count;
    rows = row_count * inputs + 16;
    sums = padded_rows * tasks.outputs_per_task();
    if (o.arithmetic == RAPT_ARITHMETIC_BF16) {
      const std::size_t tiles = padded_rows * up_to(inputs, 32) / 2;
      rows = up_to(rows > tiles ? rows : tiles, 16);
      sums = padded_rows * most_outputs_in_bf16;
    } else if (o.arithmetic == RAPT_ARITHMETIC_I8) {
      const std::size_t words = row_count * up_to(inputs, 8) / 2,
                        tiles = padded_rows * sum_groups_of(o) * up_to(sum_group_of(o), 64) / 4;
      rows = up_to(words > tiles ? words : tiles, 16);
      row_integers = up_to(inputs + integers_at_once, 64) / 4;
    }
    if (is_quantized(o.w_type)) {
      scales = 3 * block_scales + block_scales / sizeof(float);
      row_numbers = 3 * padded_rows * sum_groups_of(o);
    }
  }
  std::size_t before_row_numbers() const { return rows + sums + weights + scales; }
  std::size_t before_row_integers() const { return before_row_numbers() + row_numbers; }
  std::size_t length() const { return before_row_integers() + row_integers; }
};

}  // namespace rapt
