// Measures the memory that a call of rapt_linear reads and writes, and refuses overlap. Of matrices with a list of
// rows, only the listed rows count.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/strided.hpp"
#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "call/quantized_weights.hpp"

namespace rapt {
namespace {

// A matrix whose rows are all rows from 0 on, or those of a list. A place is the number of a row in memory.
class ListedRows {
 public:
  // A row has `tokens` pieces of `row` contiguous elements.
  ListedRows(const void *data, rapt_matrix_strides strides, std::size_t rows, const std::size_t *list,
             std::size_t tokens, std::size_t row, std::size_t element_size)
      : data_(data),
        strides_(strides),
        rows_(strides.row == 0 && rows > 1 ? 1 : rows),
        list_(list),
        tokens_(tokens),
        row_(row),
        element_size_(element_size) {}
  // Describes an array in one piece.
  ListedRows(const void *data, std::size_t count, std::size_t element_size)
      : ListedRows(data, {0, 0}, 1, nullptr, 1, count, element_size) {}

  std::size_t rows() const { return rows_; }
  bool is_listed() const { return list_ != nullptr; }
  // The following functions need measure() to have returned true.
  bool ascends() const { return ascends_; }
  bool has_gaps_in_rows() const { return tokens_ > 1 && strides_.column > 1; }
  const Strided &whole() const { return whole_; }

  // Finds the memory from the first row to the last. Returns false if its size does not fit the address space.
  bool measure() {
    if (!data_ || rows_ == 0) return true;
    std::size_t first = place(0), last = list_ ? first : rows_ - 1;
    for (std::size_t r = 1, before = first; list_ && r < rows_; ++r) {
      const std::size_t next = place(r);
      ascends_ = ascends_ && next >= before;
      if (next < first) first = next;
      if (next > last) last = next;
      before = next;
    }
    whole_ = between(first, last);
    return whole_.measure();
  }
  Strided one(std::size_t r) const { return measured(place(r), place(r)); }
  // Returns some of these rows in the order of another list.
  ListedRows in_order_of(const std::size_t *places, std::size_t count) const {
    return {data_, strides_, count, places, tokens_, row_, element_size_};
  }
  // The row after the largest number would be row 0. Its neighbour is the same memory, or fits no memory either.
  std::size_t place(std::size_t r) const {
    return !list_ ? r : list_[r] == SIZE_MAX ? SIZE_MAX - 1 : list_[r];
  }
  bool is_exactly(const ListedRows &other) const {
    return data_ == other.data_ && strides_.row == other.strides_.row && element_size_ == other.element_size_;
  }

  // Returns whether rows [first, last) of an ascending list may share an element with `other`, in about log2(last -
  // first) steps. If rows of either have gaps, those of several rows may show that they share nothing.
  bool any_overlaps(std::size_t first, std::size_t last, const Strided &other, bool have_gaps) const {
    const std::size_t from = place(first), to = place(last - 1);
    const bool is_one = last - first == 1;
    if (!other.overlaps(address(from), (to - from) * bytes_from_row_to_row() + bytes_of_row())) return false;
    if ((is_one || have_gaps) && !measured(from, to).overlaps(other)) return false;
    if (is_one) return true;
    const std::size_t middle = first + (last - first) / 2;
    return any_overlaps(first, middle, other, have_gaps) || any_overlaps(middle, last, other, have_gaps);
  }

 private:
  Strided between(std::size_t first, std::size_t last) const {
    const Reach reach{first, last + 1, 0, tokens_, tokens_};
    return {data_, {strides_.row, 0, strides_.column}, reach, 1, row_, row_, element_size_};
  }
  Strided measured(std::size_t first, std::size_t last) const {
    Strided rows = between(first, last);
    rows.measure();
    return rows;
  }
  std::size_t bytes_from_row_to_row() const { return static_cast<std::size_t>(strides_.row) * element_size_; }
  std::size_t bytes_of_row() const {
    return (static_cast<std::size_t>(strides_.column) * (tokens_ - 1) + row_) * element_size_;
  }
  const void *address(std::size_t place) const {
    return static_cast<const char *>(data_) + place * bytes_from_row_to_row();
  }

