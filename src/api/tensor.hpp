// Describes tensors of up to RAPT_MAX_DIMS dimensions with any strides: their extent, whether elements coincide or
// overlap, and the loops over several of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "rapt/rapt.h"

namespace rapt {

enum class Repeats { no, yes };

// Strides are those of kernels: 0 for a dimension that repeats or has one index.
struct Tensor {
  const void *data = nullptr;
  std::size_t element_size = 0, dims = 0;
  const std::size_t *shape = nullptr;
  std::ptrdiff_t strides[RAPT_MAX_DIMS] = {};
  std::size_t bytes = 0;  // from the first element to the end of the last

  // Reads a caller's strides. If all are 0, the tensor is contiguous in row-major order. Returns `bad` for a missing or
  // negative stride, and RAPT_BAD_SIZE if the extent does not fit the address space.
  rapt_status read(const void *from, std::size_t size, std::size_t count, const std::size_t *sizes,
                   const std::ptrdiff_t *given, Repeats repeats, rapt_status bad) {
    data = from, element_size = size, dims = count, shape = sizes;
    bool is_contiguous = true, is_empty = false;
    for (std::size_t d = 0; d < dims; ++d) {
      is_contiguous = is_contiguous && given[d] == 0;
      is_empty = is_empty || shape[d] == 0;
    }
    // Of a tensor without elements, no stride is read.
    for (std::size_t d = 0; d < dims; ++d) strides[d] = 0;
    if (is_empty) return RAPT_OK;
    std::size_t contiguous = 1, last = 0;
    for (std::size_t d = dims; d-- > 0;) {
      if (is_contiguous) {
        if (contiguous > std::size_t{PTRDIFF_MAX}) return RAPT_BAD_SIZE;
        if (shape[d] > 1) strides[d] = static_cast<std::ptrdiff_t>(contiguous);
        if (__builtin_mul_overflow(contiguous, shape[d], &contiguous)) return RAPT_BAD_SIZE;
      } else if (given[d] == RAPT_REPEAT) {
        if (repeats == Repeats::no && shape[d] > 1) return bad;
      } else if (given[d] < 0 || (given[d] == 0 && shape[d] > 1)) {
        return bad;
      } else if (shape[d] > 1) {
        strides[d] = given[d];
      }
      std::size_t reach;
      if (strides[d] != 0 && (__builtin_mul_overflow(std::size_t(strides[d]), shape[d] - 1, &reach) ||
                              __builtin_add_overflow(last, reach, &last))) {
        return RAPT_BAD_SIZE;
      }
    }
    if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, element_size, &bytes) ||
        bytes > std::size_t{PTRDIFF_MAX}) {
      return RAPT_BAD_SIZE;
    }
    return RAPT_OK;
  }

  // Returns whether no two elements coincide. Every dimension must step over all dimensions of smaller stride, which
  // also refuses some interleaved dimensions.
  bool elements_are_apart() const {
    std::size_t order[RAPT_MAX_DIMS], extent = 1;
    by_stride(order);
    for (std::size_t i = 0; i < dims; ++i) {
      const std::size_t count = shape[order[i]], stride = std::size_t(strides[order[i]]);
      if (count <= 1) continue;
      if (stride < extent) return false;
      extent += stride * (count - 1);
    }
    return true;
  }

  bool overlaps(const void *other, std::size_t size) const {
    const auto first = reinterpret_cast<std::uintptr_t>(data), at = reinterpret_cast<std::uintptr_t>(other);
    return bytes > 0 && size > 0 && first < at + size && at < first + bytes;
  }

  // Returns whether the tensors may share an element. Slices of one buffer share none: some stride is a pitch of which
  // all larger strides of both are multiples, and the tensors cover different parts of every pitch.
  bool overlaps(const Tensor &other) const {
    if (!overlaps(other.data, other.bytes)) return false;
    if (element_size != other.element_size) return true;
    for (const Tensor *tensor : {this, &other}) {
      for (std::size_t d = 0; d < tensor->dims; ++d) {
        if (tensor->strides[d] != 0 && is_apart_within(std::size_t(tensor->strides[d]), other)) return false;
      }
    }
    return true;
  }

  bool is_exactly(const Tensor &other) const {
    for (std::size_t d = 0; d < dims; ++d) {
      if (strides[d] != other.strides[d]) return false;
    }
    return data == other.data && element_size == other.element_size;
  }

 private:
  // Sorts the dimensions, the smallest stride first.
  void by_stride(std::size_t (&order)[RAPT_MAX_DIMS]) const {
    for (std::size_t i = 0; i < dims; ++i) {
      std::size_t at = i;
      for (; at > 0 && strides[order[at - 1]] > strides[i]; --at) order[at] = order[at - 1];
      order[at] = i;
    }
  }
  bool is_apart_within(std::size_t pitch, const Tensor &other) const {
    std::size_t width, other_width;
    if (!width_within(pitch, width) || !other.width_within(pitch, other_width)) return false;
    const auto first = reinterpret_cast<std::uintptr_t>(data),
               other_first = reinterpret_cast<std::uintptr_t>(other.data);
    const std::size_t length = pitch * element_size;
    const std::size_t distance = other_first >= first ? (other_first - first) % length
                                                      : (length - (first - other_first) % length) % length;
    return distance >= width * element_size && length - distance >= other_width * element_size;
  }
  // Finds the part of every pitch that the tensor may use, from its first element on. Returns false if that is longer
  // than a pitch.
  bool width_within(std::size_t pitch, std::size_t &width) const {
    width = 1;
    for (std::size_t d = 0; d < dims; ++d) {
      const std::size_t stride = std::size_t(strides[d]);
      if (stride % pitch != 0) width += stride * (shape[d] - 1);
    }
    return width <= pitch;
  }
};

// Loops over the elements of several tensors of one shape: the outermost dimension first, and of dimensions of one
// index none.
template <std::size_t tensors>
struct Loops {
  std::size_t dims = 0, shape[RAPT_MAX_DIMS];
  std::ptrdiff_t strides[tensors][RAPT_MAX_DIMS];

  void add(std::size_t count, const std::ptrdiff_t (&steps)[tensors]) {
    if (count == 1) return;
    bool continues = dims > 0;
    for (std::size_t t = 0; t < tensors && continues; ++t) {
      std::ptrdiff_t whole;
      continues = !__builtin_mul_overflow(steps[t], static_cast<std::ptrdiff_t>(count), &whole) &&
                  strides[t][dims - 1] == whole;
    }
    // Where every tensor goes on without a gap, two dimensions are one.
    if (!continues) shape[dims++] = 1;
    shape[dims - 1] *= count;
    for (std::size_t t = 0; t < tensors; ++t) strides[t][dims - 1] = steps[t];
  }
};

}  // namespace rapt
