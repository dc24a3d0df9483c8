// Describes the memory that a call reads or writes in a tensor. Every dimension but the innermost has a
// stride.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "rapt/rapt.h"

namespace rapt {

// Reach is the part of a tensor that a call reads or writes: some tokens of some items. An item is a sequence
// or a page.
struct Reach {
  std::size_t first = 0, end = 0;  // the items
  std::size_t first_token = 0;     // the first token, in every item
  std::size_t tokens = 0,
              tokens_of_last = 0;  // tokens from first_token on: the most in any item; in the last item

  static Reach of_all(std::size_t items, std::size_t tokens, std::size_t first_token = 0) {
    return {0, items, first_token, tokens, tokens};
  }
  void cover(std::size_t item, std::size_t count) {
    if (count == 0) return;
    if (tokens == 0 || item < first) first = item;
    if (item >= end) tokens_of_last = 0;
    if (item >= end) end = item + 1;
    if (item + 1 == end && count > tokens_of_last) tokens_of_last = count;
    if (count > tokens) tokens = count;
  }
};

// A Strided is a tensor [items][heads][tokens][row]. Its strides come from resolve_strides(), so none is
// negative.
class Strided {
 public:
  // Makes a tensor that is empty. Only is_empty(), measure() and overlaps() may be called.
  Strided() {}
  Strided(const void *data, const rapt_strides &strides, const Reach &reach, std::size_t heads,
          std::size_t row, std::size_t row_of_last, std::size_t element_size)
      : dims_{{strides.batch, reach.end - reach.first}, {strides.head, heads}, {strides.token, reach.tokens}},
        skipped_{{strides.batch, reach.first}, {strides.token, reach.first_token}},
        data_(reinterpret_cast<std::uintptr_t>(data)),
        row_(row),
        missing_tokens_(reach.tokens - reach.tokens_of_last),
        missing_in_row_(row - row_of_last),
        element_size_(element_size),
        is_empty_(!data || reach.end == reach.first || heads == 0 || reach.tokens == 0 || row == 0) {}
  // Makes a tensor of one row.
  Strided(const void *data, std::size_t row, std::size_t element_size)
      : Strided(data, {0, 0, 0}, Reach::of_all(1, 1), 1, row, row, element_size) {}

  // Returns whether no two rows share an element. Every dimension must step over all dimensions of smaller
  // stride. This rule also refuses some interleaved rows that share no element. measure() must have returned
  // true.
  bool rows_are_apart() const { return rows_are_apart(false); }
  // Like rows_are_apart(), but a stride of 0 may make several rows the same memory.
  bool rows_are_apart_or_same() const { return rows_are_apart(true); }

  // Finds the bytes from the first element to the end of the last. Returns false if an offset of these bytes
  // does not fit a ptrdiff_t.
  bool measure() {
    bytes_ = 0;
    if (is_empty_) return true;
    std::size_t skipped = 0, elements = row_, end;
    for (const Dim &dim : skipped_) {
      if (!add(dim.stride, dim.count, skipped)) return false;
    }
    for (const Dim &dim : dims_) {
      if (!add(dim.stride, dim.count - 1, elements)) return false;
    }
    if (__builtin_add_overflow(skipped, elements, &end) || __builtin_mul_overflow(end, element_size_, &end) ||
        end > std::size_t{PTRDIFF_MAX}) {
      return false;
    }
    // The last item may be shorter than the others. Then the tensor ends with the last item or with the item
    // before it.
    const Dim &items = dims_[0], &tokens = dims_[2];
    std::size_t missing = missing_in_row_ + missing_tokens_ * static_cast<std::size_t>(tokens.stride);
    if (items.count > 1 && missing > static_cast<std::size_t>(items.stride)) {
      missing = static_cast<std::size_t>(items.stride);
    }
    first_ = data_ + skipped * element_size_;
    bytes_ = (elements - missing) * element_size_;
    return true;
  }

  bool is_empty() const { return is_empty_; }

