// Attention from tiles: the loops over a range of tasks, for whole rows and for partial results.
//
// Tiles::with(tile, rows, workspace, f) calls f(results of the tile), which take in keys and store values.
#pragma once

#include <cstddef>

#include "call/attention_call.hpp"
#include "call/attention_tile.hpp"
#include "call/element.hpp"
#include "kernels/attention/tile_rows.hpp"

namespace {

// compute() stores the results; true if one is NaN. It runs again, exactly, if the results are doubtful, and
// carefully, if a NaN may come from an excluded key.
template <class Values, class Compute>
[[gnu::always_inline]] inline void compute_and_store(Values &values, Compute compute) {
  values.load_queries();
  bool has_nan = compute();
  if (values.is_doubtful()) [[unlikely]] {
    values.be_exact();
    has_nan = compute();
  }
  if (has_nan && values.some_excluded()) [[unlikely]] {
    values.be_careful();
    compute();
    if (values.is_doubtful()) {
      values.be_exact();
      compute();
    }
  }
}

// True if a result is NaN.
template <class Values, class A>
[[gnu::always_inline]] inline bool store_output(Values &values, const AttentionTile &tile,
                                                const TileRows<A> &rows) {
  return rapt::with_element<A>(tile.options().out_type, [&](auto element) {
    return values.store(
        [&](std::size_t r) { return tile.out<typename decltype(element)::type>(rows.of[r]); });
  });
}

template <class Tiles>
void attention_whole(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  using A = typename Tiles::A;
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task);
    if (tile.rows() == 0) continue;
    TileRows<A> rows(tile);
    RowSums<A> total;
    Tiles::with(tile, rows, workspace, [&](auto &values) {
      compute_and_store(values, [&] {
        values.run(total, 0, tile.kv_len());
        rows.finish(tile, total);
        return store_output(values, tile, rows);
      });
    });
  }
}

// Tasks chunk by chunk. No zero of a partial result is negative.
template <class Tiles>
void attention_partial(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                       void *workspace) {
  using A = typename Tiles::A;
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task % call->tiles());
    if (tile.rows() == 0) continue;
    const std::size_t chunk = task / call->tiles(), begin = chunk * rapt::attention_chunk;
    const std::size_t keys = begin < tile.kv_len() ? tile.kv_len() - begin : 0;
    TileRows<A> rows(tile);
    RowSums<A> sums;
    Tiles::with(tile, rows, workspace, [&](auto &values) {
      compute_and_store(values, [&] {
        values.run(sums, begin, begin + (keys < rapt::attention_chunk ? keys : rapt::attention_chunk));
        rows.finish_without_factor();
        return values.store([&](std::size_t r) { return tile.partial<A>(rows.of[r], chunk) + 2; });
      });
    });
    for (std::size_t r = 0; r < rows.rows; ++r) {
      A *partial = tile.partial<A>(rows.of[r], chunk);
      partial[0] = sums.max[r] + A(0);
      partial[1] = sums.sum[r];
    }
  }
}

}  // namespace
