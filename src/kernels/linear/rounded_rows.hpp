// Holds rows of x as integers, in the order of the tiles of integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/linear_call.hpp"
#include "call/quantized_weights.hpp"
#include "kernels/linear/row_rounder.hpp"
#include "kernels/linear/tiles.hpp"

namespace {

// What a tile needs of each group of the sum, [groups][rows]: the number to begin with, which subtracts the common
// zero of all codes from the sum, the step of its integers, and their sum as f32.
struct RowTerms {
  const std::int32_t *starts;
  const float *steps, *sums;
};

// The tile at row r is [inputs / n][rows of the tile][n], where n is inputs_together. Inputs that do not exist are
// 0, up to a multiple of 8. Quads is what a level provides (integer_tiles.hpp).
template <class Quads>
struct QuadsOfRows {
  using Codes = Quads;
  using X = typename Quads::X;
  static constexpr std::size_t least_rows = 1, most_rows = Quads::most_rows,
                               together = Quads::inputs_together;
  static constexpr int byte_bias = Quads::byte_bias;

  explicit QuadsOfRows(const rapt_linear_options &o) : padded((o.in_features + 7) / 8 * 8) {}

  std::size_t place(std::size_t row, std::size_t height, std::size_t input) const {
    return row * padded + input * height;
  }
  // Stores row i of a tile.
  template <std::size_t height>
  void put(const std::int8_t *integers, std::size_t i, X *tile) const {
    tile += i * together;
    for (std::size_t k = 0; k < padded; k += together, tile += together * height) {
      X quads[together];
      for (std::size_t j = 0; j < together; ++j) quads[j / 4 * 4 + Quads::place(j % 4)] = integers[k + j];
      std::memcpy(tile, quads, sizeof quads);
    }
  }

  std::size_t padded;
};

// Holds a block of rows. Layout says where a tile has which input, like QuadsOfRows.
template <class OfLayout>
class RoundedRows {
 public:
  using Layout = OfLayout;
  using X = typename Layout::X;
  static constexpr int byte_bias = Layout::byte_bias;

  RoundedRows(const rapt::LinearCall &call, float *workspace)
      : o_(call.options),
        layout_(o_),
        memory_(reinterpret_cast<X *>(workspace)),
        sum_group_(rapt::sum_group_of(o_)),
        sum_groups_(rapt::sum_groups_of(o_)),
        steps_(workspace + rapt::LinearWorkspace(o_).before_row_numbers()),
        sums_(steps_ + rapt::LinearWorkspace(o_).padded_rows * sum_groups_),
        starts_(
            reinterpret_cast<std::int32_t *>(sums_ + rapt::LinearWorkspace(o_).padded_rows * sum_groups_)),
        integers_(call, workspace + rapt::LinearWorkspace(o_).before_row_integers()) {
    const rapt::QuantizedWeights weights(o_, call.w);
    zero_ = (weights.has_zeros() ? 0 : weights.common_zero_of_integers()) -
            (weights.has_integers_of_bytes() ? byte_bias : 0);
  }

  bool load(const rapt::LinearTask &task) {
    if (is_loaded_ && task.first_row == first_) return false;
    is_loaded_ = true;
    first_ = task.first_row;
    each_tile<Layout>(task.rows, [&](std::size_t r, auto height) {
      for (std::size_t i = 0; i < height; ++i) {
        const std::size_t row = r + i < task.rows ? r + i : task.rows - 1;
        const std::size_t at = r * sum_groups_ + i;
        const std::int8_t *const integers = integers_.load(first_ + row, steps_ + at, sums_ + at, height);
        for (std::size_t g = at; g < at + sum_groups_ * height; g += height)
          starts_[g] = -zero_ * static_cast<std::int32_t>(sums_[g]);
        layout_.template put<height>(integers, i, memory_ + layout_.place(r, height, 0));
      }
    });
    return true;
  }

  const X *tile(std::size_t r, std::size_t height, std::size_t k) const {
    return memory_ + layout_.place(r, height, k);
  }
  RowTerms terms(std::size_t r, std::size_t height, std::size_t k) const {
    const std::size_t at = r * sum_groups_ + k / sum_group_ * height;
    return {starts_ + at, steps_ + at, sums_ + at};
  }

 private:
  const rapt_linear_options &o_;
  Layout layout_;
  X *memory_;
  std::size_t sum_group_, sum_groups_;
  int zero_;
  float *steps_, *sums_;
  std::int32_t *starts_;
  RowRounder integers_;
  std::size_t first_ = 0;
  bool is_loaded_ = false;
};

}  // namespace
