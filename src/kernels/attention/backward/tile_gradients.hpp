// Computes the gradients of a tile of query rows.
#pragma once

#include <cstddef>
#include <limits>

#include "call/attention_workspace.hpp"
#include "call/backward_task.hpp"
#include "contract/fused.hpp"
#include "kernels/attention/backward/gradient_products.hpp"
#include "kernels/attention/segments.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/tile_scores.hpp"
#include "kernels/attention/weight.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Goes through the blocks of keys in order, and adds the tile's terms to the gradients that run()'s `share`
// asks for. It computes scores and weights again. Of the five matrix products, the two for dk and dv add
// directly to memory.
template <class Products>
class TileGradients {
 public:
  using A = typename Products::A;
  using S = simd<A>;
  using C = rapt::AttentionContract<A>;
  using batch = typename S::batch;
  static constexpr std::size_t block = rapt::attention_block;
  static constexpr std::size_t count = rapt::attention_tile_rows;

  TileGradients(const AttentionTile &tile, A *workspace)
      : tile_(tile),
        o_(tile.options()),
        rows_(tile),
        products_(tile, rows_, workspace),
        out_(workspace + Products::workspace_length(o_)),
        weights_(out_ + o_.v_dim * tile_pitch),
        slopes_(weights_ + block * tile_pitch),
        gradients_(slopes_ + block * tile_pitch),
        dq_(gradients_ + (block + 8) * tile_pitch),
        sums_(tile, workspace),
        scores_(tile, rows_, weights_) {
    if (rows_.cap != 0) scores_.slopes = slopes_;
  }

  [[gnu::flatten]] void run(const TileShare &share) {
    AttentionTile::Range keys = rows_.range();
    if (!share.dq) keys = common(keys, share.keys);
    if (!share.dq && !share.sinks && keys.first >= keys.end) return;
    load_rows();
    for (std::size_t d = 0; share.dq && d < o_.qk_dim; ++d) {
      for (std::size_t r = 0; r < rows_.lanes; r += S::width) S::store(dq_ + d * tile_pitch + r, batch(A(0)));
    }
    for (std::size_t first = keys.first / block * block; first < keys.end; first += block)
      add_block(first, keys.end, share);
    if (share.dq) store_dq();
    if (share.sinks) add_to_sinks();
  }

 private:
  static AttentionTile::Range common(const AttentionTile::Range &a, const AttentionTile::Range &b) {
    return {a.first < b.first ? b.first : a.first, a.end < b.end ? a.end : b.end};
  }

  void load_rows() {
    for (std::size_t r = 0; r < rows_.lanes; ++r) {
      const A lse = *tile_.lse<A>(rows_.of[r]);
      // A row that sees no key has the log-sum-exp -inf. It has no weights, so 0 does as well.
      lse_log2_[r] =
          lse == -std::numeric_limits<A>::infinity() ? A(0) : static_cast<A>(double{lse} * C::log2_e);
      to_score_[r] = static_cast<A>(tile_.scale<A>(rows_.of[r]));
    }
    rows_are_finite_ = products_.load_rows(out_, mean_);
  }

  void add_block(std::size_t first, std::size_t end, const TileShare &share) {
    const std::size_t keys = end - first < block ? end - first : block;
    products_.find_block(first, keys, first + block < end ? end - first - block : 0);
    const DqTerms dq_terms = !share.dq                         ? DqTerms::none
                             : products_.keys_are_finite(keys) ? DqTerms::all
                                                               : DqTerms::with_weight;
    for (std::size_t r = 0; r < rows_.lanes; r += panel) {
      add_block_of_rows(first, r, rows_.lanes - r < panel ? rows_.lanes : r + panel, keys, dq_terms);
    }
    if (first < share.keys.first || first >= share.keys.end) return;
    if (tile_.gradients().dbias) add_to_bias(first, keys);
    add_to_keys(first, keys);
  }

  // Says which pairs of a row and a key add to dq.
  enum class DqTerms { none, all, with_weight };

  void add_block_of_rows(std::size_t first, std::size_t from, std::size_t to, std::size_t keys,
                         DqTerms dq_terms) {
    const Segments<A> segments(rows_, first, from, to);
    alignas(64) A largest[panel];
    for (const Segment &segment : segments) {
      products_.scores(segment, weights_, largest);
      products_.value_products(segment, gradients_, largest);
    }
    for (std::size_t r = from; r < to; r += S::width) {
      const SeenKeys seen = rows_.seen_of_block(first, r);
      if (seen.any.end > 0) {
        (void)scores_.complete(r, first, seen, seen.excludes_some_of(seen.any), [] { return batch(A(0)); });
      }
      make_gradients(r, seen.any, keys);
    }
    for (const Segment &segment : segments) {
      if (dq_terms == DqTerms::all) {
        products_.add_to_dq(segment, gradients_, dq_);
      } else if (dq_terms == DqTerms::with_weight) {
        products_.add_to_dq_by_element(segment, weights_, gradients_, dq_);
      }
    }
  }

  // Returns 2^distance, where distance is a score minus the log-sum-exp, in units of log 2. A large score may
  // be rounded to more than the log-sum-exp, so the weight is limited to 1.
  RAPT_INNER static batch final_weight(batch distance) {
    return Weight<A>()(S::min(batch(A(0)), distance), batch(A(1)), batch(C::lowest_log2));
  }

