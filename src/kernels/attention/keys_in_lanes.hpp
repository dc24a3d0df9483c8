// Computes attention of tiles with few query rows, as in decoding. The vector lanes are keys for scores, and
// dimensions for values. All rows share each load of a key or value.
//
// Computing a block's weights is a chain of about 250 cycles. Adding the previous block's values fills that
// time. Together with computing addresses per run of 16 keys instead of per key, this reduced .0145 ms to
// .0137.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/attention/block.hpp"
#include "kernels/attention/chunks.hpp"
#include "kernels/attention/row_sums.hpp"
#include "kernels/attention/row_values.hpp"
#include "kernels/attention/score_formula.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/lane_index.hpp"

namespace {

// Products knows the element types, and multiplies queries by keys and weights by values. Products::Rule
// turns scores into weights (plain_rule.hpp).
template <class Products, std::size_t most_rows>
class KeysInLanes {
 public:
  using A = typename Products::A;
  using Rule = typename Products::Rule;
  using Sums = typename Rule::Sums;
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t block = rapt::attention_block;

  KeysInLanes(const AttentionTile &tile, const TileRows<A> &rows, A *workspace)
      : tile_(tile),
        o_(tile.options()),
        rows_(rows),
        rule_(rows),
        values_{{rows, o_.v_dim, workspace}, {rows, o_.v_dim, values_[0].row(most_rows)}},
        scores_{values_[1].row(most_rows), values_[1].row(most_rows) + most_rows * block},
        products_(tile, rows, scores_[1] + most_rows * block) {}

  // Must be called before all runs. If out is q, the first run's results overwrite the queries.
  void load_queries() { products_.load_queries(); }

  // Processes the keys [begin, end). `begin` must be the first key of a chunk.
  [[gnu::noinline, gnu::flatten]] void run(std::size_t begin, std::size_t end) {
    some_excluded_ = false;
    add_keys(begin, end);
  }
  const RowSums<A> &sums() const { return sums_[0]; }

  // An excluded key has weight 0, but 0 times a value of NaN or infinity is NaN. If a result is NaN and
  // some_excluded(), the tile is computed again after zero_excluded_values().
  bool some_excluded() const { return !Products::ignores_excluded && some_excluded_; }
  void zero_excluded_values() { careful_ = true; }
  bool is_doubtful() const { return products_.is_doubtful(); }
  void use_exact_products() { products_.use_exact_products(); }

  // Stores row r's finished values to address(r). Returns whether one is NaN.
  template <class Address>
  bool store(const FinalFactors<A> &factors, Address address) const {
    return values_[0].store(factors, address);
  }

 private:
  // Describes a block whose weights are computed, and whose values are not yet added.
  struct Block {
    std::size_t first, keys;
    A *scores;
    A rescale[most_rows];
    std::uint64_t missing;  // bit j belongs to key first + j
  };

  void add_keys(std::size_t begin, std::size_t end) {
    const std::size_t seen_end = rows_.range().end, last = end < seen_end ? end : seen_end;
    const auto add = [&](std::size_t first, std::size_t chunk_end, Sums &sums, const RowValues<A> &values) {
      values.clear(Products::padded(rows_.rows));
      products_.begin_chunk(first, chunk_end, last);
      Block now{}, before{};
      for (std::size_t key = first; key < chunk_end; key += block, before = now) {
        now = {key, chunk_end - key < block ? chunk_end - key : block, scores_[key / block % 2], {}, 0};
        compute_weights(sums, now);
        if (before.keys > 0) add_values(values, before);
      }
      add_values(values, before);
    };
    each_chunk<Rule>(rows_, begin, end, sums_, values_, add);
  }