  const void *data_;
  rapt_matrix_strides strides_;
  std::size_t rows_;
  const std::size_t *list_;
  std::size_t tokens_, row_, element_size_;
  bool ascends_ = true;
  Strided whole_;
};

// Sorts numbers in place.
inline void heap_sort(std::size_t *numbers, std::size_t count) {
  const auto exchange = [&](std::size_t i, std::size_t j) {
    const std::size_t kept = numbers[i];
    numbers[i] = numbers[j];
    numbers[j] = kept;
  };
  const auto sink = [&](std::size_t i, std::size_t end) {
    for (std::size_t child = 2 * i + 1; child < end; i = child, child = 2 * i + 1) {
      if (child + 1 < end && numbers[child + 1] > numbers[child]) ++child;
      if (numbers[i] >= numbers[child]) return;
      exchange(i, child);
    }
  };
  for (std::size_t i = count / 2; i-- > 0;) sink(i, count);
  for (std::size_t end = count; end > 1;) {
    exchange(0, --end);
    sink(0, end);
  }
}

struct RowRange {
  std::size_t first, last;
};

// Returns whether the matrix `a` and some rows of `b` may share an element. Most calls are decided by all rows at once.
// Otherwise each row of one matrix is looked up in the other, whose rows ascend. Where none ascends, sorted parts of
// b's list do.
inline bool overlap(const ListedRows &a, const ListedRows &b, RowRange of_b) {
  if (!a.whole().overlaps(b.whole())) return false;
  if (!a.is_listed() && !b.is_listed()) return true;
  const bool have_gaps = a.has_gaps_in_rows() || b.has_gaps_in_rows();
  const auto any_overlap = [&](const ListedRows &rows, RowRange of_rows, const ListedRows &ascending,
                               RowRange of_ascending) {
    for (std::size_t r = of_rows.first; r < of_rows.last; ++r) {
      if (ascending.any_overlaps(of_ascending.first, of_ascending.last, rows.one(r), have_gaps)) return true;
    }
    return false;
  };
  const RowRange of_a{0, a.rows()};
  if (a.ascends()) return any_overlap(b, of_b, a, of_a);
  if (b.ascends()) return any_overlap(a, of_a, b, of_b);
  constexpr std::size_t most = 2048;
  std::size_t places[most];
  for (std::size_t first = of_b.first; first < of_b.last; first += most) {
    const std::size_t count = of_b.last - first < most ? of_b.last - first : most;
    for (std::size_t i = 0; i < count; ++i) places[i] = b.place(first + i);
    heap_sort(places, count);
    if (any_overlap(a, of_a, b.in_order_of(places, count), {0, count})) return true;
  }
  return false;
}

// Returns how many rows of w_scales the outputs [first, first + outputs) have. The options name outputs_per_scale.
inline std::size_t rows_of_scales(const rapt_linear_options &o, std::size_t first, std::size_t outputs) {
  if (o.outputs_per_scale <= 1 || outputs == 0) return outputs;
  if (o.outputs_per_scale == SIZE_MAX) return 1;
  return (first + outputs - 1) / o.outputs_per_scale - first / o.outputs_per_scale + 1;
}
// Returns the arrays of plain quantized weights for outputs [first, first + outputs). Those that are not given are
// empty.
struct ScaleArrays {
  ListedRows scales, zeros, offsets, codebook;
};
inline ScaleArrays scale_arrays(const rapt_linear_options &o, std::size_t first, std::size_t outputs) {
  const std::size_t groups = is_quantized(o.w_type) ? scale_groups(o) : 0, count = outputs * groups;
  const std::size_t size = o.w_scale_type == RAPT_TYPE_DEFAULT ? sizeof(float) : size_of(o.w_scale_type);
  return {{o.w_scales, rows_of_scales(o, first, outputs) * groups * size, 1},
          {o.w_zeros, count, 1},
          {o.w_offsets, count * size, 1},
          {o.w_codebook, 16 * sizeof(float), 1}};
}

// Checks other arrays that a call reads than check_arrays(), which must have accepted the call.
class ReadBesides {
 public:
  ReadBesides(const LinearCall &call, ListedRows workspace, RowRange own)
      : y_(call.y, {call.options.y_stride, 0}, call.options.rows, call.options.y_rows, 1,
           call.options.out_features, size_of(call.options.y_type)),
        workspace_(workspace),
        own_(own) {
    (void)y_.measure();
    (void)workspace_.measure();
  }
  rapt_status check(ListedRows array) const {
    if (!array.measure()) return RAPT_BAD_SIZE;
    if (overlap(array, y_, own_)) return RAPT_BAD_OVERLAP;
    return overlap(workspace_, array, {0, array.rows()}) ? RAPT_BAD_WORKSPACE : RAPT_OK;
  }

