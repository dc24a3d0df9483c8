// Turns scores into weights and sums them, for attention in f32 and f64 and over int8 keys and values.
//
// Each class that multiplies queries by keys and weights by values has such a class as its member Rule. A
// rule has this interface:
//
//   Sums, clear()           each row's largest score and sum of weights, over some keys
//   weights_unit            the rule's weights are the true weights divided by this
//   segment_keys            products may skip a group of this many keys if no row of a vector sees one
//   update_max(sums, r, max)  takes a block's largest scores for the vector of rows at r. Sets `rescale` to
//                           the factors of earlier results, and returns whether one of them is not 1
//   weigh_rows(...)         turns scores with rows in the lanes into weights, and adds these to the sums
//   weigh_row(...)          does the same for one row, with keys in the lanes
#pragma once

#include <cstddef>

#include "contract/attention.hpp"
#include "contract/fused.hpp"
#include "kernels/attention/row_sums.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/tile_weights.hpp"
#include "kernels/attention/weight.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class A>
class PlainRule {
 public:
  using S = simd<A>;
  using batch = typename S::batch;
  using Sums = RowSums<A>;
  static constexpr std::size_t block = rapt::attention_block;
  static constexpr A weights_unit = 1;
  static constexpr std::size_t segment_keys = rapt::attention_page_unit;

  explicit PlainRule(const TileRows<A> &rows) : rows_(rows) {}

  RAPT_INNER bool update_max(Sums &sums, std::size_t r, batch block_max) {
    const batch before = S::load(sums.max + r);
    const batch max = S::max_number(block_max, before);
    const batch from = reference_of<A>(max);
    const batch factor = weight_of(rows_, r, before - from);
    S::store(sums.max + r, max);
    S::store(reference + r, from);
    S::store(rescale + r, factor);
    return S::any(S::negate(S::equal(factor, batch(A(1)))));
  }

  // `column` has the scores of the vector of rows at r. Key j's are at column + j * tile_pitch. Weights
  // outside of [begin, end) become 0.
  RAPT_INNER void weigh_rows(Sums &sums, std::size_t r, A *column, std::size_t begin, std::size_t end) const {
    add_sums(sums, r,
             tile_weights<A>(column, begin, end, S::load(reference + r), S::load(rows_.to_log2 + r),
                             S::load(rows_.cutoff + r)));
  }

  RAPT_INNER void weigh_row(Sums &sums, std::size_t r, A *row) const {
    const batch from(reference[r]), to_log2(rows_.to_log2[r]), cutoff(rows_.cutoff[r]);
    batch weights[block / S::width];
    unroll<block / S::width>([&](std::size_t i) RAPT_INNER {
      weights[i] = Weight<A>()(S::load(row + i * S::width) - from, to_log2, cutoff);
      S::store(row + i * S::width, weights[i]);
    });
    sums.sum[r] = fused(sums.sum[r], rescale[r], fold_lanes<A>(weights));
  }
  RAPT_INNER void add_sums(Sums &sums, std::size_t r, batch of_block) const {
    S::store(sums.sum + r, S::fma(S::load(sums.sum + r), S::load(rescale + r), of_block));
  }

  alignas(64) A reference[rapt::attention_tile_rows];  // the score that is subtracted from a row's scores
  alignas(64) A rescale[rapt::attention_tile_rows];

 private:
  const TileRows<A> &rows_;
};

}  // namespace
