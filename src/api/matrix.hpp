// Describes the memory of matrices of rows: strides, extents and overlap.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rapt {

// Sets a stride of 0 to the length of a row. Returns whether the length is one of memory.
inline bool set_stride(std::ptrdiff_t &stride, std::size_t length) {
  if (stride != 0) return true;
  if (length > std::size_t{PTRDIFF_MAX}) return false;
  stride = static_cast<std::ptrdiff_t>(length);
  return true;
}

// The rows of a Matrix are contiguous, and `stride` elements apart.
struct Matrix {
  const void *data;
  std::ptrdiff_t stride;
  std::size_t rows;
  std::size_t cols;
  std::size_t element_size;

  // Returns whether no rows overlap. A single row may have any stride.
  bool stride_fits() const { return rows <= 1 || (stride >= 0 && std::size_t(stride) >= cols); }

  // Returns the step of a loop over the rows. It is 0 for a single row, whose stride may be any number.
  // Adding such a stride could leave the address space.
  std::ptrdiff_t used_stride() const { return rows <= 1 ? 0 : stride; }

  // Counts the bytes from the first element to the end of the last. Returns false if the count does not fit a
  // ptrdiff_t.
  bool extent(std::size_t &bytes) const {
    if (rows == 0 || cols == 0) {
      bytes = 0;
      return true;
    }
    std::size_t elements = 0;
    if (rows > 1 && __builtin_mul_overflow(rows - 1, std::size_t(stride), &elements)) return false;
    if (__builtin_add_overflow(elements, cols, &elements)) return false;
    return !__builtin_mul_overflow(elements, element_size, &bytes) && bytes <= std::size_t{PTRDIFF_MAX};
  }
};

enum class Overlap { none, exact, partial };

// Returns how two matrices share memory. Matrices whose rows are interleaved in one buffer share no memory.
// Both extents must fit a ptrdiff_t.
inline Overlap overlap(const Matrix &a, const Matrix &b) {
  std::size_t a_bytes = 0, b_bytes = 0;
  (void)a.extent(a_bytes);
  (void)b.extent(b_bytes);
  const auto a_first = reinterpret_cast<std::uintptr_t>(a.data);
  const auto b_first = reinterpret_cast<std::uintptr_t>(b.data);
  if (a_bytes == 0 || b_bytes == 0) return Overlap::none;
  if (a_first + a_bytes <= b_first || b_first + b_bytes <= a_first) return Overlap::none;
  const bool same_steps = a.element_size == b.element_size && (a.rows <= 1 || a.stride == b.stride);
  if (!same_steps) return Overlap::partial;
  if (a_first == b_first) return Overlap::exact;
  if (a.rows > 1 && a.rows == b.rows && a.cols == b.cols) {
    const std::size_t pitch = std::size_t(a.stride) * a.element_size;
    const std::size_t row = a.cols * a.element_size;
    const std::size_t offset = (a_first > b_first ? a_first - b_first : b_first - a_first) % pitch;
    if (offset >= row && pitch - offset >= row) return Overlap::none;
  }
  return Overlap::partial;
}

}  // namespace rapt