  // Replaces the scores in weights_ by weights, and the products of values in gradients_ by gradients of the
  // dot products. With dbias, slopes_ becomes the gradients of the scores. Everything outside of `seen`
  // becomes 0.
  [[gnu::noinline, gnu::flatten]] void make_gradients(std::size_t r, AttentionTile::Range seen,
                                                      std::size_t keys) {
    const batch zero(A(0)), none(-std::numeric_limits<A>::infinity());
    const batch to_log2 = S::load(rows_.to_log2 + r), lse = S::load(lse_log2_ + r);
    const batch mean = S::load(mean_ + r), to_score = S::load(to_score_ + r);
    const bool has_cap = rows_.cap != 0, has_dbias = tile_.gradients().dbias != nullptr;
    const auto make = [&](std::size_t j, auto) RAPT_INNER {
      const std::size_t at = j * tile_pitch + r;
      // An excluded key has weight 0, even in a row of NaN.
      const batch score = S::load(weights_ + at);
      const batch w = S::select(S::equal(score, none), zero, final_weight(S::fma(score, to_log2, -lse)));
      const auto is_nothing = S::equal(w, zero);
      const batch ds = w * (S::load(gradients_ + at) - mean);
      batch g = ds;
      if (has_cap) g = g * S::load(slopes_ + at);
      if (has_dbias) S::store(slopes_ + at, S::select(is_nothing, zero, ds));
      S::store(weights_ + at, w);
      S::store(gradients_ + at, S::select(is_nothing, zero, g * to_score));
    };
    by_fours(seen.first, seen.end, make);
    for (std::size_t i = 0; i < keys; ++i) {
      if (i >= seen.first && i < seen.end) continue;
      S::store(weights_ + i * tile_pitch + r, zero);
      S::store(gradients_ + i * tile_pitch + r, zero);
      if (has_dbias) S::store(slopes_ + i * tile_pitch + r, zero);
    }
  }

  void add_to_keys(std::size_t first, std::size_t keys) const {
    A *dk[block], *dv[block];
    for (std::size_t j = 0; j < keys; ++j) {
      dk[j] = sums_.dk(first + j);
      dv[j] = sums_.dv(first + j);
    }
    if (!rows_are_finite_) return products_.add_to_keys_by_element(keys, weights_, gradients_, dk, dv);
    constexpr std::size_t depth = panel_depth<A, S::panel_vectors>;
    std::size_t j = 0;
    for (; keys - j >= depth; j += depth) add_outer<depth>(first, j, dk, dv);
    for (; keys - j >= 4; j += 4) add_outer<4>(first, j, dk, dv);
    for (; j < keys; ++j) add_outer<1>(first, j, dk, dv);
  }
  template <std::size_t depth>
  void add_outer(std::size_t first, std::size_t j, A *const *dk, A *const *dv) const {
    // Rows that see none of these keys have only weights of 0, so the products leave such rows out.
    std::size_t begin = 0, end = rows_.rows;
    const auto unseen = [&](std::size_t r) {
      return rows_.end[r] <= first + j || rows_.first[r] >= first + j + depth;
    };
    while (begin < end && unseen(begin)) ++begin;
    while (begin < end && unseen(end - 1)) --end;
    products_.template add_to_keys<depth>(j, begin, end, weights_, gradients_, dk, dv);
  }

  void add_to_bias(std::size_t first, std::size_t keys) const {
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      A *const dbias = tile_.dbias<A>(rows_.of[r]) + first;
      for (std::size_t j = 0; j < keys; ++j) dbias[j] = dbias[j] + slopes_[j * tile_pitch + r];
    }
  }

  void add_to_sinks() const {
    A *const dsinks = static_cast<A *>(tile_.gradients().dsinks);
    alignas(64) A sink[count];
    for (std::size_t r = 0; r < rows_.lanes; ++r) {
      const bool none = *tile_.lse<A>(rows_.of[r]) == -std::numeric_limits<A>::infinity();
      sink[r] = none ? -std::numeric_limits<A>::infinity()
                     : static_cast<A>(double{tile_.sink<A>(rows_.of[r])} * C::log2_e);
    }
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      S::store(sink + r, final_weight(S::load(sink + r) - S::load(lse_log2_ + r)));
    }
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      A &sum = dsinks[rows_.of[r].q_head];
      if (sink[r] != 0) sum = fused(-sink[r], mean_[r], sum);
    }
  }

  void store_dq() const {
    rapt::with_element<A>(tile_.dq_type(), [&](auto element) {
      using E = typename decltype(element)::type;
      for (std::size_t r = 0; r < rows_.rows; r += S::width) {
        E *row[S::width];
        for (std::size_t i = 0; i < S::width; ++i) row[i] = tile_.dq<E>(rows_.of[r + i]);
        const std::size_t rows = rows_.rows - r < S::width ? rows_.rows - r : S::width;
        store_transposed(row, rows, o_.qk_dim, [&](std::size_t d) RAPT_INNER {
          return S::load(dq_ + d * tile_pitch + r) + batch(A(0));
        });
      }
    });
  }

  static constexpr std::size_t panel = panel_rows<A>;

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  TileRows<A> rows_;
  Products products_;
  // These are matrices in the workspace, with rows in the lanes.
  A *out_;        // the outputs of the forward call
  A *weights_;    // of a block; before that its scores
  A *slopes_;     // derivatives of the softcap; later gradients of the scores
  A *gradients_;  // of the dot products; before that the products of values
  A *dq_;
  KeySums<A> sums_;
  TileScores<A> scores_;
  alignas(64) A lse_log2_[count];
  alignas(64) A to_score_[count];
  alignas(64) A mean_[count];
  bool rows_are_finite_ = true;
};

}  // namespace
