// Attention in bf16 arithmetic by AMX.

#include <cstddef>

#include "isa/amx/tile_group.hpp"
#include "isa/amx/tiles.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/attention/attention_in_bf16.hpp"
#include "kernels/kernels.hpp"
#include "kernels/part.hpp"

namespace {

// These store the results of a tile; true if one is NaN that may come from an excluded key.
template <class Address>
bool store_tile(const TileState &state, const rapt_attention_options &o, Address address) {
  return store_values(state.rows, state.total_values, o.v_dim, address) && state.some_excluded;
}

// Queries that are computed again are still read: nothing is stored then if they may be where results go.
bool finish(TileState &state, bool in_place) {
  const rapt_attention_options &o = state.tile.options();
  state.rows.finish(state.tile, state.total);
  if (in_place && state.some_excluded && has_nan(state.rows, state.total_values, o.v_dim)) return true;
  return rapt::with_element<float>(o.out_type, [&](auto element) {
    return store_tile(state, o, [&](std::size_t r) {
      return state.tile.out<typename decltype(element)::type>(state.rows.of[r]);
    });
  });
}

bool finish_partial(TileState &state, std::size_t chunk) {
  const rapt_attention_options &o = state.tile.options();
  state.rows.finish_without_factor();
  const auto partial = [&](std::size_t r) { return state.tile.partial<float>(state.rows.of[r], chunk); };
  const bool again = store_tile(state, o, [&](std::size_t r) { return partial(r) + 2; });
  for (std::size_t r = 0; r < state.rows.rows; ++r) {
    partial(r)[0] = state.total.max[r] + 0.0f;
    partial(r)[1] = state.total.sum[r];
  }
  return again;
}

// The tasks of one key/value head and one chunk, the first `count` from `first`. False: tiles are not to be
// had, and nothing is stored.
bool attention_of_group(const rapt::AttentionCall &call, std::size_t first, std::size_t count,
                        void *workspace, TileRegisters &registers) {
  const bool whole = call.stage == rapt::AttentionStage::whole;
  const std::size_t tile = whole ? first : first % call.tiles(), chunk = whole ? 0 : first / call.tiles();
  TileGroup group(call, tile, count, workspace);
  const std::size_t kv = group[0].tile.kv_len(), begin = chunk * rapt::attention_chunk;
  const bool needs_tiles = group.choose_keys(
      begin, whole || kv < begin + rapt::attention_chunk ? kv : begin + rapt::attention_chunk);
  if (needs_tiles && !registers.configured() && !registers.configure()) return false;
  group.run();
  bool by_shared_body[rapt::TileGroupLayout::most_tiles] = {};
  for (std::size_t i = 0; i < count; ++i) {
    if (group[i].tile.rows() == 0) continue;
    by_shared_body[i] =
        !group.takes(i) || (whole ? finish(group[i], call.q == call.out) : finish_partial(group[i], chunk));
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (by_shared_body[i]) attention_in_bf16<rapt::BF16>(&call, first + i, first + i + 1, workspace);
  }
  return true;
}

// Results do not depend on how tasks are grouped.
void attention_by_amx(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  const std::size_t most = rapt::TileGroupLayout(call->options).count;
  const std::size_t of_head = call->tile_numbers_per_sequence();
  TileRegisters registers;
  while (first < last) {
    const std::size_t left = of_head - first % of_head, all = last - first < left ? last - first : left;
    const std::size_t count = all < most ? all : most;
    if (!attention_of_group(*call, first, count, workspace, registers)) {
      return rapt_kernels_without_tiles()->bf16.attention_in_bf16(call, first, last, workspace);
    }
    first += count;
  }
}

}  // namespace

RAPT_PART(attention_in_bf16) = {.bf16 = {.attention_in_bf16 = attention_by_amx}};
