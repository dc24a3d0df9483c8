// Stores a tile's results, and decides whether a tile is computed again.
#pragma once

#include <cstddef>

#include "call/attention_call.hpp"
#include "call/attention_tile.hpp"
#include "call/element.hpp"
#include "kernels/attention/final_factors.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Describes a task: a tile with all keys, which stores outputs, or with one chunk, which stores partial
// results.
template <class A>
struct TileTask {
  const AttentionTile &tile;
  const TileRows<A> &rows;
  bool is_whole;
  std::size_t chunk;

  std::size_t begin() const { return chunk * rapt::attention_chunk; }
  std::size_t end() const {
    const std::size_t keys = tile.kv_len() > begin() ? tile.kv_len() - begin() : 0;
    return begin() + (is_whole || keys < rapt::attention_chunk ? keys : rapt::attention_chunk);
  }

  // Stores the results of all rows, and returns whether one is NaN. Partial results never contain -0.
  template <class Way>
  RAPT_INNER bool store(const Way &way) const {
    if (is_whole) {
      const FinalFactors<A> factors(tile, rows, way.sums());
      return rapt::with_element<A>(tile.options().out_type, [&](auto element) {
        return way.store(
            factors, [&](std::size_t r) { return tile.out<typename decltype(element)::type>(rows.of[r]); });
      });
    }
    for (std::size_t r = 0; r < rows.rows; ++r) {
      A *const partial = tile.partial<A>(rows.of[r], chunk);
      partial[0] = way.sums().max[r] + A(0);
      partial[1] = way.sums().sum[r];
    }
    return way.store(FinalFactors<A>(rows),
                     [&](std::size_t r) { return tile.partial<A>(rows.of[r], chunk) + 2; });
  }
};

// Computes a task and stores its results. If products may have been flushed before rounding (is_doubtful),
// computes the task again with exact products. If a NaN may come from an excluded key's value, computes it
// again without the values of excluded keys.
template <class Way, class A>
RAPT_INNER inline void compute_and_store(Way &way, const TileTask<A> &task) {
  const auto compute = [&] {
    way.run(task.begin(), task.end());
    return task.store(way);
  };
  const auto compute_exactly_if_doubtful = [&](bool has_nan) {
    if (!way.is_doubtful()) [[likely]]
      return has_nan;
    way.use_exact_products();
    return compute();
  };
  way.load_queries();
  if (compute_exactly_if_doubtful(compute()) && way.some_excluded()) [[unlikely]] {
    way.zero_excluded_values();
    compute_exactly_if_doubtful(compute());
  }
}

}  // namespace
