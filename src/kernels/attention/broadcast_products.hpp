// Computes the products of RowsInLanes on any level. One element of a key or value is broadcast to all rows.
#pragma once

#include <cstddef>

#include "call/attention_tile.hpp"
#include "call/element.hpp"
#include "kernels/attention/block.hpp"
#include "kernels/attention/panels.hpp"
#include "kernels/attention/plain_rule.hpp"
#include "kernels/attention/segments.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/transposed.hpp"

namespace {

// KV is the type of keys and values; queries have any type. A level with a faster way to multiply supplies a
// class with the same members.
template <class KV>
class BroadcastProducts {
 public:
  using A = rapt::Arithmetic<KV>;
  using S = simd<A>;
  using batch = typename S::batch;
  using Rule = PlainRule<A>;
  // Says whether values() can itself drop or rescale the results so far.
  static constexpr bool rescales = true;

  static std::size_t workspace_length(const rapt_attention_options &o) { return o.qk_dim * tile_pitch; }

  BroadcastProducts(const AttentionTile &tile, const TileRows<A> &rows, A *workspace)
      : tile_(tile), o_(tile.options()), rows_(rows), queries_(workspace), fetches_(fetches_for(tile, rows)) {
    while (2 * panels_ <= (rows.lanes - 1) / panel_rows<A> + 1) panels_ *= 2;
  }

  // Transposes the queries once, and multiplies them by their sign.
  void load_queries() {
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
    addresses_.find(tile_, first, keys, left);
  }

  // Stores the dot products of a segment's rows and keys to `scores`, and the largest of each row to
  // `largest`.
  [[gnu::always_inline]] void scores(const Segment &segment, A *scores, A *largest) const {
    by_vectors<A>(
        segment, [&](auto vectors) __attribute__((always_inline)) {
          tile_scores<A, vectors>(queries_ + segment.from, addresses_.k, addresses_.k_step, o_.qk_dim,
                                  RowsToFetch<KV>{addresses_.v, fetches(segment) ? o_.v_dim : 0},
                                  segment.begin, segment.end, scores + segment.from, largest);
        });
  }

  // Adds the weighted values of a segment to the results `out` of its rows. The last argument is only used by
  // rules that sum the weights with a product.
  [[gnu::always_inline]] void values(const Segment &segment, const A *weights, Before before,
                                     const A *rescale, A *out, A *) const {
    by_vectors<A>(
        segment, [&](auto vectors) __attribute__((always_inline)) {
          tile_values<A, vectors>(weights + segment.begin * tile_pitch + segment.from,
                                  addresses_.v + segment.begin, segment.end - segment.begin, before,
                                  rescale + segment.from, o_.v_dim, out + segment.from, next_keys(segment));
        });
  }
  // Like values(), but a key with an exclusion other than 0 adds nothing to a row.
  [[gnu::noinline]] void careful_values(const Segment &segment, const A *weights, const A *exclusions, A *out,
                                        A *) const {
    const batch zero(A(0));
    for (std::size_t r = segment.from; r < segment.to; r += S::width) {
      for (std::size_t j = segment.begin; j < segment.end; ++j) {
        const batch weight = S::load(weights + j * tile_pitch + r);
        const auto visible = S::equal(S::load(exclusions + j * tile_pitch + r), zero);
        for (std::size_t d = 0; d < o_.v_dim; ++d) {
          A *const value = out + d * tile_pitch + r;
          const batch before = S::load(value), element(rapt::widened(addresses_.v[j][d]));
          S::store(value, S::select(visible, S::fma(weight, element, before), before));
        }
      }
    }
  }

  // No result ever lacks the contract's bits.
  static constexpr bool is_doubtful() { return false; }
  static constexpr void use_exact_products() {}

 private:
  // Tiles of a head share keys and values. After the first tile, keys and values come from L2, if a tile's
  // bias and mask leave room in L2. Rows at multiples of 2 KB share few sets of L2, and are evicted.
  static bool fetches_for(const AttentionTile &tile, const TileRows<A> &rows) {
    constexpr std::size_t room = std::size_t{1} << 20;
    constexpr std::ptrdiff_t few_sets = 2048 / sizeof(KV);
    const rapt_attention_options &o = tile.options();
    if (o.k_strides.token % few_sets == 0 || o.v_strides.token % few_sets == 0) return true;
    const AttentionTile::Range seen = rows.range();
    const std::size_t bytes_per_row = (o.bias ? sizeof(A) : 0) + (o.mask ? 1 : 0);
    const std::size_t bytes_per_key = (o.qk_dim + o.v_dim) * sizeof(KV) + rows.rows * bytes_per_row;
    return tile.is_first_of_head() || seen.end - seen.first > room / bytes_per_key;
  }

 protected:
  // Widens a row to A. Only whole vectors are stored, because the next row, or room for one, follows the row.
  template <class Half>
  static void widen_row(const Half *from, std::size_t dim, A *to) {
    std::size_t d = 0;
    for (; dim - d >= S::width; d += S::width) S::store(to + d, S::load(from + d));
    if (d < dim) S::store(to + d, S::load_first(from + d, dim - d));
  }

  // The next block is fetched once, not by every panel. On AVX2 with 512 tokens that is 83 % of the peak
  // instead of 77 %. The scores of the first panel fetch the block's values, and the values of all panels
  // fetch the next keys. Fetches cost least when they are spread over the block.
  //
  //   GFLOP/s, head_dim 128                          | all by the scores | keys by the last values | by all
  //   AVX-512, 128 rows and 8192 keys in L3          | 142               | 158                     | 158
  //   AVX-512, 512 tokens, 32 heads, by token        | 109               | 121                     | 121
  //   AVX-512 in f64, 128 rows and 4096 keys in L3   | 60                | 66                      | 68
  //   AVX2, 64 rows and 4096 keys in L3              | 80                | 84                      | 85
  bool fetches(const Segment &segment) const { return fetches_ && segment.from < panel_rows<A>; }
  RowsToFetch<KV> next_keys(const Segment &segment) const {
    const std::size_t panel = segment.from / panel_rows<A>, share = rapt::attention_block / panels_;
    const std::size_t first = panel * share + segment.begin / (steps_per_line<KV> * panels_);
    if (!fetches_ || panel >= panels_) return {addresses_.next_k, 0};
    return {addresses_.next_k + first, o_.qk_dim, panels_};
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  const TileRows<A> &rows_;
  A *queries_;
  bool fetches_;
  std::size_t panels_ = 1;  // how many panels fetch the next keys, a power of two
  BlockAddresses<KV> addresses_;
};

}  // namespace
