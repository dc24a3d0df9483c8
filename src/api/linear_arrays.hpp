// Measures the memory that a call of rapt_linear reads and writes, and refuses overlap. Of x, y and add,
// only the listed rows count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "api/strided.hpp"
#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "call/quantized_weights.hpp"

namespace rapt {
namespace {

// Describes a matrix whose rows are all rows from 0 on, or those of a list.
struct ListedRows {
  const void *data;
  rapt_matrix_strides strides;
  std::size_t rows;
  const std::size_t *list;
  std::size_t tokens, row;  // a row has `tokens` pieces of `row` contiguous elements
  std::size_t element_size;

  // Returns the memory from the first row to the last.
  Strided all() const {
    std::size_t first = list ? place(0) : 0, last = list ? first : rows - 1;
    for (std::size_t r = 0; list && r < rows; ++r) {
      const std::size_t row_of_memory = place(r);
      if (row_of_memory < first) first = row_of_memory;
      if (row_of_memory > last) last = row_of_memory;
    }
    return of(first, last + 1);
  }
  Strided one(std::size_t r) const {
    const std::size_t row_of_memory = list ? place(r) : r;
    return of(row_of_memory, row_of_memory + 1);
  }
  bool is_exactly(const ListedRows &other) const {
    return data == other.data && strides.row == other.strides.row && element_size == other.element_size;
  }

 private:
  // The row after the largest number would be row 0. Its neighbour is the same memory, or fits no memory either.
  std::size_t place(std::size_t r) const { return list[r] == SIZE_MAX ? SIZE_MAX - 1 : list[r]; }
  Strided of(std::size_t first, std::size_t end) const {
    const Reach reach{first, end, 0, tokens, tokens};
    return {data, {strides.row, 0, strides.column}, reach, 1, row, row, element_size};
  }
};

// Returns whether the matrices may share an element. Most calls are decided by all rows at once.
inline bool overlap(const ListedRows &a, const ListedRows &b) {
  Strided all_a = a.all(), all_b = b.all();
  if (!all_a.measure() || !all_b.measure() || !all_a.overlaps(all_b)) return false;
  if (!a.list && !b.list) return true;
  for (std::size_t r = 0; r < a.rows; ++r) {
    Strided row = a.one(r);
    for (std::size_t s = 0; row.measure() && s < b.rows; ++s) {
      Strided other = b.one(s);
      if (other.measure() && row.overlaps(other)) return true;
    }
  }
  return false;
}

// Returns the arrays of plain quantized weights for a number of outputs. Those that are not given are empty.
struct ScaleArrays {
  Strided scales, zeros, offsets, codebook;
};
inline ScaleArrays scale_arrays(const rapt_linear_options &o, std::size_t outputs) {
  const std::size_t count = is_quantized(o.w_type) ? outputs * scale_groups(o) : 0;
  const std::size_t size = o.w_scale_type == RAPT_TYPE_DEFAULT ? sizeof(float) : size_of(o.w_scale_type);
  return {{o.w_scales, count * size, 1},
          {o.w_zeros, count, 1},
          {o.w_offsets, count * size, 1},
          {o.w_codebook, 16 * sizeof(float), 1}};
}

// The options of `call` must have been resolved, and no pointer may be missing. w has packed_bytes bytes if it
// is packed, and rows of w_columns elements if not.
inline rapt_status check_arrays(const LinearCall &call, std::size_t packed_bytes, std::size_t w_columns,
                                Strided workspace) {
  const rapt_linear_options &o = call.options;
  const std::size_t number = number_size(o.x_type);
  const ListedRows x{call.x, o.x_strides, o.rows, o.x_rows, o.in_features, 1, size_of(o.x_type)};
  const ListedRows y{call.y, {o.y_stride, 0}, o.rows, o.y_rows, 1, o.out_features, size_of(o.y_type)};
  const ListedRows add{o.add, {o.add_stride, 0}, o.rows, o.y_rows, 1, o.out_features, size_of(o.add_type)};
  const ListedRows plain{call.w, o.w_strides, o.out_features, nullptr, w_columns, 1, size_of(o.w_type)};
  const auto [scales, zeros, offsets, codebook] = scale_arrays(o, o.out_features);
  const ListedRows x_scales{o.x_scales,
                            {static_cast<std::ptrdiff_t>(o.x_scales ? x_groups(o) : 0), 0},
                            o.rows,
                            o.x_rows,
                            1,
                            o.x_scales ? x_groups(o) : 0,
                            sizeof(float)};
  Strided reads[] = {x.all(),
                     o.packed_w ? Strided(call.w, packed_bytes, 1) : plain.all(),
                     add.all(),
                     {o.bias, o.out_features * number, 1},
                     {o.row_scales, o.rows * number, 1},
                     scales,
                     zeros,
                     offsets,
                     codebook,
                     x_scales.all(),
                     {o.x_rows, o.rows * sizeof(std::size_t), 1},
                     {o.y_rows, o.rows * sizeof(std::size_t), 1}};
  Strided writes = y.all();
  bool fit = writes.measure() && workspace.measure();
  for (Strided &array : reads) fit = array.measure() && fit;
  if (!fit) return RAPT_BAD_SIZE;
  const bool add_is_y = o.add_type == o.y_type && add.is_exactly(y);
  if (overlap(x, y) || (o.add && !add_is_y && overlap(add, y))) return RAPT_BAD_OVERLAP;
  constexpr std::size_t weights = 1, first_other = 3;
  for (std::size_t i = 0; i < std::size(reads); ++i) {
    if (workspace.overlaps(reads[i])) return RAPT_BAD_WORKSPACE;
    const bool is_whole = i == weights || i >= first_other;
    if (is_whole && reads[i].overlaps(writes)) return RAPT_BAD_OVERLAP;
  }
  return workspace.overlaps(writes) ? RAPT_BAD_WORKSPACE : RAPT_OK;
}

}  // namespace
}  // namespace rapt
