// Holds a tile of rows of a batch (isa/amx/tile_batch.hpp), and its results.
#pragma once

#include <cstddef>

#include "call/attention_call.hpp"
#include "call/attention_tile.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/attention/final_factors.hpp"
#include "kernels/attention/row_sums.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/tile_scores.hpp"
#include "kernels/attention/tile_values.hpp"

namespace {

template <class TileRule>
struct BatchTile {
  using Rule = TileRule;

  AttentionTile tile;
  TileRows<float> rows;
  Rule rule;
  TileScores<float> scores;
  RowSums<float> total;
  typename Rule::Sums sums_of_chunk;
  TileValues<float> total_values;
  bool has_keys = false;  // total holds at least one chunk
  bool some_excluded = false;
  bool is_in_place;

  BatchTile(const rapt::AttentionCall &call, std::size_t index, void *gathered, float *values)
      : tile(call, index, gathered),
        rows(tile),
        rule(rows),
        scores(tile, rows, nullptr),
        total_values(rows, call.options.v_dim, values),
        is_in_place(call.q == call.out) {
    total.clear();
  }

  const RowSums<float> &sums() const { return total; }
  // Stores the results. Returns true if a NaN result may come from an excluded key. The caller then computes
  // the tile again without AMX. If out is q, nothing is stored in that case, because the second computation
  // still reads the queries.
  template <class Address>
  bool store(const FinalFactors<float> &factors, Address address) const {
    if (is_in_place && some_excluded && total_values.has_nan(factors)) return true;
    return total_values.store(factors, address) && some_excluded;
  }
};

}  // namespace
