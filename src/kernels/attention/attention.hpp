// attention: a task is a tile of up to 64 rows.
#pragma once

#include <cstddef>

#include "kernels/attention/broadcast_products.hpp"
#include "kernels/attention/few_rows.hpp"
#include "kernels/attention/many_rows.hpp"
#include "kernels/attention/stages.hpp"
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

template <class E>
struct TilesOf {
  using A = rapt::Arithmetic<E>;
  using Few = FewRows<typename TileProducts<E>::Few>;

  // The last vector of many rows is as slow as a whole one. 512 keys of 128 dimensions in L2, AVX-512, us:
  //
  //   rows             | 8    | 9    | 12   | 16   | 17   | 20   | 24   | 32
  //   keys in lanes    | 22.1 | 23.9 | 29.6 | 40.0 | 45.4 | 51.1 | 60.0 |
  //   rows in lanes    |      | 39.7 | 39.7 | 39.7 | 60.7 | 60.7 | 60.7 | 60.8
  template <class F>
  [[gnu::always_inline]] static void with(const AttentionTile &tile, TileRows<A> &rows, void *workspace,
                                          F f) {
    constexpr bool only_few = Few::most >= rapt::attention_tile_rows;
    if (only_few || rows.rows <= Few::most) {
      Few values(tile, rows, static_cast<A *>(workspace));
      f(values);
    } else if constexpr (!only_few) {
      ManyRows<typename TileProducts<E>::Many> values(tile, rows, static_cast<A *>(workspace));
      f(values);
    }
  }
};

template <class E>
void attention_merge(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  using A = rapt::Arithmetic<E>;
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task);
    if (tile.rows() == 0) continue;
    TileRows<A> rows(tile);
    RowSums<A> total;
    typename TilesOf<E>::Few values(tile, rows, static_cast<A *>(workspace));
    values.merge(total, call->chunks(),
                 [&](std::size_t r, std::size_t c) { return tile.partial<A>(rows.of[r], c); });
    rows.finish(tile, total);
    store_output(values, tile, rows);
  }
}

template <class E>
void attention(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  const auto stage =
      call->of_stage(attention_whole<TilesOf<E>>, attention_partial<TilesOf<E>>, attention_merge<E>);
  stage(call, first, last, workspace);
}

}  // namespace
