// Loops over the keys that a tile sees in chunks of attention_chunk keys. A chunk has several blocks.
#pragma once

#include <cstddef>

#include "call/attention_tile.hpp"
#include "contract/attention.hpp"
#include "kernels/attention/row_sums.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Computes sums[0] and values[0] from the keys [begin, end). `begin` must be the first key of a chunk.
//
// Calls f(first, end, sums, values) for each chunk in which some row sees a key. `first` is where the first
// block with a visible key begins. The sums are cleared before f; f must clear the values. From the second
// chunk on, f gets sums[1] and values[1], which are then folded into sums[0] and values[0].
template <class Rule, class A, class Values, class F>
RAPT_INNER inline void each_chunk(const TileRows<A> &rows, std::size_t begin, std::size_t end,
                                  typename Rule::Sums (&sums)[2], const Values (&values)[2], F f) {
  constexpr std::size_t block = rapt::attention_block, chunk = rapt::attention_chunk;
  const AttentionTile::Range seen = rows.range();
  if (begin < seen.first) begin = seen.first / chunk * chunk;
  if (end > seen.end) end = seen.end;
  for (std::size_t key = begin; key < end; key += chunk) {
    const bool is_later = key != begin;
    sums[is_later].clear();
    f(key < seen.first ? seen.first / block * block : key, end - key < chunk ? end : key + chunk,
      sums[is_later], values[is_later]);
    if constexpr (Rule::weights_unit != 1) {
      for (std::size_t r = 0; r < rows.lanes; ++r) sums[is_later].sum[r] *= Rule::weights_unit;
      values[is_later].multiply(Rule::weights_unit);
    }
    if (!is_later) continue;
    FoldFactors<A> factors;
    fold<A>(rows, sums[0], sums[1], factors);
    values[0].fold(values[1], factors);
  }
  if (begin < end) return;
  sums[0].clear();
  values[0].clear();
}

}  // namespace
