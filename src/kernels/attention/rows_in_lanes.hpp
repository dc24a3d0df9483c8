// Computes attention of tiles with many query rows. The vector lanes are rows.
//
// A block of 64 keys takes four steps. Products computes the dot products of all rows. TileScores applies
// options, and excludes the keys that a row does not see. Products::Rule computes weights and their sum.
// Products adds the values. Queries are transposed at the start and outputs at the end, so every score is one
// chain over the dimensions.
//
// On AVX-512 in f32 with head_dim 64, the products of 16 scores take at least 64 cycles, and their weights 7.
// A block also loads and stores its accumulators once. That leaves 84 % of the peak. We measured 79 % with
// 512 tokens, and 84 % at head_dim 128.
//
//   8 heads of 128 causal tokens                                     | microseconds
//   ranges of a vector's rows looked up row by row for each block    | 176
//   results cleared, rescaled and searched for NaN in passes         | 165
//   this one                                                         | 152
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/attention/chunks.hpp"
#include "kernels/attention/row_sums.hpp"
#include "kernels/attention/segments.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/tile_scores.hpp"
#include "kernels/attention/tile_values.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Products knows the element types, and multiplies queries by keys and weights by values. Products::Rule
// turns scores into weights (plain_rule.hpp).
template <class Products>
class RowsInLanes {
 public:
  using A = typename Products::A;
  using Rule = typename Products::Rule;
  using Sums = typename Rule::Sums;
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t block = rapt::attention_block;
  using TileSegments = Segments<A, Rule::segment_keys>;

  RowsInLanes(const AttentionTile &tile, const TileRows<A> &rows, A *workspace)
      : tile_(tile),
        o_(tile.options()),
        rows_(rows),
        rule_(rows),
        products_(tile, rows, workspace),
        values_{{rows, o_.v_dim, workspace + Products::workspace_length(o_)},
                {rows, o_.v_dim, values_[0].data() + TileValues<A>::length(o_.v_dim)}},
        scores_(tile, rows, values_[1].data() + TileValues<A>::length(o_.v_dim)) {}

  // Must be called before all runs. If out is q, the first run's results overwrite the queries.
  void load_queries() { products_.load_queries(); }

  // Processes the keys [begin, end). `begin` must be the first key of a chunk.
  [[gnu::noinline, gnu::flatten]] void run(std::size_t begin, std::size_t end) {
    some_excluded_ = false;
    add_keys(begin, end);
  }
  const RowSums<A> &sums() const { return sums_[0]; }

  // A key that only some rows of a vector see has weight 0 in the others, but 0 times NaN or infinity is NaN.
  // If a result is NaN and some_excluded(), the tile is computed again after zero_excluded_values(). Testing
  // every value beforehand would cost 2 % of masked blocks.
  bool some_excluded() const { return some_excluded_; }
  void zero_excluded_values() {
    careful_ = true;
    scores_.exclusions = scores_.data() + block * tile_pitch;
  }

  // Returns whether a result may have wrong bits, because the CPU flushed it before rounding. After
  // use_exact_products(), another run is exact.
  bool is_doubtful() const { return products_.is_doubtful(); }
  void use_exact_products() { products_.use_exact_products(); }

  // Stores row r's finished values to address(r). Returns whether one is NaN.
  template <class Address>
  RAPT_INNER bool store(const FinalFactors<A> &factors, Address address) const {
    return values_[0].store(factors, address);
  }

 private:
  void add_keys(std::size_t begin, std::size_t end) {
    const auto add = [&](std::size_t first, std::size_t chunk_end, Sums &sums, const TileValues<A> &values) {
      for (bool &has : has_values_) has = false;
      for (std::size_t key = first; key < chunk_end; key += block) add_block(sums, values, key);
      for (std::size_t r = 0; r < rows_.lanes; r += panel) {
        if (!has_values_[r / panel]) values.clear(r, r + panel < rows_.lanes ? r + panel : rows_.lanes);
      }
    };
    each_chunk<Rule>(rows_, begin, end, sums_, values_, add);
  }

