// Turns the dot products of a block into scores, with rows in the vector lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "call/element.hpp"
#include "kernels/attention/block.hpp"
#include "kernels/attention/panels.hpp"
#include "kernels/attention/score_formula.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/transposed.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Holds the scores of a block, -inf for excluded keys. Row r's score of key j is at [j * tile_pitch + r].
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
      if (!o_.bias) continue;
      bias_[r] = tile.bias(rows.of[r]);
      bias_slope_[r] = tile.bias_slope<A>(rows.of[r]);
    }
  }

  void use(A *scores) { scores_ = scores; }
  A *data() const { return scores_; }
  A *row(std::size_t r) const { return scores_ + r; }

  // make() also fills these matrices unless they are null. `exclusions` gets -inf for excluded keys and 0 for
  // others, and `slopes` the derivative of the softcap.
  A *exclusions = nullptr;
  A *slopes = nullptr;

  // Turns dot products of a vector of rows with the block at `first` into scores, for the keys that the rows
  // see. Returns each row's largest score. `excludes` says that one of the rows does not see all keys that
  // were multiplied. If the dot products are the scores, returns largest().
  template <class Largest>
  RAPT_INNER batch complete(std::size_t r, std::size_t first, const SeenKeys &seen, bool excludes,
                            Largest largest) {
    const bool may_be_masked = o_.mask || tile_.is_scattered();
    const bool masked = may_be_masked && load_mask(r, first, seen.any.first, seen.any.end);
    if (rows_.has_formula || masked || exclusions) return make(r, first, seen, masked);
    if (excludes) return exclude(r, first, seen);
    return largest();
  }

 private:
  // Excludes the keys outside of each row's range, and returns the largest of the other scores. The scores of
  // keys that all rows see do not change.
  batch exclude(std::size_t r, std::size_t first, const SeenKeys &seen) const {
    const ScoreFormula<A> formula = formula_of(r, first);
    A *const column = scores_ + r;
    return largest_score<A>(seen.any, [&](std::size_t key) RAPT_INNER {
      batch score = S::load(column + key * tile_pitch);
      if (key < seen.all.first || key >= seen.all.end) {
        const auto excluded = formula.outside(batch(static_cast<A>(key)));
        score = S::select(excluded, batch(-std::numeric_limits<A>::infinity()), score);
        S::store(column + key * tile_pitch, score);
      }
      return score;
    });
  }

  // Loads the mask's bits for a vector of rows and the block at `first`, without missing keys. Returns whether one of
  // the keys [begin, end) is excluded.
  bool load_mask(std::size_t r, std::size_t first, std::size_t begin, std::size_t end) {
    if (begin >= end) return false;
    const bool fetches = tile_.kv_len() - first > block;
    const std::uint64_t exist = ~tile_.missing(first, end);
    if (!o_.mask && exist == ~std::uint64_t{0}) return false;
    std::uint64_t all = ~std::uint64_t{0};
    for (std::size_t i = 0; i < S::width; ++i) {
      std::uint64_t bits = exist;
      if (o_.mask) {
        const std::uint8_t *const flags = mask_[r + i] + first;
        if (fetches) __builtin_prefetch(flags + 2 * block - 1, 0, 2);  // the next block's flags
        bits &= S::flag_bits(flags, end);
      }
      for (std::size_t w = 0; w < words; ++w) seen_[w][i] = static_cast<Word>(bits >> (w * word_bits));
      all &= bits;
    }
    return (~all >> begin & ~std::uint64_t{0} >> (block - (end - begin))) != 0;
  }

  // Turns a vector's dot products with the keys that it sees into scores, and returns the largest. `masked`
  // is the result of load_mask(), or false without a mask.
  batch make(std::size_t r, std::size_t first, const SeenKeys &seen, bool masked) const {
    const Vector of{r, first, seen.any.first, seen.any.end};
    if (seen.excludes_some_of(seen.any)) return masked ? make_as<true, true>(of) : make_as<true, false>(of);
    return masked ? make_as<false, true>(of) : make_as<false, false>(of);
  }

  using Word = typename S::word;
  static constexpr std::size_t word_bits = 8 * sizeof(Word), words = block / word_bits;
  // make_keys() processes this many keys at a time, which fit in the registers.
  static constexpr std::size_t together = S::registers == 32 && S::width >= 4 ? 4 : 2;

  // Describes the vector of rows at r, and the keys [begin, end) of the block at `first`.
  struct Vector {
    std::size_t r, first, begin, end;
  };
  // Holds the biases of a vector of keys for a vector of rows, with rows in the lanes.
  struct Square {
    alignas(64) A row[S::width][S::width];
  };

  // Returns the score formula for the vector of rows at r and the block at `first`.
  ScoreFormula<A> formula_of(std::size_t r, std::size_t first) const {
    alignas(64) A begin[S::width], end[S::width], to_block[S::width] = {};
    for (std::size_t i = 0; i < S::width; ++i) {
      begin[i] = static_cast<A>(within_block(rows_.first[r + i], first));
      end[i] = static_cast<A>(within_block(rows_.end[r + i], first));
      if (!o_.alibi_slopes) continue;
      const std::int64_t position = tile_.position(rows_.of[r + i]);
      to_block[i] = static_cast<A>(static_cast<std::int64_t>(first) - position);
    }
    ScoreFormula<A> formula(o_, rows_);
    formula.factor = S::load(rows_.factor + r);
    formula.slope = S::load(rows_.slope + r);
    formula.from_natural = S::load(rows_.from_natural + r);
    formula.distance = S::load(to_block);
    formula.from = S::load(begin);
    formula.to = S::load(end);
    return formula;
  }

  // `bounded` says that some row does not see all the keys, and `masked` that the mask excludes a key. Most
  // blocks are neither, and then no key needs a comparison.
  template <bool bounded, bool masked>
  [[gnu::noinline, gnu::flatten]] batch make_as(const Vector &of) const {
    const ScoreFormula<A> formula = formula_of(of.r, of.first);
    const std::size_t left = tile_.kv_len() - of.first;
    batch index(static_cast<A>(of.begin)), max[together];
    for (batch &largest : max) largest = batch(-std::numeric_limits<A>::infinity());
    for (std::size_t j = of.begin / S::width * S::width; j < of.end; j += S::width) {
      Square bias;
      if (o_.bias) {
        load_square(of.r, of.first + j, left - j < S::width ? left - j : S::width, bias);
        if (left > block) fetch_next(of.r, of.first + j);
      }
      const std::size_t last = of.end - j < S::width ? of.end : j + S::width;
      std::size_t key = j < of.begin ? of.begin : j;
      for (; last - key >= together; key += together) {
        make_keys<bounded, masked, together>(formula, of.r, key, index, bias, max);
        index = index + batch(A(together));
      }
      for (; key < last; ++key, index = index + batch(A(1))) {
        make_keys<bounded, masked, 1>(formula, of.r, key, index, bias, max);
      }
    }
    for (std::size_t i = 1; i < together; ++i) max[0] = S::max_number(max[i], max[0]);
    return max[0];
  }

  // Computes the scores of `count` keys from `key` on. Every lane of `first_index` is `key`. The keys share
  // the branches, but each has a separate maximum, because one maximum would be a chain of 4 cycles per key.
  template <bool bounded, bool masked, std::size_t count>
  RAPT_INNER void make_keys(const ScoreFormula<A> &formula, std::size_t r, std::size_t key, batch first_index,
                            const Square &bias, batch (&max)[together]) const {
    const batch minus_infinity(-std::numeric_limits<A>::infinity()), zero(A(0));
    const std::size_t at = key * tile_pitch + r;
    const auto each = [](auto f) RAPT_INNER { unroll<count>(f); };
    batch score[count];
    typename S::mask excluded[count];
    each([&](std::size_t i) RAPT_INNER { score[i] = S::load(scores_ + at + i * tile_pitch); });
    formula.template make<bounded>(
        score, excluded,
        [&](auto i) RAPT_INNER { return first_index + batch(static_cast<A>(std::size_t{i})); },
        [&](auto i) RAPT_INNER { return S::load(bias.row[key % S::width + i]); },
        std::bool_constant<masked>(),
        [&](auto i)
            RAPT_INNER { return S::bit_set(seen_[(key + i) / word_bits], Word{1} << (key + i) % word_bits); },
        [&](auto i, batch tanh) RAPT_INNER {
          if (slopes) S::store(slopes + at + i * tile_pitch, S::fnma(tanh, tanh, batch(A(1))));
        });
    if (bounded || masked || rows_.has_formula) {
      each([&](std::size_t i) RAPT_INNER { S::store(scores_ + at + i * tile_pitch, score[i]); });
    }
    if (exclusions) {
      each([&](std::size_t i) RAPT_INNER {
        S::store(exclusions + at + i * tile_pitch, S::select(excluded[i], minus_infinity, zero));
      });
    }
    each([&](std::size_t i) RAPT_INNER { max[i] = S::max_number(score[i], max[i]); });
  }

  // Prefetches the biases that are one block after key `key`.
  void fetch_next(std::size_t r, std::size_t key) const {
    constexpr std::size_t line = 64;
    const std::size_t size = rapt::size_of(o_.bias_type);
    if (key * size % line != 0) return;
    for (std::size_t i = 0; i < S::width; ++i)
      __builtin_prefetch(bias_[r + i] + (key + block) * size + line - 1, 0, 2);
  }

  // Loads what is added for `keys` keys from `key` on, transposed. It goes through memory, because with registers
  // make_as() had to be unrolled over the keys, which was 13 KB and no faster.
  RAPT_INNER void load_square(std::size_t r, std::size_t key, std::size_t keys, Square &square) const {
    batch v[S::width];
    rapt::with_element<A>(o_.bias_type, [&](auto element) RAPT_INNER {
      using B = typename decltype(element)::type;
      const B *row[S::width];
      for (std::size_t i = 0; i < S::width; ++i) row[i] = reinterpret_cast<const B *>(bias_[r + i]) + key;
      load_transposed<A>(v, row, 0, keys);
    });
    const batch slope = S::load(bias_slope_ + r);
    unroll<S::width>([&](std::size_t i) RAPT_INNER { S::store(square.row[i], v[i] * slope); });
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  const TileRows<A> &rows_;
  A *scores_;
  const std::uint8_t *mask_[rapt::attention_tile_rows];
  const char *bias_[rapt::attention_tile_rows];
  alignas(64) A bias_slope_[rapt::attention_tile_rows];
  alignas(64) Word seen_[words][S::width];  // one word per row of a vector
};

}  // namespace
