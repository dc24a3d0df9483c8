// Attention of tiles with few rows, as in decoding: keys in the vector lanes for the scores, dimensions for
// the values. All rows of a key/value head use a key or value while it is in a register.
//
// Weights are a chain of some 250 cycles, so the values of the block before come after them in the program.
// That, and addresses by runs of 16 keys instead of one by one, took .0145 ms to .0137.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/attention/block.hpp"
#include "kernels/attention/score_formula.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/tile_weights.hpp"
#include "kernels/attention/weight.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/lane_index.hpp"

namespace {

// Products: the only part that knows element types, and how queries meet keys and weights meet values.
template <class Products>
class FewRows {
 public:
  using A = typename Products::A;
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t block = rapt::attention_block;
  static constexpr std::size_t chunk = rapt::attention_chunk;
  static constexpr std::size_t most = Products::most_rows;
  static constexpr bool by_groups = SumsByGroups<Products>;

  // The results have room for rows of whole vectors.
  FewRows(const AttentionTile &tile, TileRows<A> &rows, A *workspace)
      : tile_(tile),
        o_(tile.options()),
        rows_(rows),
        pitch_((o_.v_dim + S::width - 1) / S::width * S::width),
        total_values_(workspace),
        chunk_values_(total_values_ + most * pitch_),
        scores_{chunk_values_ + most * pitch_, chunk_values_ + most * (pitch_ + block)},
        products_(tile, rows, scores_[1] + most * block) {}

  // As in ManyRows.
  void load_queries() { products_.load_queries(); }

  // Takes in the keys [begin, end), which begin at a chunk.
  [[gnu::flatten]] void run(RowSums<A> &total, std::size_t begin, std::size_t end) {
    some_excluded_ = false;
    take_keys(total, begin, end);
  }

  // As in ManyRows.
  bool some_excluded() const { return !Products::ignores_excluded && some_excluded_; }
  void be_careful() { careful_ = true; }
  bool is_doubtful() const {
    if constexpr (by_groups) return products_.is_doubtful();
    return false;
  }
  void be_exact() {
    if constexpr (by_groups) products_.be_exact();
  }

  // Folds row r's results of all chunks, which lie at address(r, chunk): maximum, sum, values.
  template <class Address>
  void merge(RowSums<A> &total, std::size_t chunks, Address address) {
    total.clear();
    clear(total_values_, rows_.rows);
    RowSums<A> next;
    next.clear();
    for (std::size_t c = 0; c < chunks; ++c) {
      for (std::size_t r = 0; r < rows_.lanes; ++r) {
        const A *partial = address(r < rows_.rows ? r : rows_.rows - 1, c);
        next.max[r] = partial[0];
        next.sum[r] = partial[1];
      }
      rows_.fold(total, next);
      for (std::size_t r = 0; r < rows_.rows; ++r) fold_values(r, address(r, c) + 2);
    }
  }

  // Row r's values times rows.rescale to address(r); true if one is NaN.
  template <class Address>
  bool store(Address address) const {
    batch all(A(0));
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      auto *const out = address(r);
      const batch factor(rows_.rescale[r]), seen(rows_.seen[r]);
      for (std::size_t d = 0; d < o_.v_dim; d += S::width) {
        const batch v = rows_.finished(S::load(total_values_ + r * pitch_ + d), factor, seen);
        S::store_first(out + d, v, o_.v_dim - d);
        all = all + v;
      }
    }
    return S::any(S::unordered(all, all));
  }

 private:
  // A block whose weights wait for its values.
  struct Block {
    std::size_t first, keys;
    A *scores;
    A rescale[most];
  };

  void clear(A *values, std::size_t rows) const {
    for (std::size_t i = 0; i < rows * pitch_; i += S::width) S::store(values + i, batch(A(0)));
  }

  void take_keys(RowSums<A> &total, std::size_t begin, std::size_t end) {
    const AttentionTile::Range seen = rows_.range();
    if (begin < seen.first) begin = seen.first / chunk * chunk;
    if (end > seen.end) end = seen.end;
    total.clear();
    clear(total_values_, Products::padded(rows_.rows));
    RowSums<A> next;
    bool is_first = true;
    for (std::size_t key = begin; key < end; key += chunk) {
      const std::size_t chunk_end = end - key < chunk ? end : key + chunk;
      RowSums<A> &sums = is_first ? total : next;
      A *values = is_first ? total_values_ : chunk_values_;
      if (!is_first) {
        next.clear();
        clear(chunk_values_, Products::padded(rows_.rows));
      }
      const std::size_t from = key < seen.first ? seen.first / block * block : key;
      products_.begin_chunk(from, chunk_end, end);
      Block now{}, before{};
      for (std::size_t k = from; k < chunk_end; k += block, before = now) {
        now = {k, chunk_end - k < block ? chunk_end - k : block, scores_[k / block % 2], {}};
        take_weights(sums, now);
        if (before.keys > 0) take_values(values, before);
      }
      take_values(values, before);
      if constexpr (by_groups) multiply_by_weights_unit(sums, values);
      if (!is_first) {
        rows_.fold(total, next);
        for (std::size_t r = 0; r < rows_.rows; ++r) fold_values(r, chunk_values_ + r * pitch_);
      }
      is_first = false;
    }
  }

