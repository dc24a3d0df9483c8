// Multiplies queries by keys and weights by values for RowsInLanes, on any instruction-set level. Query rows
// are in the lanes, and each element of a key or value is broadcast to all rows.
#pragma once

#include <cstddef>

#include "call/attention_tile.hpp"
#include "call/element.hpp"
#include "kernels/attention/block.hpp"
#include "kernels/attention/panels.hpp"
#include "kernels/attention/plain_rule.hpp"
#include "kernels/attention/segments.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/transposed.hpp"

namespace {

// Place says where keys and values lie (block.hpp); queries have any type. A level with a faster way to multiply
// supplies a class with the same members.
template <class Place>
class BroadcastProducts {
 public:
  using KV = typename Place::Element;
  using A = rapt::Arithmetic<KV>;
  using S = simd<A>;
  using batch = typename S::batch;
  using Rule = PlainRule<A>;
  // Says whether values() itself can drop or rescale the earlier results.
  static constexpr bool rescales = true;

  static std::size_t workspace_length(const rapt_attention_options &o) {
    return queries_length(o) + Place::length(o);
  }

  BroadcastProducts(const AttentionTile &tile, const TileRows<A> &rows, A *workspace)
      : tile_(tile),
        o_(tile.options()),
        rows_(rows),
        queries_(workspace),
        fetches_(!Place::is_copy && fetches_for(tile, rows)),
        place_(o_, workspace + queries_length(o_)) {
    while (2 * panels_ <= (rows.lanes - 1) / panel_rows<A> + 1) panels_ *= 2;
  }

  // Loads the queries, transposed and multiplied by rows_.sign.
  [[gnu::flatten]] void load_queries() {
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      bool any_negated = false;
      rapt::with_element<A>(o_.q_type, [&](auto element) {
        using Q = typename decltype(element)::type;
        const Q *row[S::width];
        for (std::size_t i = 0; i < S::width; ++i) {
          row[i] = tile_.q<Q>(rows_.of[r + i]);
          any_negated = any_negated || rows_.sign[r + i] != 1;  // includes NaN
        }
        transpose_rows(row, o_.qk_dim, queries_ + r, tile_pitch);
      });
      if (!any_negated) continue;
      const batch sign = S::load(rows_.sign + r);
      for (std::size_t d = 0; d < o_.qk_dim; ++d) {
        A *query = queries_ + d * tile_pitch + r;
        S::store(query, S::load(query) * sign);
      }
    }
  }

  // Selects the block at `first` for the functions below. `left` keys follow the block.
  void find_block(std::size_t first, std::size_t keys, std::size_t left) {
    place_.find(tile_, first, keys, left);
  }

  // Stores the dot products of a segment's rows and keys to `scores`, and each row's largest to `largest`.
  RAPT_INNER void scores(const Segment &segment, A *scores, A *largest) const {
    by_vectors<A>(segment, [&](auto vectors) RAPT_INNER {
      tile_scores<A, vectors>(queries_ + segment.from, place_.k, place_.k_step, o_.qk_dim,
                              RowsToFetch<KV>{place_.v, fetches(segment) ? o_.v_dim : 0}, segment.begin,
                              segment.end, scores + segment.from, largest);
    });
  }

  // Adds the weighted values of a segment to the results `out` of its rows. The last argument is only for
  // rules that sum the weights with the products, such as Bf16Rule.
  RAPT_INNER void values(const Segment &segment, const A *weights, Before before, const A *rescale, A *out,
                         A *) const {
    by_vectors<A>(segment, [&](auto vectors) RAPT_INNER {
      tile_values<A, vectors>(weights + segment.begin * tile_pitch + segment.from, place_.v + segment.begin,
                              segment.end - segment.begin, before, rescale + segment.from, o_.v_dim,
                              out + segment.from, next_keys(segment));
    });
  }
  // Adds values like values(), but skips each pair of a row and a key whose exclusion is not 0.
  [[gnu::noinline, gnu::flatten]] void careful_values(const Segment &segment, const A *weights,
                                                      const A *exclusions, A *out, A *) const {
    const batch zero(A(0));
    for (std::size_t r = segment.from; r < segment.to; r += S::width) {
      for (std::size_t j = segment.begin; j < segment.end; ++j) {
        const batch weight = S::load(weights + j * tile_pitch + r);
        const auto visible = S::equal(S::load(exclusions + j * tile_pitch + r), zero);
        for (std::size_t d = 0; d < o_.v_dim; ++d) {
          A *const value = out + d * tile_pitch + r;
          const batch before = S::load(value), element(rapt::widened(place_.v[j][d]));
          S::store(value, S::select(visible, S::fma(weight, element, before), before));
        }
      }
    }
  }

  // Results always have the bits that all levels must agree on, so no tile is computed again.
  static constexpr bool is_doubtful() { return false; }
  static constexpr void use_exact_products() {}

 private:
  static std::size_t queries_length(const rapt_attention_options &o) { return o.qk_dim * tile_pitch; }

  // Returns whether to prefetch keys and values, which copies have read already. All tiles of a head use the same ones.
  // So they are in L2 after the first tile if a tile's bias and mask leave room there. Rows at multiples of 2 KB share
  // few sets of L2, and are evicted.
  static bool fetches_for(const AttentionTile &tile, const TileRows<A> &rows) {
    constexpr std::size_t room = std::size_t{1} << 20;
    constexpr std::ptrdiff_t few_sets = 2048 / sizeof(KV);
    const rapt_attention_options &o = tile.options();
    if (o.k_strides.token % few_sets == 0 || o.v_strides.token % few_sets == 0) return true;
    const AttentionTile::Range seen = rows.range();
    const std::size_t bytes_per_row = (o.bias ? sizeof(A) : 0) + (o.mask ? 1 : 0);
    const std::size_t bytes_per_key = (o.qk_dim + o.v_dim) * sizeof(KV) + rows.rows * bytes_per_row;
    return tile.is_first_of_keys() || seen.end - seen.first > room / bytes_per_key;
  }

 protected:
  // The panels of a tile share the prefetches of the next block. On AVX2 with 512 tokens that reaches 83 % of
  // the peak, and 77 % if every panel prefetches everything. The first panel prefetches the block's values
  // while it computes scores. All panels prefetch the next keys while they add values. Prefetches cost least
  // when they are spread over the block.
  //
  //   GFLOP/s, head_dim 128; the next keys are       | with the  | with the last  | with all
  //   prefetched                                     | scores    | panel's values | panels' values
  //   AVX-512, 128 rows and 8192 keys in L3          | 142       | 158            | 158
  //   AVX-512, 512 tokens, 32 heads, by token        | 109       | 121            | 121
  //   AVX-512 in f64, 128 rows and 4096 keys in L3   | 60        | 66             | 68
  //   AVX2, 64 rows and 4096 keys in L3              | 80        | 84             | 85
  bool fetches(const Segment &segment) const { return fetches_ && segment.from < panel_rows<A>; }
  RowsToFetch<KV> next_keys(const Segment &segment) const {
    const std::size_t panel = segment.from / panel_rows<A>, share = rapt::attention_block / panels_;
    const std::size_t first = panel * share + segment.begin / (steps_per_line<KV> * panels_);
    if (!fetches_ || panel >= panels_) return {place_.next_k, 0};
    return {place_.next_k + first, o_.qk_dim, panels_};
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  const TileRows<A> &rows_;
  A *queries_;
  bool fetches_;
  std::size_t panels_ = 1;  // how many panels prefetch the next keys, a power of two
  Place place_;
};

}  // namespace
