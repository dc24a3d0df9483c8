// From the dot products of a block to its scores, with rows in the vector lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/attention/block.hpp"
#include "kernels/attention/panels.hpp"
#include "kernels/attention/score_formula.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/transposed.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// The scores of a block: key j of row r at [j * tile_pitch + r]. Excluded keys have -inf.
template <class A>
class TileScores {
 public:
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t block = rapt::attention_block;

  TileScores(const AttentionTile &tile, const TileRows<A> &rows, A *scores)
      : tile_(tile), o_(tile.options()), rows_(rows), scores_(scores) {}

  A *data() const { return scores_; }
  A *row(std::size_t r) const { return scores_ + r; }

  // Matrices that make() fills as well, if they are not null: -inf for excluded keys and 0 for others, and
  // the derivative of the softcap.
  A *exclusions = nullptr;
  A *slopes = nullptr;

  // Excludes the keys outside of each row's range; returns the largest of the other scores. Keys that all
  // rows see stay as they are.
  batch exclude(std::size_t r, std::size_t first, AttentionTile::Range any, AttentionTile::Range all) const {
    const batch minus_infinity(-std::numeric_limits<A>::infinity());
    alignas(64) A range_begin[S::width], range_end[S::width];
    ranges(r, first, range_begin, range_end);
    const batch from = S::load(range_begin), to = S::load(range_end);
    A *const column = scores_ + r;
    batch max[4] = {minus_infinity, minus_infinity, minus_infinity, minus_infinity};
    std::size_t j = any.first;
    const auto take = [&](batch & largest, std::size_t key) __attribute__((always_inline)) {
      batch score = S::load(column + key * tile_pitch);
      if (key < all.first || key >= all.end) {
        const batch index(static_cast<A>(key));
        const auto excluded = S::either(S::less(index, from), S::negate(S::less(index, to)));
        score = S::select(excluded, minus_infinity, score);
        S::store(column + key * tile_pitch, score);
      }
      largest = S::max_number(score, largest);
    };
    for (; any.end - j >= 4; j += 4) {
      unroll<4>([&](auto i) __attribute__((always_inline)) { take(max[i], j + i); });
    }
    for (; j < any.end; ++j) take(max[0], j);
    return S::max(S::max(max[0], max[1]), S::max(max[2], max[3]));
  }

  // Turns a vector's dot products with keys [begin, end) into scores; returns the largest.
  [[gnu::noinline, gnu::flatten]] batch make(std::size_t r, std::size_t first, std::size_t begin,
                                             std::size_t end) const {
    const batch minus_infinity(-std::numeric_limits<A>::infinity()), zero(A(0));
    alignas(64) A range_begin[S::width], range_end[S::width], to_block[S::width];
    ranges(r, first, range_begin, range_end);
    RowPointers pointers;
    point_to_rows(r, first, pointers, to_block);
    const batch from = S::load(range_begin), to = S::load(range_end), distance = S::load(to_block);
    const batch factor = S::load(rows_.factor + r), slope = S::load(rows_.slope + r);
    const ScoreFormula<A> formula(rows_.cap, o_.alibi_slopes != nullptr);
    batch max = minus_infinity;
    const std::size_t left = tile_.kv_len() - first;
    for (std::size_t j = begin / S::width * S::width; j < end; j += S::width) {
      Square bias, exclusion;
      load_squares(pointers, j, left - j < S::width ? left - j : S::width, bias, exclusion);
      const std::size_t last = end - j < S::width ? end : j + S::width;
      for (std::size_t key = j < begin ? begin : j; key < last; ++key) {
        const std::size_t at = key * tile_pitch + r;
        const batch index(static_cast<A>(key));
        batch score = S::load(scores_ + at);
        auto excluded = S::either(S::less(index, from), S::negate(S::less(index, to)));
        if (rows_.made) {
          score = formula(
              score, factor, slope, distance + index, [&](batch tanh) __attribute__((always_inline)) {
                if (slopes) S::store(slopes + at, S::fnma(tanh, tanh, batch(A(1))));
              });
          if (o_.bias) score = formula.with_bias(score, S::load(bias.row[key - j]), excluded);
        }
        if (o_.mask)
          excluded = S::either(excluded, S::equal(S::load(exclusion.row[key - j]), minus_infinity));
        score = S::select(excluded, minus_infinity, score);
        S::store(scores_ + at, score);
        if (exclusions) S::store(exclusions + at, S::select(excluded, minus_infinity, zero));
        max = S::max_number(score, max);
      }
    }
    return max;
  }

 private:
  struct RowPointers {
    const A *bias[S::width];
    const std::uint8_t *mask[S::width];
  };
  // A vector of rows by a vector of keys, rows in the lanes.
  struct Square {
    alignas(64) A row[S::width][S::width];
  };

  void ranges(std::size_t r, std::size_t first, A *begin, A *end) const {
    for (std::size_t i = 0; i < S::width; ++i) {
      begin[i] = static_cast<A>(within_block(rows_.first[r + i], first));
      end[i] = static_cast<A>(within_block(rows_.end[r + i], first));
    }
  }
  // to_block: from a query's position to the block's.
  void point_to_rows(std::size_t r, std::size_t first, RowPointers &pointers, A *to_block) const {
    for (std::size_t i = 0; i < S::width; ++i) {
      const AttentionTile::Row row = rows_.of[r + i];
      to_block[i] = static_cast<A>(static_cast<std::int64_t>(first) - tile_.position(row));
      pointers.bias[i] = o_.bias ? tile_.bias<A>(row) + first : nullptr;
      pointers.mask[i] = o_.mask ? tile_.mask(row) + first : nullptr;
    }
  }
  // By way of memory: unrolled over the keys, the loop in make() was 13 KB and no faster.
  [[gnu::always_inline]] void load_squares(const RowPointers &pointers, std::size_t j, std::size_t keys,
                                           Square &bias, Square &exclusion) const {
    const batch minus_infinity(-std::numeric_limits<A>::infinity()), zero(A(0));
    batch v[S::width];
    if (o_.bias) {
      load_transposed<A>(v, pointers.bias, j, keys);
      unroll<S::width>([&](auto i) __attribute__((always_inline)) { S::store(bias.row[i], v[i]); });
    }
    if (o_.mask) {
      unroll<S::width>([&](auto i) __attribute__((always_inline)) {
        v[i] = S::select(S::load_flags(pointers.mask[i] + j, keys), zero, minus_infinity);
      });
      S::transpose(v);
      unroll<S::width>([&](auto i) __attribute__((always_inline)) { S::store(exclusion.row[i], v[i]); });
    }
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  const TileRows<A> &rows_;
  A *scores_;
};

}  // namespace