  void add_block(Sums &sums, const TileValues<A> &values, std::size_t first) {
    const std::size_t left = tile_.kv_len() - first, keys = left < block ? left : block;
    products_.find_block(first, keys, left - keys);
    for (std::size_t r = 0; r < rows_.lanes; r += panel) {
      const std::size_t to = rows_.lanes - r < panel ? rows_.lanes : r + panel;
      const TileSegments segments(rows_, first, r, to);
      if (segments.empty()) continue;
      const bool any_rescaled = compute_weights(sums, segments, first, r, to);
      add_values(sums, values, segments, r, to, any_rescaled);
    }
  }

  // Computes scores and weights of a panel's rows. Returns whether earlier results must be rescaled.
  bool compute_weights(Sums &sums, const TileSegments &segments, std::size_t first, std::size_t from,
                       std::size_t to) {
    alignas(64) A largest[panel], segment_largest[panel];
    for (std::size_t r = 0; r < to - from; r += S::width) {
      S::store(largest + r, batch(-std::numeric_limits<A>::infinity()));
    }
    seen_ = {to, from};
    for (const Segment &segment : segments) {
      products_.scores(segment, scores_.data(), segment_largest);
      for (std::size_t r = segment.from; r < segment.to; r += S::width) {
        A *of_row = largest + (r - from);
        S::store(of_row, S::max(S::load(segment_largest + (r - segment.from)), S::load(of_row)));
      }
      if (segment.from < seen_.from) seen_.from = segment.from;
      if (segment.to > seen_.to) seen_.to = segment.to;
    }

    bool any_rescaled = false;
    for (std::size_t r = seen_.from; r < seen_.to; r += S::width) {
      const SeenKeys seen = rows_.seen_of_block(first, r);
      // `excludes` says whether the products include a key that some of these rows do not see.
      const bool excludes = seen.excludes_some_of(seen.any) || !segments.cover(r, seen.any);
      const batch max =
          scores_.complete(r, first, seen, excludes, [&] { return S::load(largest + (r - from)); });
      some_excluded_ = some_excluded_ || o_.mask || o_.bias || excludes;
      if (careful_) exclude_all_but(r, seen.any);
      any_rescaled |= rule_.update_max(sums, r, max);  // bitwise or, so that every vector is processed
      rule_.weigh_rows(sums, r, scores_.row(r), seen.any.first, seen.any.end);
    }
    return any_rescaled;
  }

  // Marks all keys except `keys` as excluded for the vector of rows at r. TileScores only marks keys among
  // `keys`, but the products may multiply others too.
  void exclude_all_but(std::size_t r, AttentionTile::Range keys) const {
    for (std::size_t j = 0; j < block; ++j) {
      if (j >= keys.first && j < keys.end) continue;
      S::store(scores_.exclusions + j * tile_pitch + r, batch(-std::numeric_limits<A>::infinity()));
    }
  }

  void add_values(Sums &sums, const TileValues<A> &values, const TileSegments &segments, std::size_t from,
                  std::size_t to, bool any_rescaled) {
    bool &has_values = has_values_[from / panel];
    Before before = !has_values ? Before::dropped : any_rescaled ? Before::rescaled : Before::kept;
    has_values = true;
    // If the first segment has all the panel's rows, its products also rescale or drop the earlier results.
    const bool by_products = Products::rescales && segments.front().from == from && segments.front().to == to;
    if (careful_ || !by_products) {
      if (before == Before::dropped) values.clear(from, to);
      if (before == Before::rescaled) values.rescale(seen_.from, seen_.to, rule_.rescale);
      before = Before::kept;
    }
    for (const Segment &segment : segments) {
      if (careful_) {
        products_.careful_values(segment, scores_.data(), scores_.exclusions, values.data(), sums.sum);
      } else {
        products_.values(segment, scores_.data(), before, rule_.rescale, values.data(), sums.sum);
      }
      before = Before::kept;
    }
  }

  static constexpr std::size_t panel = panel_rows<A>;

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  const TileRows<A> &rows_;
  Rule rule_;
  Sums sums_[2];  // [0] of all chunks so far, [1] of the current one
  Products products_;
  TileValues<A> values_[2];
  TileScores<A> scores_;
  struct {
    std::size_t from, to;
  } seen_{};  // rows of the current panel that see a key of the block
  bool has_values_[rapt::attention_tile_rows / panel];
  bool some_excluded_ = false;
  bool careful_ = false;
};

}  // namespace
