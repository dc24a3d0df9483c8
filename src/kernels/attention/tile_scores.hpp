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
      : tile_(tile), o_(tile.options()), rows_(rows), scores_(scores) {
    for (std::size_t r = 0; r < rows.lanes; ++r) {
      if (o_.mask) mask_[r] = tile.mask(rows.of[r]);
      if (o_.bias) bias_[r] = tile.bias<A>(rows.of[r]);
    }
  }

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

  // Loads the mask's bits for a vector of rows and the block at `first`; true if it excludes one of the keys
  // [begin, end).
  bool load_mask(std::size_t r, std::size_t first, std::size_t begin, std::size_t end) {
    if (begin >= end) return false;
    std::uint64_t all = ~std::uint64_t{0};
    for (std::size_t i = 0; i < S::width; ++i) {
      const std::uint64_t bits = S::flag_bits(mask_[r + i] + first, end);
      for (std::size_t w = 0; w < words; ++w) seen_[w][i] = static_cast<Word>(bits >> (w * word_bits));
      all &= bits;
    }
    return (~all >> begin & ~std::uint64_t{0} >> (block - (end - begin))) != 0;
  }

  // Turns a vector's dot products with keys [begin, end) into scores; returns the largest. `masked`: what
  // load_mask() said, false without a mask.
  batch make(std::size_t r, std::size_t first, std::size_t begin, std::size_t end, bool masked) const {
    const AttentionTile::Range all = within_block(rows_.vector_range(r).all, first);
    const Vector of{r, first, begin, end};
    if (all.first > begin || all.end < end)
      return masked ? make_as<true, true>(of) : make_as<true, false>(of);
    return masked ? make_as<false, true>(of) : make_as<false, false>(of);
  }

 private:
  using Word = typename S::word;
  static constexpr std::size_t word_bits = 8 * sizeof(Word), words = block / word_bits;

  // The vector of rows at r and the keys [begin, end) of the block at `first`.
  struct Vector {
    std::size_t r, first, begin, end;
  };
  // A vector of rows by a vector of keys, rows in the lanes.
  struct Square {
    alignas(64) A row[S::width][S::width];
  };

  // bounded: not every row sees all the keys; masked: the mask excludes one. A block without such keys is the
  // usual case, and spares each key its comparisons.
  template <bool bounded, bool masked>
  [[gnu::noinline, gnu::flatten]] batch make_as(const Vector &of) const {
    const std::size_t r = of.r;
    const batch minus_infinity(-std::numeric_limits<A>::infinity()), zero(A(0));
    const bool has_slopes = o_.alibi_slopes != nullptr;
    alignas(64) A range_begin[S::width] = {}, range_end[S::width] = {}, to_block[S::width] = {};
    if (bounded) ranges(r, of.first, range_begin, range_end);
    const A *bias_row[S::width];
    for (std::size_t i = 0; o_.bias && i < S::width; ++i) bias_row[i] = bias_[r + i] + of.first;
    for (std::size_t i = 0; has_slopes && i < S::width; ++i) {
      const std::int64_t position = tile_.position(rows_.of[r + i]);
      to_block[i] = static_cast<A>(static_cast<std::int64_t>(of.first) - position);
    }
    const batch from = S::load(range_begin), to = S::load(range_end), distance = S::load(to_block);
    const batch factor = S::load(rows_.factor + r), slope = S::load(rows_.slope + r);
    const ScoreFormula<A> formula(rows_.cap, has_slopes);
    const std::size_t left = tile_.kv_len() - of.first;
    const auto none = S::less(zero, zero);
    batch max = minus_infinity, index(static_cast<A>(of.begin));
    for (std::size_t j = of.begin / S::width * S::width; j < of.end; j += S::width) {
      Square bias;
      if (o_.bias) load_square(bias_row, j, left - j < S::width ? left - j : S::width, bias);
      const std::size_t last = of.end - j < S::width ? of.end : j + S::width;
      for (std::size_t key = j < of.begin ? of.begin : j; key < last; ++key, index = index + batch(A(1))) {
        const std::size_t at = key * tile_pitch + r;
        batch score = S::load(scores_ + at);
        auto excluded = none;
        if constexpr (bounded) excluded = S::either(S::less(index, from), S::negate(S::less(index, to)));
        if (rows_.made) {
          score = formula(
              score, factor, slope, distance + index, [&](batch tanh) __attribute__((always_inline)) {
                if (slopes) S::store(slopes + at, S::fnma(tanh, tanh, batch(A(1))));
              });
          if (o_.bias) score = formula.with_bias(score, S::load(bias.row[key - j]), excluded);
        }
        if constexpr (masked) {
          const Word bit = Word{1} << key % word_bits;
          excluded = S::either(excluded, S::negate(S::bit_set(seen_[key / word_bits], bit)));
        }
        if (bounded || masked || o_.bias) score = S::select(excluded, minus_infinity, score);
        if (bounded || masked || rows_.made) S::store(scores_ + at, score);
        if (exclusions) S::store(exclusions + at, S::select(excluded, minus_infinity, zero));
        max = S::max_number(score, max);
      }
    }
    return max;
  }

  void ranges(std::size_t r, std::size_t first, A *begin, A *end) const {
    for (std::size_t i = 0; i < S::width; ++i) {
      begin[i] = static_cast<A>(within_block(rows_.first[r + i], first));
      end[i] = static_cast<A>(within_block(rows_.end[r + i], first));
    }
  }
  // By way of memory: unrolled over the keys, the loop in make_as() was 13 KB and no faster.
  [[gnu::always_inline]] static void load_square(const A *const *row, std::size_t j, std::size_t keys,
                                                 Square &square) {
    batch v[S::width];
    load_transposed<A>(v, row, j, keys);
    unroll<S::width>([&](auto i) __attribute__((always_inline)) { S::store(square.row[i], v[i]); });
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  const TileRows<A> &rows_;
  A *scores_;
  const std::uint8_t *mask_[rapt::attention_tile_rows];
  const A *bias_[rapt::attention_tile_rows];
  alignas(64) Word seen_[words][S::width];  // a word of each row, for a vector of rows
};

}  // namespace
