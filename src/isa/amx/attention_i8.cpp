// Attention over int8 keys and values by AMX.

#include <cstddef>

#include "isa/amx/integer_group.hpp"
#include "isa/amx/tiles.hpp"
#include "isa/avx512/integer_simd.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/families/attention_int8.hpp"

namespace {

void finish(IntegerTileState &state) {
  const rapt_attention_options &o = state.tile.options();
  state.rows.finish(state.tile, state.total);
  rapt::with_element<float>(o.out_type, [&](auto element) {
    store_values(state.rows, state.total_values, o.v_dim, [&](std::size_t r) {
      return state.tile.out<typename decltype(element)::type>(state.rows.of[r]);
    });
  });
}

void finish_partial(IntegerTileState &state, std::size_t chunk) {
  state.rows.finish_without_factor();
  const auto partial = [&](std::size_t r) { return state.tile.partial<float>(state.rows.of[r], chunk); };
  store_values(state.rows, state.total_values, state.tile.options().v_dim,
               [&](std::size_t r) { return partial(r) + 2; });
  for (std::size_t r = 0; r < state.rows.rows; ++r) {
    partial(r)[0] = state.total.max[r] + 0.0f;
    partial(r)[1] = state.total.sum[r];
  }
}

// The tasks of one key/value head and one chunk, the first `count` from `first`. False: tiles are not to be
// had, and nothing is stored.
bool attention_of_group(const rapt::AttentionCall &call, std::size_t first, std::size_t count,
                        void *workspace, TileRegisters &registers) {
  const bool whole = call.stage == rapt::AttentionStage::whole;
  const std::size_t tile = whole ? first : first % call.tiles(), chunk = whole ? 0 : first / call.tiles();
  IntegerTileGroup group(call, tile, count, workspace);
  const std::size_t kv = group[0].tile.kv_len(), begin = chunk * rapt::attention_chunk;
  const bool needs_tiles = group.choose_keys(
      begin, whole || kv < begin + rapt::attention_chunk ? kv : begin + rapt::attention_chunk);
  if (needs_tiles && !registers.configured() && !registers.configure()) return false;
  group.run();
  bool by_shared_body[rapt::IntegerTilesLayout::most_tiles] = {};
  for (std::size_t i = 0; i < count; ++i) {
    by_shared_body[i] = group[i].tile.rows() > 0 && !group.takes(i);
    if (!group.takes(i)) continue;
    if (whole) {
      finish(group[i]);
    } else {
      finish_partial(group[i], chunk);
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (by_shared_body[i]) attention<std::int8_t>(&call, first + i, first + i + 1, workspace);
  }
  return true;
}

// Results do not depend on how tasks are grouped.
void attention_by_amx(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  const rapt::IntegerTilesLayout layout(call->options);
  if (call->stage == rapt::AttentionStage::merge || !layout.suits()) {
    return attention<std::int8_t>(call, first, last, workspace);
  }
  const std::size_t of_head = call->tile_numbers_per_sequence();
  TileRegisters registers;
  while (first < last) {
    const std::size_t left = of_head - first % of_head, all = last - first < left ? last - first : left;
    const std::size_t count = all < layout.count ? all : layout.count;
    if (!attention_of_group(*call, first, count, workspace, registers)) {
      return rapt_kernels_without_tiles()->i8.attention(call, first, last, workspace);
    }
    first += count;
  }
}

}  // namespace

RAPT_PART(attention_i8) = {.i8 = {.attention = attention_by_amx}};