 private:
  ListedRows y_, workspace_;
  RowRange own_;
};

// The options of `call` must have been resolved, and no pointer may be missing. w has packed_bytes bytes if it
// is packed, and rows of w_columns elements if not. The call writes only its own rows of y.
inline rapt_status check_arrays(const LinearCall &call, std::size_t packed_bytes, std::size_t w_columns,
                                ListedRows workspace, RowRange own) {
  const rapt_linear_options &o = call.options;
  const std::size_t number = number_size(o.x_type), groups = o.x_scales ? x_groups(o) : 0;
  const ListedRows x{call.x, o.x_strides, o.rows, o.x_rows, o.in_features, 1, size_of(o.x_type)};
  ListedRows y{call.y, {o.y_stride, 0}, o.rows, o.y_rows, 1, o.out_features, size_of(o.y_type)};
  ListedRows add{o.add, {o.add_stride, 0}, o.rows, o.y_rows, 1, o.out_features, size_of(o.add_type)};
  const ListedRows plain{call.w, o.w_strides, o.out_features, nullptr, w_columns, 1, size_of(o.w_type)};
  const auto [scales, zeros, offsets, codebook] = scale_arrays(o, 0, o.out_features);
  const rapt_matrix_strides of_groups{static_cast<std::ptrdiff_t>(groups), 0};
  ListedRows reads[] = {x,
                        o.packed_w ? ListedRows(call.w, packed_bytes, 1) : plain,
                        {o.bias, o.out_features, number},
                        {o.output_scales, o.out_features, number},
                        {o.row_scales, o.rows, number},
                        scales,
                        zeros,
                        offsets,
                        codebook,
                        {o.x_scales, of_groups, o.rows, o.x_rows, 1, groups, sizeof(float)},
                        {o.x_rows, o.rows, sizeof(std::size_t)},
                        {o.y_rows, o.rows, sizeof(std::size_t)}};
  bool fit = y.measure() && add.measure() && workspace.measure();
  for (ListedRows &array : reads) fit = array.measure() && fit;
  if (!fit) return RAPT_BAD_SIZE;
  const bool add_is_y = o.add_type == o.y_type && add.is_exactly(y);
  for (const ListedRows &array : reads) {
    if (overlap(array, y, own)) return RAPT_BAD_OVERLAP;
  }
  if (!add_is_y && overlap(add, y, own)) return RAPT_BAD_OVERLAP;
  const auto is_in_workspace = [&](const ListedRows &array) {
    return overlap(workspace, array, {0, array.rows()});
  };
  for (const ListedRows &array : reads) {
    if (is_in_workspace(array)) return RAPT_BAD_WORKSPACE;
  }
  return is_in_workspace(add) || is_in_workspace(y) ? RAPT_BAD_WORKSPACE : RAPT_OK;
}

}  // namespace
}  // namespace rapt
