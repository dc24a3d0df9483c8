// Draws arguments for the softmax functions, and computes the errors that rapt.h requires or allows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "fuzz/support/fuzz_input.hpp"
#include "fuzz/support/fuzz_memory.hpp"
#include "fuzz/support/levels.hpp"

namespace rapt::test {

inline constexpr std::size_t few_rows = 5, most_rows = 40, most_cols = 300, cols_of_many_rows = 25;

// Draws few rows, or many short rows, which softmax computes in groups. Sometimes draws sizes that no memory
// can hold.
struct FuzzShape {
  explicit FuzzShape(FuzzInput &input) {
    const std::size_t draw = input.below(65536);
    rows = draw < 32768 ? draw % (few_rows + 1) : few_rows + 1 + draw % (most_rows - few_rows);
    cols = input.one_in(6) ? input.below(most_cols) : input.below(70);
    if (rows > few_rows) cols %= cols_of_many_rows + 1;
    constexpr std::size_t huge[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 8 + 1, std::size_t{1} << 62};
    if (input.one_in(24)) rows = huge[input.byte() % 4], wild = true;
    if (input.one_in(24)) cols = huge[input.byte() % 4], wild = true;
  }
  bool any_work() const { return rows > 0 && cols > 0; }

  std::size_t rows, cols;
  bool wild = false;
};

// Draws a stride that fits the row, is too small, or overflows the address space.
inline std::ptrdiff_t fuzz_stride(FuzzInput &input, std::size_t cols) {
  constexpr std::ptrdiff_t bad[] = {0, 1, -1, PTRDIFF_MIN, PTRDIFF_MAX, PTRDIFF_MAX / 2 + 1};
  if (input.one_in(16)) return bad[input.byte() % 6];
  if (input.one_in(32)) return static_cast<std::ptrdiff_t>(cols) - 1;
  return static_cast<std::ptrdiff_t>(cols + (input.one_in(2) ? input.below(6) : 0));
}

inline bool stride_fits(std::size_t rows, std::size_t cols, std::ptrdiff_t stride) {
  return rows <= 1 || (stride >= 0 && static_cast<std::size_t>(stride) >= cols);
}

// Returns the bytes from the first element to the end of the last, or -1 if that is more than PTRDIFF_MAX.
inline std::ptrdiff_t extent_of(std::size_t rows, std::size_t cols, std::ptrdiff_t stride,
                                std::size_t element_size) {
  if (rows == 0 || cols == 0) return 0;
  std::size_t bytes = 0;
  if (rows > 1 && __builtin_mul_overflow(rows - 1, static_cast<std::size_t>(stride), &bytes)) return -1;
  if (__builtin_add_overflow(bytes, cols, &bytes)) return -1;
  if (__builtin_mul_overflow(bytes, element_size, &bytes) || bytes > PTRDIFF_MAX) return -1;
  return static_cast<std::ptrdiff_t>(bytes);
}

struct FuzzMatrix {
  unsigned char *data = nullptr;
  std::ptrdiff_t stride = 0;  // in elements
  std::size_t rows = 0, cols = 0, element_size = 0;

  bool fits() const { return stride_fits(rows, cols, stride); }
  std::ptrdiff_t extent() const { return extent_of(rows, cols, stride, element_size); }
  // Returns whether the harness has memory for the matrix.
  bool is_tame() const {
    return fits() && extent() >= 0 && static_cast<std::size_t>(extent()) <= FuzzMemory::capacity / 16;
  }
  RowsOfBytes bytes() const {
    if (!is_tame() || extent() == 0) return {};
    return {data, rows > 1 ? stride * static_cast<std::ptrdiff_t>(element_size) : 0, rows,
            cols * element_size};
  }
  bool is(const FuzzMatrix &other) const {
    return data == other.data && (rows <= 1 || stride == other.stride);
  }
};

// Places every matrix next to a guard page, or all of them in one buffer, where they may overlap. A matrix
// that is too large gets memory for only a few elements, which no call may touch.
inline void place_all(FuzzInput &input, FuzzMemory &memory, std::initializer_list<FuzzMatrix *> matrices) {
  const bool shared = input.one_in(4);
  const Placement placement = input.one_in(2) ? Placement::begins_at_guard : Placement::ends_at_guard;
  const auto bytes_of = [](const FuzzMatrix &matrix) {
    return matrix.is_tame() ? static_cast<std::size_t>(matrix.extent()) : 4 * matrix.element_size;
  };
  if (!shared) {
    std::size_t index = 0;
    for (FuzzMatrix *matrix : matrices) {
      const std::size_t elements = input.one_in(2) ? input.below(64 / matrix->element_size) : 0;
      matrix->data = memory.place(index++, bytes_of(*matrix), placement, elements * matrix->element_size);
    }
    return;
  }
  std::size_t room = 0;
  for (const FuzzMatrix *matrix : matrices) room += (bytes_of(*matrix) + 7) / 8 * 8;
  unsigned char *begin = memory.place(0, room, placement, input.below(8) * 8);
  const FuzzMatrix *previous = nullptr;
  for (FuzzMatrix *matrix : matrices) {
    const std::size_t last = room - bytes_of(*matrix);
    std::size_t at = input.below(last + 1);
    if (previous) {
      const auto previous_at = static_cast<std::size_t>(previous->data - begin);
      const unsigned choice = input.byte() % 4;
      if (choice == 0) at = previous_at;                                            // in place
      if (choice == 1) at = previous_at + previous->cols * previous->element_size;  // interleaved rows
      if (choice == 2) at = previous_at + bytes_of(*previous);                      // back to back
    }
    matrix->data = begin + std::min(at, last) / matrix->element_size * matrix->element_size;
    previous = matrix;
  }
}

// Adds the errors of an overlap. An exact overlap is valid if the function works in place.
inline void judge_overlap(const FuzzMatrix &input, const FuzzMatrix &output, bool in_place,
                          CallRules &rules) {
  const bool exact = input.is(output) && in_place;
  if (exact) return;
  if (!input.is_tame() || !output.is_tame()) {
    rules.may_fail |= only(RAPT_BAD_OVERLAP);
    return;
  }
  if (share_bytes(input.bytes(), output.bytes())) rules.must_fail |= only(RAPT_BAD_OVERLAP);
  // The library may report interleaved rows as an overlap.
  if (extents_meet(input.bytes(), output.bytes())) rules.may_fail |= only(RAPT_BAD_OVERLAP);
}

inline void judge_matrix(const FuzzMatrix &matrix, bool any_work, rapt_status bad_pointer,
                         rapt_status bad_stride, CallRules &rules) {
  Statuses found = 0;
  if (!matrix.data) found |= only(bad_pointer);
  if (!matrix.fits()) found |= only(bad_stride);
  if (matrix.fits() && matrix.extent() < 0) found |= only(RAPT_BAD_SIZE);
  // If the stride is bad, the library may report the size instead.
  if (!matrix.fits()) rules.may_fail |= only(RAPT_BAD_SIZE);
  (any_work ? rules.must_fail : rules.may_fail) |= found;
}

// Returns whether the call may run: its matrices are in memory, or it must not access them.
inline bool may_be_called(std::initializer_list<const FuzzMatrix *> matrices, bool any_work,
                          const CallRules &rules) {
  if (!any_work || rules.must_fail != 0) return true;
  for (const FuzzMatrix *matrix : matrices) {
    if (!matrix->is_tame()) return false;
  }
  return true;
}

}  // namespace rapt::test
