// The products of ManyRows for any level: an element of a key or value is broadcast to all rows.
#pragma once

#include <cstddef>

#include "call/attention_tile.hpp"
#include "kernels/attention/block.hpp"
#include "kernels/attention/panels.hpp"
#include "kernels/attention/segments.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/transposed.hpp"

namespace {

// Queries of Q, keys and values of KV. A level with another way to multiply supplies a class with these
// members.
template <class Q, class KV>
class BroadcastProducts {
 public:
  using A = rapt::Arithmetic<Q>;
  using S = simd<A>;
  using batch = typename S::batch;

  static std::size_t workspace_length(const rapt_attention_options &o) { return o.qk_dim * tile_pitch; }

  BroadcastProducts(const AttentionTile &tile, const TileRows<A> &rows, A *workspace)
      : tile_(tile),
        o_(tile.options()),
        rows_(rows),
        queries_(workspace),
        fetches_(fetches_for(tile, rows)) {}

  // The queries, transposed once and multiplied by their sign.
  void load_queries() {
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      const Q *row[S::width];
      bool any_negated = false;
      for (std::size_t i = 0; i < S::width; ++i) {
        row[i] = tile_.q<Q>(rows_.of[r + i]);
        any_negated = any_negated || rows_.sign[r + i] != 1;  // NaN too
      }
      transpose_rows(row, o_.qk_dim, queries_ + r, tile_pitch);
      if (!any_negated) continue;
      const batch sign = S::load(rows_.sign + r);
      for (std::size_t d = 0; d < o_.qk_dim; ++d) {
        A *query = queries_ + d * tile_pitch + r;
        S::store(query, S::load(query) * sign);
      }
    }
  }

  // The block at `first` is the one that the functions below multiply; `left` keys follow it.
  void find_block(std::size_t first, std::size_t keys, std::size_t left) {
    addresses_.find(tile_, first, keys, left);
  }

  // Dot products of a segment's rows and keys to `scores`, and the largest of each row to `largest`. Lines
  // for later are fetched once per block, not by every panel: 83 % of the peak against 77 on AVX2 with 512
  // tokens.
  [[gnu::always_inline]] void scores(const Segment &part, bool fetches, A *scores, A *largest) const {
    by_vectors<A>(
        part, [&](auto vectors) __attribute__((always_inline)) {
          tile_scores<A, vectors>(
              queries_ + part.from, addresses_.k, addresses_.k_step, o_.qk_dim,
              LinesToFetch<KV>{addresses_.next_k, addresses_.v, o_.v_dim, fetches && fetches_}, part.begin,
              part.end, scores + part.from, largest);
        });
  }

  // Adds the values of a segment, weighted, to the results `out` of its rows.
  [[gnu::always_inline]] void values(const Segment &part, const A *weights, Before before, const A *rescale,
                                     A *out) const {
    by_vectors<A>(
        part, [&](auto vectors) __attribute__((always_inline)) {
          tile_values<A, vectors>(weights + part.begin * tile_pitch + part.from, addresses_.v + part.begin,
                                  part.end - part.begin, before, rescale + part.from, o_.v_dim,
                                  out + part.from);
        });
  }

  // Adds one value to the results of those rows of a vector that see it.
  void add_value(std::size_t j, batch weight, typename S::mask visible, A *out) const {
    for (std::size_t d = 0; d < o_.v_dim; ++d, out += tile_pitch) {
      const batch before = S::load(out);
      const batch element(rapt::widened(addresses_.v[j][d]));
      S::store(out, S::select(visible, S::fma(weight, element, before), before));
    }
  }

 private:
  // Keys and values that a head's tiles share come from L2 after the first tile, if there is room. Rows at
  // multiples of 2 KB meet in few of its sets and do not stay there.
  static bool fetches_for(const AttentionTile &tile, const TileRows<A> &rows) {
    constexpr std::size_t room = std::size_t{1} << 20;
    constexpr std::ptrdiff_t few_sets = 2048 / sizeof(KV);
    const rapt_attention_options &o = tile.options();
    if (o.k_strides.token % few_sets == 0 || o.v_strides.token % few_sets == 0) return true;
    const AttentionTile::Range seen = rows.range();
    const std::size_t bytes_per_key = (o.qk_dim + o.v_dim) * sizeof(KV);
    return tile.is_first_of_head() || seen.end - seen.first > room / bytes_per_key;
  }

 protected:
  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  const TileRows<A> &rows_;
  A *queries_;
  bool fetches_;
  BlockAddresses<KV> addresses_;
};

}  // namespace
