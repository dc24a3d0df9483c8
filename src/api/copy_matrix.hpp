// Copies a matrix to places of any strides, by squares where that transposes it.
#pragma once

#include <cstddef>

#include "call/transposed_copy.hpp"

namespace rapt {
namespace {

// Copies a matrix, whose element c of row r is at from[r * from_row + c * from_column], to to[r * to_row + c *
// to_column].
template <class E>
void copy_matrix(const E *from, std::ptrdiff_t from_row, std::ptrdiff_t from_column, std::size_t rows,
                 std::size_t columns, E *to, std::ptrdiff_t to_row, std::ptrdiff_t to_column) {
  constexpr std::size_t side = TransposedSquare<sizeof(E)>::side;
  const std::size_t whole = from_column == 1 && to_row == 1 ? rows / side * side : 0;
  const std::size_t copied =
      copy_transposed<sizeof(E)>(from, from_row * static_cast<std::ptrdiff_t>(sizeof(E)), whole, columns, to,
                                 static_cast<std::size_t>(to_column));
  for (std::size_t r = 0; r < rows; ++r, from += from_row, to += to_row) {
    for (std::size_t i = r < whole ? copied : 0; i < columns; ++i) {
      const auto c = static_cast<std::ptrdiff_t>(i);
      to[c * to_column] = from[c * from_column];
    }
  }
}

}  // namespace
}  // namespace rapt
