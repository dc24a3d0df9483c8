// Copies a matrix and transposes it. This code is compiled for every CPU, and moves 16 bytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace rapt {

// Names the unsigned integer of a number of bytes.
template <std::size_t bytes>
using UnsignedOf =
    std::conditional_t<bytes == 1, std::uint8_t,
                       std::conditional_t<bytes == 2, std::uint16_t,
                                          std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;

// Transposes a square of elements of a number of bytes. A vector of 16 bytes holds a row.
template <std::size_t bytes>
class TransposedSquare {
 public:
  static constexpr std::size_t side = 16 / bytes;

  static void copy(const char *from, std::ptrdiff_t row_bytes, char *to, std::size_t pitch_bytes) {
    Vector rows[side];
    for (std::size_t r = 0; r < side; ++r)
      std::memcpy(&rows[r], from + static_cast<std::ptrdiff_t>(r) * row_bytes, 16);
    // Each round interleaves the first half of the rows with the second half.
    for (std::size_t round = 1; round < side; round *= 2) {
      Vector next[side];
      for (std::size_t r = 0; r < side / 2; ++r) {
        next[2 * r] = interleaved<0>(rows[r], rows[r + side / 2], std::make_index_sequence<side>());
        next[2 * r + 1] =
            interleaved<side / 2>(rows[r], rows[r + side / 2], std::make_index_sequence<side>());
      }
      std::memcpy(rows, next, sizeof rows);
    }
    for (std::size_t r = 0; r < side; ++r) std::memcpy(to + r * pitch_bytes, &rows[r], 16);
  }

 private:
  typedef UnsignedOf<bytes> Vector __attribute__((vector_size(16)));

  // Interleaves half of the elements of a with those of b, from element `first` on.
  template <std::size_t first, std::size_t... i>
  static Vector interleaved(Vector a, Vector b, std::index_sequence<i...>) {
    return __builtin_shufflevector(a, b, (first + i / 2 + i % 2 * side)...);
  }
};

// Copies element c of row r to to[c * pitch + r], for elements of `bytes` bytes at any alignment. It copies
// whole squares: `rows` must be a multiple of their side, and the function returns how many columns it has
// copied.
template <std::size_t bytes>
std::size_t copy_transposed(const void *from, std::ptrdiff_t row_bytes, std::size_t rows, std::size_t columns,
                            void *to, std::size_t pitch) {
  using Square = TransposedSquare<bytes>;
  // The targets of a few lines of each row stay in L1. Rows often have strides that share a set of the
  // cache, so all of these lines of a row are read at once.
  constexpr std::size_t few = 128 / bytes;
  const std::size_t copied = columns / Square::side * Square::side;
  for (std::size_t begin = 0; begin < copied; begin += few) {
    const std::size_t end = copied - begin < few ? copied : begin + few;
    for (std::size_t r = 0; r < rows; r += Square::side) {
      const char *const row = static_cast<const char *>(from) + static_cast<std::ptrdiff_t>(r) * row_bytes;
      for (std::size_t c = begin; c < end; c += Square::side) {
        Square::copy(row + c * bytes, row_bytes, static_cast<char *>(to) + (c * pitch + r) * bytes,
                     pitch * bytes);
      }
    }
  }
  return copied;
}

}  // namespace rapt
