// Places the matrices of linear layers in guarded memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "support/kernel_memory.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Holds a matrix of [rows][cols] in guarded memory, in any order.
template <class E>
class Grid {
 public:
  Grid(std::size_t rows, std::size_t cols, MatrixOrder order, const Layout &layout, std::size_t slot)
      : rows_(rows),
        cols_(cols),
        order_(order),
        matrix_(make(rows, cols, order, layout.gap[slot], layout.placement,
                     drivers::offset_of<E>(layout, slot))) {}

  E *data() const { return matrix_.data(); }
  E *row(std::size_t r) const { return data() + static_cast<std::ptrdiff_t>(r) * strides().row; }
  rapt_matrix_strides strides() const {
    if (order_ == MatrixOrder::columns) return {1, matrix_.stride()};
    if (order_ == MatrixOrder::apart) return {apart * static_cast<std::ptrdiff_t>(cols_), apart};
    return {matrix_.stride(), 1};
  }
  bool is_contiguous() const {
    return order_ == MatrixOrder::rows && matrix_.stride() == static_cast<std::ptrdiff_t>(cols_);
  }

  // `dense` is [rows][cols].
  void fill(const std::vector<E> &dense) {
    image_ = dense;
    for (std::size_t r = 0; order_ == MatrixOrder::columns && r < rows_; ++r) {
      for (std::size_t c = 0; c < cols_; ++c) image_[c * rows_ + r] = dense[r * cols_ + c];
    }
    matrix_.fill(image_);
  }
  bool unchanged() const { return matrix_.holds(image_) && matrix_.gaps_intact(); }

 private:
  static constexpr std::ptrdiff_t apart = 3;

  static Matrix<E> make(std::size_t rows, std::size_t cols, MatrixOrder order, std::ptrdiff_t gap,
                        Placement placement, std::size_t offset) {
    if (order == MatrixOrder::apart) return Matrix<E>(rows * cols, 1, apart, placement, offset);
    if (order == MatrixOrder::columns) std::swap(rows, cols);
    return Matrix<E>(rows, cols, static_cast<std::ptrdiff_t>(cols) + gap, placement, offset);
  }

  std::size_t rows_, cols_;
  MatrixOrder order_;
  Matrix<E> matrix_;
  std::vector<E> image_;
};

// Says in which row of memory each row of a call is. Some rows of memory belong to no row of the call.
struct RowList {
  RowList(std::size_t rows, bool is_given, Random &random) : place(rows), rows_of_memory(rows) {
    std::iota(place.begin(), place.end(), std::size_t{0});
    if (!is_given) return;
    rows_of_memory = random.below(2);
    for (std::size_t &row : place) {
      row = rows_of_memory;
      rows_of_memory += 1 + random.one_in(3);
    }
    for (std::size_t i = rows; i > 1; --i) std::swap(place[i - 1], place[random.below(i)]);
  }

  // Returns the rows in the order of memory. Rows that belong to no row of the call hold canary bytes.
  template <class E, class A>
  std::vector<E> in_memory(std::span<const A> numbers, std::size_t cols) const {
    std::vector<E> image(rows_of_memory * cols);
    for (E &element : image) std::memset(static_cast<void *>(&element), canary, sizeof element);
    for (std::size_t r = 0; r < place.size(); ++r) {
      for (std::size_t c = 0; c < cols; ++c) image[place[r] * cols + c] = E(numbers[r * cols + c]);
    }
    return image;
  }

  std::vector<std::size_t> place;
  std::size_t rows_of_memory;
};

}  // namespace rapt::test
