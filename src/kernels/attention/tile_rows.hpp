// Holds the keys that each row of a tile sees, and the numbers that turn its scores into weights.
#pragma once

#include <cstddef>

#include "call/attention_scale.hpp"
#include "call/attention_tile.hpp"
#include "kernels/attention/block.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Says which keys of a block a vector of rows sees, as indices in the block. At least one row sees each key
// of `any`, and every row sees each key of `all`. `any` is {0, 0} if no row sees a key.
struct SeenKeys {
  AttentionTile::Range any, all;

  // Returns whether one of the rows does not see all of these keys.
  bool excludes_some_of(AttentionTile::Range keys) const {
    return all.first > keys.first || all.end < keys.end;
  }
};

// If has_formula, a softcap, ALiBi or a bias turns dot products into scores. Otherwise dot products are scores.
template <class A>
struct TileRows {
  using S = simd<A>;
  using Row = AttentionTile::Row;
  static constexpr std::size_t count = rapt::attention_tile_rows;

  explicit TileRows(const AttentionTile &tile) : rows(tile.rows()) {
    Row row = tile.row(0);
    const rapt_attention_options &o = tile.options();
    AttentionScale<A> scale(tile, row);
    has_formula = scale.has_formula;
    cap = scale.cap;
    const bool scales_differ = o.query_scales != nullptr, slopes_differ = o.alibi_slopes != nullptr;
    lanes = (rows + S::width - 1) / S::width * S::width;
    for (std::size_t r = 0; r < rows; ++r) {
      if (r > 0) {
        row = tile.next(row);
        if (scales_differ || slopes_differ) scale = AttentionScale<A>(tile, row);
      }
      const AttentionTile::Range seen = tile.range(row);
      of[r] = row;
      first[r] = seen.first;
      end[r] = seen.end;
      to_log2[r] = scale.to_log2;
      cutoff[r] = scale.cutoff;
      sign[r] = scale.sign;
      factor[r] = scale.factor;
      slope[r] = scale.slope;
      from_natural[r] = scale.from_natural;
      to_natural[r] = scale.to_natural;
      VectorRange &range = of_vector[r / S::width];
      if (seen.end < range.all.end) range.all.end = seen.end;
      if (seen.first == seen.end) continue;
      if (seen.first > range.all.first) range.all.first = seen.first;
      if (seen.first < range.any.first) range.any.first = seen.first;
      if (seen.end > range.any.end) range.any.end = seen.end;
    }
    // Lanes after the last row are copies of that row, so that loops over vectors need no special case.
    // repeat_last() copies a constant number of lanes, which takes a few vector stores. A variable number
    // took a sixth of the time of a call with one row and one key.
    repeat_last(of, first, end);
    repeat_last(to_log2, cutoff, sign);
    repeat_last(factor, slope, from_natural);
    repeat_last(to_natural);
  }

  // Returns the keys that at least one row sees; {0, 0} if no row sees any.
  AttentionTile::Range range() const {
    AttentionTile::Range all = {~std::size_t{0}, 0};
    for (std::size_t v = 0; v < lanes / S::width; ++v) {
      if (of_vector[v].any.first < all.first) all.first = of_vector[v].any.first;
      if (of_vector[v].any.end > all.end) all.end = of_vector[v].any.end;
    }
    return all.end == 0 ? AttentionTile::Range{0, 0} : all;
  }

  // Holds the keys that at least one row of a vector sees, and the keys that all of its rows see, if any.
  struct VectorRange {
    AttentionTile::Range any{~std::size_t{0}, 0};
    AttentionTile::Range all{0, ~std::size_t{0}};
  };
  const VectorRange &vector_range(std::size_t r) const { return of_vector[r / S::width]; }
  // Returns the keys of the block at `first` that the vector of rows at r sees.
  SeenKeys seen_of_block(std::size_t first, std::size_t r) const {
    const AttentionTile::Range any = within_block(vector_range(r).any, first);
    return {any.first < any.end ? any : AttentionTile::Range{0, 0}, within_block(vector_range(r).all, first)};
  }

  static constexpr std::size_t with_copies = count + S::width;
  std::size_t rows, lanes;
  bool has_formula;
  A cap;
  Row of[with_copies];
  std::size_t first[with_copies], end[with_copies];
  VectorRange of_vector[count / S::width];
  alignas(64) A to_log2[with_copies];
  alignas(64) A cutoff[with_copies];
  alignas(64) A sign[with_copies];
  alignas(64) A factor[with_copies];
  alignas(64) A slope[with_copies];
  alignas(64) A from_natural[with_copies];
  double to_natural[with_copies];

 private:
  template <class... T>
  RAPT_INNER void repeat_last(T (&...all)[with_copies]) const {
    const auto repeat = [&](auto &one) RAPT_INNER {
      const auto last = one[rows - 1];
      for (std::size_t i = 0; i < S::width - 1; ++i) one[rows + i] = last;
    };
    (repeat(all), ...);
  }
};

}  // namespace
