// Attention of tiles with many rows: rows in the vector lanes.
//
// A block of 64 keys is: dot products of all rows (Products), scores where options make them or rows see
// different keys (TileScores), weights and their sum (tile_weights), values (Products). Queries are
// transposed once, outputs at the end. A score is then one chain over the dimension by construction.
//
// On AVX-512 in f32 with head_dim 64 the products of 16 scores take at least 64 cycles, and their weights 7.
// A block also loads and stores its accumulators once. That leaves 84 % of the peak. Measured: 79 % (512
// tokens), 84 % at head_dim 128.
//
//   8 heads of 128 causal tokens                                     | microseconds
//   ranges of a vector's rows looked up row by row for each block    | 176
//   results cleared, rescaled and searched for NaN in passes         | 165
//   this                                                             | 152
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/attention/segments.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/tile_scores.hpp"
#include "kernels/attention/tile_values.hpp"
#include "kernels/attention/tile_weights.hpp"

namespace {

// Products: the only part that knows element types, and how queries meet keys and weights meet values.
template <class Products>
class ManyRows {
 public:
  using A = typename Products::A;
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t block = rapt::attention_block;
  static constexpr std::size_t chunk = rapt::attention_chunk;
  static constexpr bool by_groups = SumsByGroups<Products>;
  using Parts = Segments<A, by_groups ? rapt::Bf16Contract::group : rapt::attention_page_unit>;

  ManyRows(const AttentionTile &tile, TileRows<A> &rows, A *workspace)
      : tile_(tile),
        o_(tile.options()),
        rows_(rows),
        products_(tile, rows, workspace),
        total_values_(workspace + Products::workspace_length(o_)),
        chunk_values_(total_values_ + o_.v_dim * tile_pitch),
        scores_(tile, rows, chunk_values_ + o_.v_dim * tile_pitch) {}

  // Comes before all runs: out may be q, and the first run's results are then where the queries were.
  void load_queries() { products_.load_queries(); }

  // Takes in the keys [begin, end), which begin at a chunk.
  [[gnu::flatten]] void run(RowSums<A> &total, std::size_t begin, std::size_t end) {
    some_excluded_ = false;
    take_keys(total, begin, end);
  }

  // A key that only some rows of a vector see has weight 0 in the others, and 0 times NaN or infinity is NaN.
  // A result with a NaN that may come from there is computed again, row by row. A look at every value
  // beforehand would cost 2 % of masked blocks.
  bool some_excluded() const { return some_excluded_; }
  void be_careful() {
    careful_ = true;
    scores_.exclusions = scores_.data() + block * tile_pitch;
  }

  // Whether results may lack the contract's bits, which be_exact() then gives another run.
  bool is_doubtful() const {
    if constexpr (by_groups) return products_.is_doubtful();
    return false;
  }
  void be_exact() {
    if constexpr (by_groups) products_.be_exact();
  }

  // Row r's values times rows.rescale to address(r); true if one is NaN.
  template <class Address>
  [[gnu::always_inline]] bool store(Address address) const {
    return store_values(rows_, total_values_, o_.v_dim, address);
  }

 private:
  void take_keys(RowSums<A> &total, std::size_t begin, std::size_t end) {
    const AttentionTile::Range seen = rows_.range();
    if (begin < seen.first) begin = seen.first / chunk * chunk;
    if (end > seen.end) end = seen.end;
    if (begin >= end) {
      total.clear();
      clear_values(total_values_, o_.v_dim, 0, rows_.lanes);
      return;
    }
    RowSums<A> next;
    for (std::size_t key = begin; key < end; key += chunk) {
      const bool is_first = key == begin;
      RowSums<A> &sums = is_first ? total : next;
      A *values = is_first ? total_values_ : chunk_values_;
      sums.clear();
      for (bool &has : has_values_) has = false;
      const std::size_t from = key < seen.first ? seen.first / block * block : key;
      const std::size_t chunk_end = end - key < chunk ? end : key + chunk;
      for (std::size_t k = from; k < chunk_end; k += block) take_block(sums, values, k);
      for (std::size_t r = 0; r < rows_.lanes; r += panel) {
        if (!has_values_[r / panel])
          clear_values(values, o_.v_dim, r, r + panel < rows_.lanes ? r + panel : rows_.lanes);
      }
      if constexpr (by_groups) multiply_by_weights_unit(sums, values);
      if (!is_first) fold(total, next);
    }
  }

