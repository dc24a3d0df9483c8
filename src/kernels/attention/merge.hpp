// Merges the partial results of a tile's chunks.
#pragma once

#include <cstddef>

#include "kernels/attention/final_factors.hpp"
#include "kernels/attention/row_sums.hpp"
#include "kernels/attention/row_values.hpp"
#include "kernels/attention/tile_rows.hpp"

namespace {

// Folds the results of all chunks into `total` and `values`, in order. address(r, c) is where row r's result
// of chunk c is stored: its maximum, sum and values.
template <class A, class Address>
void merge_chunks(const TileRows<A> &rows, std::size_t chunks, Address address, RowSums<A> &total,
                  const RowValues<A> &values) {
  total.clear();
  values.clear();
  RowSums<A> next;
  next.clear();
  for (std::size_t c = 0; c < chunks; ++c) {
    for (std::size_t r = 0; r < rows.lanes; ++r) {
      const A *const partial = address(r < rows.rows ? r : rows.rows - 1, c);
      next.max[r] = partial[0];
      next.sum[r] = partial[1];
    }
    FoldFactors<A> factors;
    fold<A>(rows, total, next, factors);
    for (std::size_t r = 0; r < rows.rows; ++r) values.fold_row(r, address(r, c) + 2, factors);
  }
}

}  // namespace
