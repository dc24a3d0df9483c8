// Computes attention. A task is a tile of up to 64 query rows with all keys or one chunk of keys.
#pragma once

#include <cstddef>

#include "call/attention_call.hpp"
#include "call/attention_tile.hpp"
#include "call/element.hpp"
#include "kernels/attention/block.hpp"
#include "kernels/attention/broadcast_products.hpp"
#include "kernels/attention/final_factors.hpp"
#include "kernels/attention/merge.hpp"
#include "kernels/attention/results.hpp"
#include "kernels/attention/row_values.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/transposing_products.hpp"
#include "kernels/attention/ways.hpp"

namespace {

// Chooses how keys and values of element type E are multiplied.
template <class E>
struct WaysOf {
  using type = FloatWays<TransposingProducts<E>, BroadcastProducts<StoredBlock<E>>>;
};
template <Half E>
struct WaysOf<E> {
  using type = FloatWays<TransposingProducts<E>, BroadcastProducts<WidenedBlock<E>>>;
};

template <class Ways>
void attention_of_tasks(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                        void *workspace) {
  using A = typename Ways::A;
  const bool is_whole = call->stage == rapt::AttentionStage::whole;
  void *const gathered = rapt::gathered_memory<typename Ways::KV>(call->options, workspace);
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, is_whole ? task : task % call->tiles(), gathered);
    if (tile.rows() == 0) continue;
    const TileRows<A> rows(tile);
    Ways::choose(tile, rows, workspace, [&](auto &way) {
      compute_and_store(way, TileTask<A>{tile, rows, is_whole, is_whole ? 0 : task / call->tiles()});
    });
  }
}

template <class A>
void attention_merge(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task);
    if (tile.rows() == 0) continue;
    const TileRows<A> rows(tile);
    const RowValues<A> values(rows, tile.options().v_dim, static_cast<A *>(workspace));
    RowSums<A> total;
    merge_chunks(
        rows, call->chunks(), [&](std::size_t r, std::size_t c) { return tile.partial<A>(rows.of[r], c); },
        total, values);
    const FinalFactors<A> factors(tile, rows, total);
    rapt::with_element<A>(tile.options().out_type, [&](auto element) {
      values.store(factors,
                   [&](std::size_t r) { return tile.out<typename decltype(element)::type>(rows.of[r]); });
    });
  }
}

template <class E, class WaysOfE = typename WaysOf<E>::type>
void attention(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  using A = typename WaysOfE::A;
  const auto body =
      call->stage == rapt::AttentionStage::merge ? attention_merge<A> : attention_of_tasks<WaysOfE>;
  body(call, first, last, workspace);
}

}  // namespace