  void fold(RowSums<A> &total, const RowSums<A> &next) {
    rows_.fold(total, next);
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      const batch a = S::load(rows_.rescale + r), b = S::load(rows_.rescale_next + r);
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        A *value = total_values_ + d * tile_pitch + r;
        S::store(value, S::fma(S::load(chunk_values_ + d * tile_pitch + r), b, S::load(value) * a));
      }
    }
  }

  void take_block(RowSums<A> &sums, A *values, std::size_t first) {
    const std::size_t left = tile_.kv_len() - first, keys = left < block ? left : block;
    products_.find_block(first, keys, left - keys);
    for (std::size_t r = 0; r < rows_.lanes; r += panel) {
      const std::size_t to = rows_.lanes - r < panel ? rows_.lanes : r + panel;
      const Parts segments(rows_, first, r, to);
      if (segments.empty()) continue;
      const bool any_rescaled = take_weights(sums, segments, first, r, to);
      if constexpr (by_groups) {
        take_values_by_groups(sums, values, segments, r, to, any_rescaled);
      } else {
        take_values(values, segments, first, r, to, any_rescaled);
      }
    }
  }

  // Scores and weights of a panel's rows; true if a row's maximum has changed.
  bool take_weights(RowSums<A> &sums, const Parts &segments, std::size_t first, std::size_t from,
                    std::size_t to) {
    alignas(64) A largest[panel], segment_largest[panel];
    for (std::size_t r = 0; r < to - from; r += S::width) {
      S::store(largest + r, batch(-std::numeric_limits<A>::infinity()));
    }
    seen_ = {to, from};
    for (const Segment &part : segments) {
      products_.scores(part, scores_.data(), segment_largest);
      for (std::size_t r = part.from; r < part.to; r += S::width) {
        A *of_row = largest + (r - from);
        S::store(of_row, S::max(S::load(segment_largest + (r - part.from)), S::load(of_row)));
      }
      if (part.from < seen_.from) seen_.from = part.from;
      if (part.to > seen_.to) seen_.to = part.to;
    }

    bool any_rescaled = false;
    for (std::size_t r = seen_.from; r < seen_.to; r += S::width) {
      batch max = S::load(largest + (r - from));
      const AttentionTile::Range any = within_block(rows_.vector_range(r).any, first),
                                 all = within_block(rows_.vector_range(r).all, first);
      // Whether keys were multiplied that some of these rows do not see.
      const bool excludes =
          all.first != any.first || all.end != any.end || !segments.cover(r, any.first, any.end);
      const bool masked = o_.mask && scores_.load_mask(r, first, any.first, any.end);
      if (rows_.made || masked || careful_) {
        max = scores_.make(r, first, any.first, any.end, masked);
      } else if (excludes) {
        max = scores_.exclude(r, first, any, all);
      }
      some_excluded_ = some_excluded_ || o_.mask || o_.bias || excludes;
      // Bitwise, so that every vector is taken in.
      if constexpr (by_groups) {
        if (careful_) exclude_all_but(r, any.first, any.end);
        any_rescaled |= rows_.take_max_by_groups(sums, r, max);
        tile_weights_of_16_bits(scores_.row(r), any.first, any.end, S::load(sums.base + r),
                                S::load(sums.offset + r), rows_.to_log2_by_groups(r));
      } else {
        any_rescaled |= rows_.take_max(sums, r, max);
        rows_.take_sum(sums, r,
                       tile_weights<A>(scores_.row(r), any.first, any.end, S::load(rows_.reference + r),
                                       S::load(rows_.to_log2 + r), S::load(rows_.cutoff + r)));
      }
    }
    return any_rescaled;
  }

  // make() looks at the keys [begin, end) alone, but groups reach beyond them.
  void exclude_all_but(std::size_t r, std::size_t begin, std::size_t end) const {
    for (std::size_t j = 0; j < block; ++j) {
      if (j >= begin && j < end) continue;
      S::store(scores_.exclusions + j * tile_pitch + r, batch(-std::numeric_limits<A>::infinity()));
    }
  }

  void take_values_by_groups(RowSums<A> &sums, A *values, const Parts &segments, std::size_t from,
                             std::size_t to, bool any_rescaled) {
    bool &has_values = has_values_[from / panel];
    if (!has_values) clear_values(values, o_.v_dim, from, to);
    has_values = true;
    if (any_rescaled) {
      rescale(values, seen_.from, seen_.to);
      for (std::size_t r = seen_.from; r < seen_.to; r += S::width) {
        S::store(sums.sum + r, S::load(sums.sum + r) * S::load(rows_.rescale + r));
      }
    }
    for (const Segment &part : segments) {
      products_.values(part, scores_.data(), careful_ ? scores_.exclusions : nullptr, values, sums.sum);
    }
  }

  void multiply_by_weights_unit(RowSums<A> &sums, A *values) const {
    const batch unit(rapt::Bf16Contract::from_weights);
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      S::store(sums.sum + r, S::load(sums.sum + r) * unit);
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        A *value = values + d * tile_pitch + r;
        S::store(value, S::load(value) * unit);
      }
    }
  }

  void take_values(A *values, const Parts &segments, std::size_t first, std::size_t from, std::size_t to,
                   bool any_rescaled) {
    // A first segment of all the panel's rows rescales, or drops, the results so far.
    bool &has_values = has_values_[from / panel];
    Before before = !has_values ? Before::dropped : any_rescaled ? Before::rescaled : Before::kept;
    if (careful_ || segments.front().from != from || segments.front().to != to) {
      if (!has_values) clear_values(values, o_.v_dim, from, to);
      if (before == Before::rescaled) rescale(values, seen_.from, seen_.to);
      before = Before::kept;
    }
    has_values = true;
    for (const Segment &part : segments) {
      if (careful_) {
        take_values_by_row(values, part, first);
        continue;
      }
      products_.values(part, scores_.data(), before, rows_.rescale, values);
      before = Before::kept;
    }
  }

  void rescale(A *values, std::size_t from, std::size_t to) const {
    for (std::size_t r = from; r < to; r += S::width) {
      const batch factor = S::load(rows_.rescale + r);
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        A *value = values + d * tile_pitch + r;
        S::store(value, S::load(value) * factor);
      }
    }
  }

  [[gnu::noinline]] void take_values_by_row(A *values, const Segment &part, std::size_t first) const {
    const batch zero(A(0));
    for (std::size_t r = part.from; r < part.to; r += S::width) {
      const AttentionTile::Range seen = within_block(rows_.vector_range(r).any, first);
      for (std::size_t j = part.begin; j < part.end; ++j) {
        if (j < seen.first || j >= seen.end) continue;
        const std::size_t at = j * tile_pitch + r;
        products_.add_value(j, S::load(scores_.data() + at), S::equal(S::load(scores_.exclusions + at), zero),
                            values + r);
      }
    }
  }

  static constexpr std::size_t panel = panel_rows<A>;

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  TileRows<A> &rows_;
  Products products_;
  A *total_values_, *chunk_values_;
  TileScores<A> scores_;
  struct {
    std::size_t from, to;
  } seen_{};  // the rows of the present panel that see a key of the block
  bool has_values_[rapt::attention_tile_rows / panel];
  bool some_excluded_ = false;
  bool careful_ = false;
};

}  // namespace
