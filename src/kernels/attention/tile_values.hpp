// Stores a tile's weighted values, with rows in the lanes. Dimension d of row r is at [d * tile_pitch + r].
#pragma once

#include <cstddef>

#include "kernels/attention/final_factors.hpp"
#include "kernels/attention/panels.hpp"
#include "kernels/attention/row_sums.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/transposed.hpp"

namespace {

template <class A>
class TileValues {
 public:
  using S = simd<A>;
  using batch = typename S::batch;

  static std::size_t length(std::size_t dim) { return dim * tile_pitch; }
  TileValues(const TileRows<A> &rows, std::size_t dim, A *values) : rows_(rows), dim_(dim), values_(values) {}

  A *data() const { return values_; }

  // Sets the rows [from, to) to +0.
  void clear(std::size_t from, std::size_t to) const {
    change(
        from, to, [](std::size_t) { return batch(A(0)); }, [](batch, batch zero) { return zero; });
  }
  void clear() const { clear(0, rows_.lanes); }

  // Multiplies the values by one factor per row.
  void rescale(std::size_t from, std::size_t to, const A *factors) const {
    change(
        from, to, [&](std::size_t r) { return S::load(factors + r); }, times);
  }
  void multiply(A factor) const {
    change(
        0, rows_.lanes, [&](std::size_t) { return batch(factor); }, times);
  }

  void fold(const TileValues &next, const FoldFactors<A> &factors) const {
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      const batch a = S::load(factors.of_total + r), b = S::load(factors.of_next + r);
      for (std::size_t d = 0; d < dim_; ++d) {
        A *const value = values_ + d * tile_pitch + r;
        S::store(value, S::fma(S::load(next.values_ + d * tile_pitch + r), b, S::load(value) * a));
      }
    }
  }

  // Stores row r's finished values to address(r). Returns whether one is NaN.
  template <class Address>
  RAPT_INNER bool store(const FinalFactors<A> &factors, Address address) const {
    batch all(A(0));
    for (std::size_t r = 0; r < rows_.rows; r += S::width) {
      const auto finished = factors.of_rows(r);
      const std::size_t count = rows_.rows - r < S::width ? rows_.rows - r : S::width;
      decltype(address(r)) row[S::width];
      for (std::size_t i = 0; i < S::width; ++i) row[i] = address(i < count ? r + i : r);
      store_transposed(row, count, dim_, [&](std::size_t d) RAPT_INNER {
        const batch v = finished(S::load(values_ + d * tile_pitch + r));
        all = all + v;
        return v;
      });
    }
    return S::any(S::unordered(all, all));
  }

  // Returns whether store() would find a NaN.
  bool has_nan(const FinalFactors<A> &factors) const {
    batch all(A(0));
    for (std::size_t r = 0; r < rows_.rows; r += S::width) {
      const auto finished = factors.of_rows(r);
      for (std::size_t d = 0; d < dim_; ++d) all = all + finished(S::load(values_ + d * tile_pitch + r));
    }
    return S::any(S::unordered(all, all));
  }

 private:
  static batch times(batch value, batch factor) { return value * factor; }

  // Replaces each value by f(value, of(r)), for the vectors of rows [from, to).
  template <class Of, class F>
  RAPT_INNER void change(std::size_t from, std::size_t to, Of of, F f) const {
    for (std::size_t r = from; r < to; r += S::width) {
      const batch operand = of(r);
      for (std::size_t d = 0; d < dim_; ++d) {
        A *const value = values_ + d * tile_pitch + r;
        S::store(value, f(S::load(value), operand));
      }
    }
  }

  const TileRows<A> &rows_;
  std::size_t dim_;
  A *values_;
};

}  // namespace
