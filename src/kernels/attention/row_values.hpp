// Stores the weighted values of a tile, with dimensions in the vector lanes. Rows are padded to whole
// vectors.
#pragma once

#include <cstddef>

#include "kernels/attention/final_factors.hpp"
#include "kernels/attention/row_sums.hpp"
#include "kernels/attention/tile_rows.hpp"

namespace {

template <class A>
class RowValues {
 public:
  using S = simd<A>;
  using batch = typename S::batch;

  RowValues(const TileRows<A> &rows, std::size_t dim, A *values)
      : rows_(rows), dim_(dim), pitch_(pitch_of(dim)), values_(values) {}
  // Returns the number of elements that `rows` rows need.
  static std::size_t length(std::size_t rows, std::size_t dim) { return rows * pitch_of(dim); }

  std::size_t pitch() const { return pitch_; }
  A *row(std::size_t r) const { return values_ + r * pitch_; }

  void clear() const { clear(rows_.rows); }
  void clear(std::size_t rows) const {
    for (std::size_t i = 0; i < rows * pitch_; i += S::width) S::store(values_ + i, batch(A(0)));
  }
  void multiply(A factor) const {
    const batch all(factor);
    for (std::size_t i = 0; i < rows_.rows * pitch_; i += S::width) {
      S::store(values_ + i, S::load(values_ + i) * all);
    }
  }

  void fold(const RowValues &next, const FoldFactors<A> &factors) const {
    for (std::size_t r = 0; r < rows_.rows; ++r) fold_row(r, next.row(r), factors);
  }
  void fold_row(std::size_t r, const A *next, const FoldFactors<A> &factors) const {
    const batch a(factors.of_total[r]), b(factors.of_next[r]);
    A *const value = row(r);
    for (std::size_t d = 0; d < dim_; d += S::width) {
      S::store(value + d, S::fma(S::load_first(next + d, dim_ - d), b, S::load(value + d) * a));
    }
  }

  // Stores row r's finished values to address(r). Returns whether one is NaN.
  template <class Address>
  bool store(const FinalFactors<A> &factors, Address address) const {
    batch all(A(0));
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      auto *const out = address(r);
      const auto finished = factors.of_row(r);
      for (std::size_t d = 0; d < dim_; d += S::width) {
        const batch v = finished(S::load(row(r) + d));
        if (dim_ - d >= S::width) {
          S::store(out + d, v);
        } else {
          S::store_first(out + d, v, dim_ - d);
        }
        all = all + v;
      }
    }
    return S::any(S::unordered(all, all));
  }

 private:
  static std::size_t pitch_of(std::size_t dim) { return (dim + S::width - 1) / S::width * S::width; }

  const TileRows<A> &rows_;
  std::size_t dim_, pitch_;
  A *values_;
};

}  // namespace