  bool overlaps(const void *data, std::size_t bytes) const {
    const auto other = reinterpret_cast<std::uintptr_t>(data);
    return bytes > 0 && bytes_ > 0 && first_ < other + bytes && other < first_ + bytes_;
  }

  bool is_exactly(const Strided &other) const {
    for (std::size_t i = 0; i < 3; ++i) {
      if (dims_[i].stride != other.dims_[i].stride || dims_[i].count != other.dims_[i].count) return false;
    }
    return first_ == other.first_ && row_ == other.row_ && element_size_ == other.element_size_;
  }

  // Returns whether the tensors may share an element. Slices of one buffer share no element, such as q, k and
  // v in [batch, token, 3, head, dim]. This function recognizes slices by a stride, the pitch. All larger
  // strides must be multiples of the pitch, and both tensors must cover different parts of every pitch.
  bool overlaps(const Strided &other) const {
    if (!overlaps(reinterpret_cast<const void *>(other.first_), other.bytes_)) return false;
    if (element_size_ != other.element_size_) return true;
    for (const Strided *tensor : {this, &other}) {
      for (const Dim &dim : tensor->dims_) {
        if (dim.stride != 0 && is_apart_within(static_cast<std::size_t>(dim.stride), other)) return false;
      }
    }
    return true;
  }

 private:
  bool rows_are_apart(bool may_repeat) const {
    if (is_empty_) return true;
    Dim sorted[3] = {dims_[0], dims_[1], dims_[2]};
    const auto order = [&](Dim &a, Dim &b) {
      if (b.stride < a.stride) {
        const Dim swap = a;
        a = b;
        b = swap;
      }
    };
    order(sorted[0], sorted[1]);
    order(sorted[1], sorted[2]);
    order(sorted[0], sorted[1]);
    std::size_t extent = row_;
    for (const Dim &dim : sorted) {
      if (dim.count <= 1 || (may_repeat && dim.stride == 0)) continue;
      if (static_cast<std::size_t>(dim.stride) < extent) return false;
      extent += static_cast<std::size_t>(dim.stride) * (dim.count - 1);
    }
    return true;
  }

  struct Dim {
    std::ptrdiff_t stride;
    std::size_t count;
  };

  // Adds steps * stride to `sum`. Returns false if the sum overflows.
  static bool add(std::ptrdiff_t stride, std::size_t steps, std::size_t &sum) {
    std::size_t extent;
    return !__builtin_mul_overflow(static_cast<std::size_t>(stride), steps, &extent) &&
           !__builtin_add_overflow(sum, extent, &sum);
  }

  bool is_apart_within(std::size_t pitch, const Strided &other) const {
    std::size_t width, other_width;
    if (!width_within(pitch, width) || !other.width_within(pitch, other_width)) return false;
    const std::size_t bytes = pitch * element_size_;
    const std::size_t distance = other.first_ >= first_ ? (other.first_ - first_) % bytes
                                                        : (bytes - (first_ - other.first_) % bytes) % bytes;
    return distance >= width * element_size_ && bytes - distance >= other_width * element_size_;
  }
  // Sets `width` to the length of the part of every pitch that the tensor may use, from the tensor's first
  // element on. Returns false if that part is longer than a pitch.
  bool width_within(std::size_t pitch, std::size_t &width) const {
    width = row_;
    for (const Dim &dim : dims_) {
      const std::size_t stride = static_cast<std::size_t>(dim.stride);
      if (stride % pitch != 0) width += stride * (dim.count - 1);
    }
    return width <= pitch;
  }

  Dim dims_[3];     // item, head, token
  Dim skipped_[2];  // items and tokens before the first
  std::uintptr_t data_, first_ = 0;
  std::size_t row_;
  std::size_t missing_tokens_, missing_in_row_;  // how much shorter the last item is
  std::size_t element_size_, bytes_ = 0;
  bool is_empty_ = true;
};

}  // namespace rapt
