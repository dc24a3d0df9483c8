// Shapes and rows of ggml's tensors. ne has elements and nb has bytes, both with the fastest dimension first. A row is
// a tensor's first dimension; rows are numbered over the other three.
#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "ggml/formats.hpp"
#include "ggml/host.hpp"

namespace rapt_ggml {

using Tensor = const ggml_tensor *;

inline std::byte *bytes_of(Tensor t) { return static_cast<std::byte *>(t->data); }
template <class Element>
Element *elements_of(std::byte *p) {
  return reinterpret_cast<Element *>(p);
}

inline std::size_t extent(Tensor t, int dim) { return static_cast<std::size_t>(t->ne[dim]); }
// Of a block, where elements come in blocks. The host knows more types than rapt.
inline std::size_t element_size(Tensor t) { return host().type_traits(t->type)->type_size; }
inline std::size_t elements_in_block(Tensor t) {
  return static_cast<std::size_t>(host().type_traits(t->type)->blck_size);
}
inline std::size_t element_count(Tensor t) {
  return extent(t, 0) * extent(t, 1) * extent(t, 2) * extent(t, 3);
}
inline std::size_t row_count(Tensor t) { return extent(t, 1) * extent(t, 2) * extent(t, 3); }
inline bool is_empty(Tensor t) { return t->ne[0] == 0 || t->ne[1] == 0 || t->ne[2] == 0 || t->ne[3] == 0; }
inline bool is_type(Tensor t, std::initializer_list<ggml_type> types) {
  for (const ggml_type type : types) {
    if (t->type == type) return true;
  }
  return false;
}
inline bool is_float(Tensor t) { return float_type(t->type).has_value(); }

inline std::int32_t int_param(Tensor t, int i) { return t->op_params[i]; }
inline float float_param(Tensor t, int i) {
  float value;
  std::memcpy(&value, &t->op_params[i], sizeof value);
  return value;
}

// Bytes of a row without gaps.
inline std::size_t row_bytes(Tensor t) { return extent(t, 0) / elements_in_block(t) * element_size(t); }

// Bytes from the first byte to the last one.
inline std::size_t span_bytes(Tensor t) {
  if (is_empty(t)) return 0;
  std::size_t bytes =
      elements_in_block(t) == 1 ? (extent(t, 0) - 1) * t->nb[0] + element_size(t) : row_bytes(t);
  for (int dim = 1; dim < 4; ++dim) bytes += (extent(t, dim) - 1) * t->nb[dim];
  return bytes;
}

inline bool same_shape(Tensor a, Tensor b) {
  return a->ne[0] == b->ne[0] && a->ne[1] == b->ne[1] && a->ne[2] == b->ne[2] && a->ne[3] == b->ne[3];
}

// The elements of a row follow each other.
inline bool has_dense_rows(Tensor t) { return t->nb[0] == element_size(t); }

inline bool is_contiguous(Tensor t) {
  if (t->ne[0] != static_cast<std::int64_t>(elements_in_block(t)) && !has_dense_rows(t)) return false;
  std::size_t next = row_bytes(t);
  for (int dim = 1; dim < 4; ++dim) {
    if (t->ne[dim] != 1 && t->nb[dim] != next) return false;
    next *= extent(t, dim);
  }
  return true;
}

// Strides count whole elements: rapt's arrays have no others.
inline bool has_whole_strides(Tensor t) {
  for (int dim = 0; dim < 4; ++dim) {
    if (t->nb[dim] % element_size(t) != 0) return false;
  }
  return true;
}
inline std::ptrdiff_t stride(Tensor t, int dim) {
  return static_cast<std::ptrdiff_t>(t->nb[dim] / element_size(t));
}

// The stride of all rows in elements, if they are equally far from each other.
inline std::optional<std::ptrdiff_t> row_stride(Tensor t) {
  std::size_t step = 0, rows = 1;
  for (int dim = 1; dim < 4; ++dim) {
    if (t->ne[dim] == 1) continue;
    if (rows == 1) {
      step = t->nb[dim];
    } else if (t->nb[dim] != step * rows) {
      return std::nullopt;
    }
    rows *= extent(t, dim);
  }
  return rows == 1 ? static_cast<std::ptrdiff_t>(extent(t, 0))
                   : static_cast<std::ptrdiff_t>(step / element_size(t));
}

// Where a row is along the other three dimensions.
struct RowPlace {
  std::size_t i1, i2, i3;
};
inline RowPlace place_of_row(Tensor t, std::size_t row) {
  const std::size_t n1 = extent(t, 1), n2 = extent(t, 2);
  return {row % n1, row / n1 % n2, row / n1 / n2};
}
inline std::byte *row_at(Tensor t, const RowPlace &at) {
  return bytes_of(t) + at.i1 * t->nb[1] + at.i2 * t->nb[2] + at.i3 * t->nb[3];
}
inline std::byte *row_of(Tensor t, std::size_t row) { return row_at(t, place_of_row(t, row)); }

// The row of t that belongs to row `row` of `like`: t repeats along the dimensions in which it is shorter.
inline std::byte *repeated_row(Tensor t, Tensor like, std::size_t row) {
  const auto [i1, i2, i3] = place_of_row(like, row);
  return row_at(t, {i1 % extent(t, 1), i2 % extent(t, 2), i3 % extent(t, 3)});
}

// The tensor that owns the memory of a view.
inline Tensor root_of(Tensor t) { return t->view_src ? t->view_src : t; }

}  // namespace rapt_ggml