  void compute_weights(Sums &sums, Block &now) {
    products_.scores(now.first, now.keys, now.scores);
    alignas(64) A numbers[RowSums<A>::count];
    now.missing = tile_.missing(now.first, now.keys);
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      const std::size_t begin = within_block(rows_.first[r], now.first),
                        row_end = within_block(rows_.end[r], now.first);
      if (begin > 0 || row_end < now.keys || o_.mask || o_.bias) some_excluded_ = true;
      const bool as_they_are =
          begin == 0 && row_end == block && !rows_.has_formula && !o_.mask && now.missing == 0;
      numbers[r] = as_they_are ? largest_of(now.scores + r * block) : make_scores(r, now, begin, row_end);
    }
    for (std::size_t r = rows_.rows; r < rows_.lanes; ++r) numbers[r] = numbers[rows_.rows - 1];
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) rule_.update_max(sums, r, S::load(numbers + r));
    for (std::size_t r = 0; r < rows_.rows; ++r) rule_.weigh_row(sums, r, now.scores + r * block);
    products_.prepare_weights(now.first, now.keys, now.scores);
    for (std::size_t r = 0; r < Products::padded(rows_.rows); ++r) {
      now.rescale[r] = rule_.rescale[r < rows_.lanes ? r : 0];
    }
  }

  void add_values(const RowValues<A> &values, const Block &now) {
    if constexpr (!Products::ignores_excluded) {
      if (careful_) {
        return products_.careful_values(now.first, now.keys, now.scores, now.rescale, values.row(0),
                                        values.pitch(),
                                        [&](std::size_t r, std::size_t key) { return is_visible(r, key); });
      }
    }
    products_.values(now.first, now.keys, now.scores, now.rescale, values.row(0), values.pitch());
  }

  bool is_visible(std::size_t r, std::size_t key) const {
    if (key < rows_.first[r] || key >= rows_.end[r] || tile_.is_missing(key)) return false;
    if (o_.mask && tile_.mask(rows_.of[r])[key] == 0) return false;
    return !o_.bias || tile_.bias_at<A>(rows_.of[r], key) != -std::numeric_limits<A>::infinity();
  }

  // Turns a row's dot products with a block into scores, and returns the largest. Excluded keys, and lanes
  // past the last key, get -inf.
  A make_scores(std::size_t r, const Block &now, std::size_t begin, std::size_t end) const {
    const std::size_t first = now.first;
    const batch minus_infinity(-std::numeric_limits<A>::infinity());
    A *const row = now.scores + r * block;
    const char *const bias = tile_.bias(rows_.of[r]);
    const batch bias_slope(tile_.bias_slope<A>(rows_.of[r]));
    const std::uint8_t *mask = o_.mask ? tile_.mask(rows_.of[r]) + first : nullptr;
    std::uint8_t exist[block];
    if (now.missing != 0) [[unlikely]] {
      for (std::size_t j = 0; j < now.keys; ++j)
        exist[j] = (now.missing >> j & 1) == 0 && (!mask || mask[j] != 0);
      mask = exist;
    }
    ScoreFormula<A> formula(o_, rows_);
    formula.factor = batch(rows_.factor[r]);
    formula.slope = batch(rows_.slope[r]);
    formula.from_natural = batch(rows_.from_natural[r]);
    formula.distance = batch(static_cast<A>(static_cast<std::int64_t>(first) - tile_.position(rows_.of[r])));
    formula.from = batch(static_cast<A>(begin));
    formula.to = batch(static_cast<A>(end));
    batch max = minus_infinity;
    for (std::size_t j = 0; j < block; j += S::width) {
      if (j >= end || j + S::width <= begin) {
        S::store(row + j, minus_infinity);
        continue;
      }
      batch score[1] = {S::load(row + j)};
      typename S::mask excluded[1];
      const std::size_t count = now.keys - j;
      const batch index = S::load(lane_index<A>) + batch(static_cast<A>(j));
      formula.template make<true>(
          score, excluded, [&](auto) RAPT_INNER { return index; },
          [&](auto) RAPT_INNER { return load_bias(bias, first + j, count) * bias_slope; }, mask != nullptr,
          [&](auto) RAPT_INNER { return S::load_flags(mask + j, count); }, [](auto, batch) {});
      S::store(row + j, score[0]);
      max = S::max_number(score[0], max);
    }
    return S::fold_max(max);
  }

  batch load_bias(const char *row, std::size_t key, std::size_t count) const {
    return rapt::with_element<A>(o_.bias_type, [&](auto element) RAPT_INNER {
      return S::load_first(reinterpret_cast<const typename decltype(element)::type *>(row) + key, count);
    });
  }

  static A largest_of(const A *row) {
    const auto score = [&](std::size_t j) RAPT_INNER { return S::load(row + j * S::width); };
    return S::fold_max(largest_score<A>({0, block / S::width}, score));
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  const TileRows<A> &rows_;
  Rule rule_;
  Sums sums_[2];  // [0] of all chunks so far, [1] of the current one
  RowValues<A> values_[2];
  A *scores_[2];
  Products products_;
  bool some_excluded_ = false;
  bool careful_ = false;
};

}  // namespace
