// Puts the operands of a kernel in guarded memory. All kernels except attention's use it.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/calls.hpp"
#include "support/matrix.hpp"
#include "support/problem_data.hpp"
#include "support/public_api.hpp"

namespace rapt::test::drivers {

// Holds the range of the problem's rows that the call gets.
struct GivenRows {
  explicit GivenRows(const RowsProblem &problem)
      : first(problem.window.first), count(problem.window.end(problem.rows) - first), cols(problem.cols) {}

  template <class T>
  std::span<const T> of(const std::vector<T> &dense) const {
    return of(dense, cols);
  }
  template <class T>
  std::span<const T> of(const std::vector<T> &dense, std::size_t row) const {
    return std::span(dense).subspan(first * row, count * row);
  }

  std::size_t first, count, cols;
};

// Rounds the offset down to T's alignment, because an output may have larger elements than the inputs.
template <class T>
std::size_t offset_of(const Layout &layout, std::size_t slot) {
  return layout.offset[slot] / alignof(T) * alignof(T);
}

// Holds an input in guarded memory, and refers to its values to check that the call kept them.
template <class T>
class Input {
 public:
  Input(std::span<const T> dense, std::size_t rows, std::size_t cols, const Layout &layout, std::size_t slot,
        std::ptrdiff_t stride)
      : dense_(dense), matrix_(rows, cols, stride, layout.placement, offset_of<T>(layout, slot)) {
    matrix_.fill(dense);
  }
  Input(std::span<const T> dense, std::size_t rows, std::size_t cols, const Layout &layout, std::size_t slot)
      : Input(dense, rows, cols, layout, slot, static_cast<std::ptrdiff_t>(cols) + layout.gap[slot]) {}

  const Matrix<T> &matrix() const { return matrix_; }
  T *data() const { return matrix_.data(); }
  std::ptrdiff_t stride() const { return matrix_.stride(); }
  bool unchanged() const { return matrix_.holds(dense_) && matrix_.gaps_intact(); }

 private:
  std::span<const T> dense_;
  Matrix<T> matrix_;
};

// Returns how often to repeat an output of this size. With past_caches it then exceeds the caches.
inline std::size_t copies_of(const Layout &layout, std::size_t bytes) {
  constexpr std::size_t past_caches_from = std::size_t{16} << 20;  // where streaming stores begin
  return layout.past_caches && bytes > 0 ? past_caches_from / bytes + 1 : 1;
}

template <class T>
bool same_row(const T *a, const T *b, std::size_t cols) {
  if (std::memcmp(a, b, cols * sizeof(T)) == 0) return true;
  for (std::size_t c = 0; c < cols; ++c) {
    if (canonical_bits(a[c]) != canonical_bits(b[c])) return false;
  }
  return true;
}

// Appends the first copy's results to the outcome. All other copies must be equal to it.
template <class T>
void collect(const Matrix<T> &output, Outcome &outcome, std::size_t copies = 1) {
  const std::size_t rows = output.rows() / copies;
  outcome.bits.reserve(outcome.bits.size() + rows * output.cols());
  for (std::size_t r = 0; output.cols() != 0 && r < output.rows(); ++r) {
    const T *row = output.row(r);
    if (r < rows) {
      for (std::size_t c = 0; c < output.cols(); ++c) outcome.bits.push_back(canonical_bits(row[c]));
    } else if (!same_row(row, output.row(r - rows), output.cols())) {
      outcome.fault += "row " + std::to_string(r) + " is not the row that it copies; ";
      break;
    }
  }
  if (!output.gaps_intact()) outcome.fault += "wrote outside the output's rows; ";
}

template <class T>
void check_input(const Input<T> &input, const char *name, Outcome &outcome) {
  if (!input.unchanged()) outcome.fault += std::string("wrote to ") + name + "; ";
}

inline std::ptrdiff_t stride_of_output(std::size_t cols, const Layout &layout) {
  return static_cast<std::ptrdiff_t>(cols) + layout.gap[2];
}

// Holds the output, in separate memory or in place of an input.
template <class T>
class Output {
 public:
  Output(std::size_t rows, std::size_t cols, const Layout &layout, std::ptrdiff_t stride,
         const Matrix<T> *first = nullptr, const Matrix<T> *second = nullptr)
      : alias_(layout.alias == Alias::first_input    ? first
               : layout.alias == Alias::second_input ? second
                                                     : nullptr),
        own_(alias_ ? 0 : rows, alias_ ? 0 : cols, stride, layout.placement, offset_of<T>(layout, 2)) {}

  const Matrix<T> &matrix() const { return alias_ ? *alias_ : own_; }
  T *data() const { return matrix().data(); }
  std::ptrdiff_t stride() const { return matrix().stride(); }
  bool replaces(const Matrix<T> &input) const { return alias_ == &input; }

 private:
  const Matrix<T> *alias_;
  Matrix<T> own_;
};

}  // namespace rapt::test::drivers
