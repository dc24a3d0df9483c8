// attention: a task is a tile of up to 64 rows.
#pragma once

#include <cstddef>

#include "call/attention_call.hpp"
#include "call/attention_tile.hpp"
#include "call/element.hpp"
#include "kernels/attention/broadcast_products.hpp"
#include "kernels/attention/few_rows.hpp"
#include "kernels/attention/many_rows.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/transposing_products.hpp"
#include "kernels/attention/widening_products.hpp"

namespace {

// How keys and values of element type E are multiplied. A level with products of its own specialises this.
template <class E>
struct TileProducts {
  using Few = TransposingProducts<E>;
  using Many = BroadcastProducts<E>;
};
template <Half E>
struct TileProducts<E> {
  using Few = TransposingProducts<E>;
  using Many = WideningProducts<E>;
};

// f(results of a tile), which take in keys and store values.
template <class E, class F>
[[gnu::always_inline]] inline void with_tile(const AttentionTile &tile, TileRows<rapt::Arithmetic<E>> &rows,
                                             void *workspace, F f) {
  using A = rapt::Arithmetic<E>;
  using Few = FewRows<typename TileProducts<E>::Few>;
  // The last vector of many rows is as slow as a whole one. 512 keys of 128 dimensions in L2, AVX-512, us:
  //
  //   rows             | 8    | 9    | 12   | 16   | 17   | 20   | 24   | 32
  //   keys in lanes    | 22.1 | 23.9 | 29.6 | 40.0 | 45.4 | 51.1 | 60.0 |
  //   rows in lanes    |      | 39.7 | 39.7 | 39.7 | 60.7 | 60.7 | 60.7 | 60.8
  if (Few::most >= rapt::attention_tile_rows || rows.rows <= Few::most) {
    Few values(tile, rows, static_cast<A *>(workspace));
    f(values);
  } else if constexpr (Few::most < rapt::attention_tile_rows) {
    ManyRows<typename TileProducts<E>::Many> values(tile, rows, static_cast<A *>(workspace));
    f(values);
  }
}

// compute() stores the results; true if one is NaN. It runs again, carefully, if that may come from an
// excluded key.
template <class Values, class Compute>
[[gnu::always_inline]] inline void compute_and_store(Values &values, Compute compute) {
  if (compute() && values.some_excluded()) [[unlikely]] {
    values.be_careful();
    compute();
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

template <class E>
void attention_whole(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  using A = rapt::Arithmetic<E>;
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task);
    if (tile.rows() == 0) continue;
    TileRows<A> rows(tile);
    RowSums<A> total;
    with_tile<E>(tile, rows, workspace, [&](auto &values) {
      compute_and_store(values, [&] {
        values.run(total, 0, tile.kv_len());
        rows.finish(tile, total);
        return store_output(values, tile, rows);
      });
    });
  }
}

// Tasks chunk by chunk. No zero of a partial result is negative.
template <class E>
void attention_partial(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                       void *workspace) {
  using A = rapt::Arithmetic<E>;
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task % call->tiles());
    if (tile.rows() == 0) continue;
    const std::size_t chunk = task / call->tiles(), begin = chunk * rapt::attention_chunk;
    const std::size_t keys = begin < tile.kv_len() ? tile.kv_len() - begin : 0;
    TileRows<A> rows(tile);
    RowSums<A> sums;
    with_tile<E>(tile, rows, workspace, [&](auto &values) {
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

template <class E>
void attention_merge(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  using A = rapt::Arithmetic<E>;
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task);
    if (tile.rows() == 0) continue;
    TileRows<A> rows(tile);
    RowSums<A> total;
    FewRows<typename TileProducts<E>::Few> values(tile, rows, static_cast<A *>(workspace));
    values.merge(total, call->chunks(),
                 [&](std::size_t r, std::size_t c) { return tile.partial<A>(rows.of[r], c); });
    rows.finish(tile, total);
    store_output(values, tile, rows);
  }
}

template <class E>
void attention(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  const auto stage = call->of_stage(attention_whole<E>, attention_partial<E>, attention_merge<E>);
  stage(call, first, last, workspace);
}

}  // namespace
