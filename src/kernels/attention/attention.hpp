// attention: a task is a tile of up to 64 rows.
#pragma once

#include <cstddef>

#include "call/attention_call.hpp"
#include "kernels/attention/few_rows.hpp"
#include "kernels/attention/many_rows.hpp"
#include "kernels/attention/rows.hpp"

namespace {

// The results of a tile over the keys [begin, end), which begin at a chunk: sums and, by store, values.
template <class T, class F>
[[gnu::always_inline]] inline void with_tile(const AttentionTile &tile, TileRows<T> &rows, void *workspace,
                                             F f) {
  // With 8 rows the vectors of rows would be half empty on AVX-512, and every key costs a broadcast a
  // dimension.
  if (rows.rows <= FewRows<T>::most) {
    FewRows<T> values(tile, rows, static_cast<T *>(workspace));
    f(values);
  } else {
    ManyRows<T> values(tile, rows, static_cast<T *>(workspace));
    f(values);
  }
}

// compute() says whether it has stored a NaN: it is called again if that may come from what is excluded.
template <class Values, class Compute>
[[gnu::always_inline]] inline void compute_and_store(Values &values, Compute compute) {
  if (compute() && values.some_excluded()) [[unlikely]] {
    values.be_careful();
    compute();
  }
}

template <class T>
void attention_whole(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task);
    if (tile.rows() == 0) continue;
    TileRows<T> rows(tile);
    RowSums<T> total;
    with_tile(tile, rows, workspace, [&](auto &values) {
      compute_and_store(values, [&] {
        values.run(total, 0, tile.kv_len());
        rows.finish(tile, total);
        return values.store([&](std::size_t r) { return tile.out<T>(rows.of[r]); });
      });
    });
  }
}

// Tasks chunk by chunk. No zero of a partial result is negative.
template <class T>
void attention_partial(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                       void *workspace) {
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task % call->tiles());
    if (tile.rows() == 0) continue;
    const std::size_t chunk = task / call->tiles(), begin = chunk * rapt::attention_chunk;
    const std::size_t keys = begin < tile.kv_len() ? tile.kv_len() - begin : 0;
    TileRows<T> rows(tile);
    RowSums<T> sums;
    with_tile(tile, rows, workspace, [&](auto &values) {
      compute_and_store(values, [&] {
        values.run(sums, begin, begin + (keys < rapt::attention_chunk ? keys : rapt::attention_chunk));
        rows.leave_as_is();
        return values.store([&](std::size_t r) { return tile.partial<T>(rows.of[r], chunk) + 2; });
      });
    });
    for (std::size_t r = 0; r < rows.rows; ++r) {
      T *partial = tile.partial<T>(rows.of[r], chunk);
      partial[0] = sums.max[r] + T(0);
      partial[1] = sums.sum[r];
    }
  }
}

template <class T>
void attention_merge(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  for (std::size_t task = first; task < last; ++task) {
    const AttentionTile tile(*call, task);
    if (tile.rows() == 0) continue;
    TileRows<T> rows(tile);
    RowSums<T> total;
    FewRows<T> values(tile, rows, static_cast<T *>(workspace));
    values.merge(total, call->chunks(),
                 [&](std::size_t r, std::size_t c) { return tile.partial<T>(rows.of[r], c); });
    rows.finish(tile, total);
    values.store([&](std::size_t r) { return tile.out<T>(rows.of[r]); });
  }
}

template <class T>
void attention(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  switch (call->stage) {
    case rapt::AttentionStage::whole:
      return attention_whole<T>(call, first, last, workspace);
    case rapt::AttentionStage::partial:
      return attention_partial<T>(call, first, last, workspace);
    case rapt::AttentionStage::merge:
      return attention_merge<T>(call, first, last, workspace);
  }
}

}  // namespace
