// Holds rows of elements in guarded memory, with canary bytes between the rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "support/guarded_buffer.hpp"

namespace rapt::test {

// `stride` is in elements. If it is negative, row 0 is last in memory. If it is 0, all rows share memory.
template <class T>
class Matrix {
 public:
  Matrix(std::size_t rows, std::size_t cols, std::ptrdiff_t stride, Placement placement, std::size_t offset)
      : rows_(rows),
        cols_(cols),
        stride_(stride),
        extent_(rows == 0 || cols == 0 ? 0 : (rows - 1) * step() + cols),
        buffer_(extent_ * sizeof(T), placement, offset) {}

  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::ptrdiff_t stride() const { return stride_; }

  T *row(std::size_t r) const {
    T *first = static_cast<T *>(buffer_.data());
    if (stride_ < 0 && extent_ != 0) first += (rows_ - 1) * step();
    return first + static_cast<std::ptrdiff_t>(r) * stride_;
  }
  T *data() const { return row(0); }

  // `dense` holds rows x cols elements without gaps, or fewer rows, which are then repeated.
  void fill(std::span<const T> dense) {
    if (extent_ == 0) return;
    for (std::size_t r = 0; r < rows_; ++r) std::memcpy(row(r), row_of(dense, r), cols_ * sizeof(T));
  }

  bool holds(std::span<const T> dense) const {
    if (extent_ == 0) return true;
    for (std::size_t r = 0; r < rows_; ++r) {
      if (std::memcmp(row(r), row_of(dense, r), cols_ * sizeof(T)) != 0) return false;
    }
    return true;
  }

  // Returns whether the memory between, before and after the rows is unchanged.
  bool gaps_intact() const {
    const T *first = static_cast<const T *>(buffer_.data());
    for (std::size_t r = 0; extent_ != 0 && r + 1 < rows_ && step() > cols_; ++r) {
      if (!is_canary(first + r * step() + cols_, (step() - cols_) * sizeof(T))) return false;
    }
    return buffer_.surroundings_intact();
  }

 private:
  const T *row_of(std::span<const T> dense, std::size_t r) const {
    return dense.data() + r * cols_ % dense.size();
  }
  std::size_t step() const { return static_cast<std::size_t>(stride_ < 0 ? -stride_ : stride_); }

  std::size_t rows_, cols_;
  std::ptrdiff_t stride_;
  std::size_t extent_;
  GuardedBuffer buffer_;
};

}  // namespace rapt::test
