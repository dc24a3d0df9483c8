// Packs rows of x in the order in which tiles read them.
#pragma once

#include <cstddef>

#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "kernels/linear/tiles.hpp"
#include "kernels/linear/ways.hpp"
#include "kernels/vector/transposed.hpp"

namespace {

// Holds a block of rows. The tile at row r is at r * in_features, as [inputs][rows of the tile].
template <class Tiles>
class PackedRows {
 public:
  using A = typename Tiles::A;
  using S = simd<A>;

  PackedRows(const rapt::LinearCall &call, A *memory) : call_(call), o_(call.options), memory_(memory) {}

  // Packs the rows of a task, unless the task before had the same rows. Returns whether it packed them.
  bool load(const rapt::LinearTask &task) {
    if (is_loaded_ && task.first_row == first_) return false;
    is_loaded_ = true;
    first_ = task.first_row;
    direct_ = nullptr;
    rapt::with_element<A>(o_.x_type, [&](auto element) {
      using X = typename decltype(element)::type;
      if constexpr (std::is_same_v<X, A>) {
        if (takes_row_in_place(o_, task.rows)) direct_ = call_.x_at<A>(first_);
      }
      if (direct_) return;
      each_tile<Tiles>(task.rows, [&](std::size_t r, auto height) { pack<X, height>(r, task.rows - r); });
    });
    return true;
  }

  // Returns input k of the tile at row r, which has `height` rows.
  const A *tile(std::size_t r, std::size_t height, std::size_t k) const {
    return direct_ ? direct_ + k : memory_ + r * o_.in_features + k * height;
  }

 private:
  template <class X, std::size_t height>
  [[gnu::flatten]] void pack(std::size_t r, std::size_t left) const {
    // Copies of the last row fill the tile, and the vectors of rows that reach past the tile's end.
    constexpr std::size_t padded = (height + S::width - 1) / S::width * S::width;
    const std::size_t last = (left < height ? left : height) - 1;
    const X *row[padded];
    for (std::size_t i = 0; i < padded; ++i) row[i] = call_.x_at<X>(first_ + r + (i < last ? i : last));
    A *const to = memory_ + r * o_.in_features;
    if (o_.x_strides.column == 1) {
      // The last rows come first, because the first rows then overwrite what reaches past the end.
      for (std::size_t i = padded; i > 0; i -= S::width) {
        transpose_rows<A>(row + i - S::width, o_.in_features, to + i - S::width, height);
      }
      return;
    }
    if constexpr (std::is_same_v<X, A>) {
      // Patches of a convolution, or a transposed matrix: the rows of a tile lie side by side.
      if (o_.x_strides.row == 1 && !o_.x_rows && left >= height) {
        for (std::size_t k = 0; k < o_.in_features; ++k) {
          const A *const from = row[0] + o_.x_strides.column * static_cast<std::ptrdiff_t>(k);
          __builtin_memcpy(to + k * height, from, height * sizeof(A));
        }
        return;
      }
    }
    for (std::size_t k = 0; k < o_.in_features; ++k) {
      const std::ptrdiff_t at = o_.x_strides.column * static_cast<std::ptrdiff_t>(k);
      for (std::size_t i = 0; i < height; ++i) to[k * height + i] = rapt::widened(row[i][at]);
    }
  }

  const rapt::LinearCall &call_;
  const rapt_linear_options &o_;
  A *memory_;
  const A *direct_ = nullptr;
  std::size_t first_ = 0;
  bool is_loaded_ = false;
};

}  // namespace