  // Folds one row's next results into the total, by the factors that rows.fold left.
  void fold_values(std::size_t r, const A *next) const {
    const batch a(rows_.rescale[r]), b(rows_.rescale_next[r]);
    A *const value = total_values_ + r * pitch_;
    for (std::size_t d = 0; d < o_.v_dim; d += S::width) {
      S::store(value + d, S::fma(S::load_first(next + d, o_.v_dim - d), b, S::load(value + d) * a));
    }
  }

  void take_weights(RowSums<A> &sums, Block &now) {
    products_.scores(now.first, now.keys, now.scores);
    alignas(64) A numbers[RowSums<A>::count];
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      const std::size_t begin = within_block(rows_.first[r], now.first),
                        row_end = within_block(rows_.end[r], now.first);
      if (begin > 0 || row_end < now.keys || o_.mask || o_.bias) some_excluded_ = true;
      const bool as_they_are = begin == 0 && row_end == block && !rows_.made && !o_.mask;
      numbers[r] = as_they_are ? largest_of(now.scores + r * block) : make_scores(r, now, begin, row_end);
    }
    for (std::size_t r = rows_.rows; r < rows_.lanes; ++r) numbers[r] = numbers[rows_.rows - 1];
    if constexpr (by_groups) {
      for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
        rows_.take_max_by_groups(sums, r, S::load(numbers + r));
      }
      for (std::size_t r = 0; r < rows_.rows; ++r) make_weights_by_groups(sums, r, now);
    } else {
      for (std::size_t r = 0; r < rows_.lanes; r += S::width) rows_.take_max(sums, r, S::load(numbers + r));
      for (std::size_t r = 0; r < rows_.rows; ++r) numbers[r] = make_weights(r, now);
      products_.take_weights(now.first, now.keys, now.scores);
      for (std::size_t r = rows_.rows; r < rows_.lanes; ++r) numbers[r] = numbers[rows_.rows - 1];
      for (std::size_t r = 0; r < rows_.lanes; r += S::width) rows_.take_sum(sums, r, S::load(numbers + r));
    }
    for (std::size_t r = 0; r < Products::padded(rows_.rows); ++r) {
      now.rescale[r] = rows_.rescale[r < rows_.lanes ? r : 0];
    }
  }

  void take_values(A *values, const Block &now) {
    if constexpr (by_groups) {
      take_values_by_groups(values, now);
    } else if (careful_) {
      products_.skip_values();
      take_values_by_row(values, now);
    } else {
      products_.values(now.keys, now.scores, now.rescale, values, pitch_);
    }
  }

  void take_values_by_groups(A *values, const Block &now) {
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      if (now.rescale[r] != 1) multiply(values + r * pitch_, now.rescale[r]);
    }
    if (!careful_) return products_.values(now.first, now.keys, now.scores, values, pitch_);
    products_.skip_values();
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      products_.exact_values(now.first, now.keys, now.scores + r * block, values + r * pitch_,
                             [&](std::size_t key) { return visible(r, key); });
    }
  }
  void multiply(A *row, A factor) const {
    for (std::size_t d = 0; d < pitch_; d += S::width) S::store(row + d, S::load(row + d) * batch(factor));
  }
  void multiply_by_weights_unit(RowSums<A> &sums, A *values) const {
    constexpr A unit = rapt::Bf16Contract::from_weights;
    for (std::size_t r = 0; r < rows_.lanes; ++r) sums.sum[r] *= unit;
    for (std::size_t r = 0; r < rows_.rows; ++r) multiply(values + r * pitch_, unit);
  }

  bool visible(std::size_t r, std::size_t key) const {
    if (key < rows_.first[r] || key >= rows_.end[r]) return false;
    if (o_.mask && tile_.mask(rows_.of[r])[key] == 0) return false;
    return !o_.bias || tile_.bias<A>(rows_.of[r])[key] != -std::numeric_limits<A>::infinity();
  }

  // Turns a row's dot products with a block into scores, -inf for excluded keys and past the last key;
  // returns the largest.
  A make_scores(std::size_t r, const Block &now, std::size_t begin, std::size_t end) const {
    const std::size_t first = now.first;
    const batch minus_infinity(-std::numeric_limits<A>::infinity());
    A *const row = now.scores + r * block;
    const A *bias = o_.bias ? tile_.bias<A>(rows_.of[r]) + first : nullptr;
    const std::uint8_t *mask = o_.mask ? tile_.mask(rows_.of[r]) + first : nullptr;
    const ScoreFormula<A> formula(rows_.cap, o_.alibi_slopes != nullptr);
    const batch factor(rows_.factor[r]), slope(rows_.slope[r]);
    const batch distance(static_cast<A>(static_cast<std::int64_t>(first) - tile_.position(rows_.of[r])));
    const batch from(static_cast<A>(begin)), to(static_cast<A>(end));
    batch max = minus_infinity;
    for (std::size_t j = 0; j < block; j += S::width) {
      if (j >= end || j + S::width <= begin) {
        S::store(row + j, minus_infinity);
        continue;
      }
      batch score = S::load(row + j);
      const std::size_t count = now.keys - j;
      const batch index = S::load(lane_index<A>) + batch(static_cast<A>(j));
      auto excluded = S::either(S::less(index, from), S::negate(S::less(index, to)));
      if (rows_.made) {
        score = formula(score, factor, slope, distance + index, [](batch) {});
        if (bias) score = formula.with_bias(score, S::load_first(bias + j, count), excluded);
      }
      if (mask) excluded = S::either(excluded, S::negate(S::load_flags(mask + j, count)));
      score = S::select(excluded, minus_infinity, score);
      S::store(row + j, score);
      max = S::max_number(score, max);
    }
    return S::fold_max(max);
  }

  static A largest_of(const A *row) {
    const batch none(-std::numeric_limits<A>::infinity());
    batch max[4];
    unroll<4>([&](auto i) __attribute__((always_inline)) {
      max[i] = S::max_number(S::load(row + i * S::width), none);
    });
    for (std::size_t j = 4 * S::width; j < block; j += 4 * S::width) {
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        max[i] = S::max_number(S::load(row + j + i * S::width), max[i]);
      });
    }
    return S::fold_max(S::max(S::max(max[0], max[1]), S::max(max[2], max[3])));
  }

  // Turns a row's scores into weights; returns their sum by halves.
  A make_weights(std::size_t r, const Block &now) const {
    A *const row = now.scores + r * block;
    const batch reference(rows_.reference[r]), to_log2(rows_.to_log2[r]), cutoff(rows_.cutoff[r]);
    batch weights[block / S::width];
    unroll<block / S::width>([&](auto i) __attribute__((always_inline)) {
      weights[i] = Weight<A>()(S::load(row + i * S::width) - reference, to_log2, cutoff);
      S::store(row + i * S::width, weights[i]);
    });
    return fold_lanes<A>(weights);
  }

  // The same for RAPT_ARITHMETIC_BF16, whose sum is that of values of 1.
  void make_weights_by_groups(RowSums<A> &sums, std::size_t r, const Block &now) const {
    A *const row = now.scores + r * block;
    const batch base(sums.base[r]), offset(sums.offset[r]), to_log2(rows_.to_log2_by_groups_of(r));
    unroll<block / S::width>([&](auto i) __attribute__((always_inline)) {
      S::store(row + i * S::width, weight_of_16_bits(S::load(row + i * S::width), base, offset, to_log2));
    });
    constexpr std::size_t group = rapt::Bf16Contract::group;
    A sum = sums.sum[r] * rows_.rescale[r], even[block / group] = {}, odd[block / group] = {};
    for (std::size_t i = 0; i < group; i += 2) {
      unroll<block / group>([&](auto g) __attribute__((always_inline)) {
        even[g] += row[g * group + i];
        odd[g] += row[g * group + i + 1];
      });
    }
    unroll<block / group>([&](auto g) __attribute__((always_inline)) { sum += even[g] + odd[g]; });
    sums.sum[r] = sum;
  }

  [[gnu::noinline]] void take_values_by_row(A *values, const Block &now) const {
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      const batch rescale(now.rescale[r]);
      A *const value = values + r * pitch_;
      for (std::size_t d = 0; d < o_.v_dim; d += S::width) S::store(value + d, S::load(value + d) * rescale);
      for (std::size_t j = 0; j < now.keys; ++j) {
        if (visible(r, now.first + j)) {
          products_.add_value(now.first + j, batch(now.scores[r * block + j]), value);
        }
      }
    }
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  TileRows<A> &rows_;
  std::size_t pitch_;
  A *total_values_, *chunk_values_, *scores_[2];
  Products products_;
  bool some_excluded_ = false;
  bool careful_ = false;
};

}  // namespace
