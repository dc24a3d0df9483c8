// Packs the operands of a batch of tiles in bf16 arithmetic. Computes one chunk of keys for one of the tiles.
#pragma once

#include <cstddef>

#include "call/attention_call.hpp"
#include "call/attention_workspace.hpp"
#include "isa/amx/bf16_chunk.hpp"
#include "isa/amx/bf16_operands.hpp"
#include "isa/amx/layout.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/attention/bf16_rule.hpp"
#include "kernels/attention/ways.hpp"
#include "kernels/kernels.hpp"

namespace {

class Bf16Batch {
 public:
  using S = simd<float>;
  using batch = S::batch;
  using Tile = Bf16Tile;
  using Sizes = rapt::Bf16BatchSizes;
  using Element = rapt::BF16;
  // One AMX multiplication uses this many elements of a key.
  static constexpr std::size_t step = amx_k32;

  static auto without_tiles() { return rapt_kernels_without_tiles()->bf16.attention_in_bf16; }
  static bool goes_in_batch(const TileRows<float> &rows) { return goes_in_batch_bf16(rows); }

  Bf16Batch(const rapt_attention_options &o, const Sizes &sizes, Bytes &shared) : o_(o), sizes_(sizes) {
    storage_.packed_keys = shared.reserve<rapt::BF16>(sizes.keys);
    storage_.values = shared.reserve<rapt::BF16>(sizes.values);
    storage_.weights = shared.reserve<rapt::BF16>(sizes.weights);
    storage_.ones = shared.reserve<rapt::BF16>(sizes.ones);
    storage_.scores = shared.reserve<float>(sizes.scores);
    storage_.out = shared.reserve<float>(sizes.out);
    for (std::size_t i = 0; i < amx_k32; ++i) storage_.ones[i] = rapt::BF16{0x3f80};
  }

  void load_queries(Tile &tile, Bytes of_tile) const {
    const TileRows<float> &rows = tile.rows;
    auto *const to = of_tile.reserve<rapt::BF16>(sizes_.queries);
    tile.queries = to;
    pack_queries(
        vectors_of(tile), o_.qk_dim, rows.sign[0] < 0,
        [&](std::size_t r) { return tile.tile.q<rapt::BF16>(rows.of[r < rows.rows ? r : rows.rows - 1]); },
        to);
    for (std::size_t r = 0; r < rapt::attention_tile_rows; r += S::width) {
      S::store(tile.to_log2 + r, r < rows.lanes ? S::load(rows.to_log2 + r) : batch(0.0f));
    }
    for (std::size_t r = rows.lanes; r < rapt::attention_tile_rows; ++r) {
      tile.to_log2[r] = tile.to_log2[rows.rows - 1];
    }
  }

  void use_keys(const rapt::BF16 *keys, std::size_t stride) {
    storage_.keys = {keys, amx_rows * stride, amx_k32, stride * sizeof(rapt::BF16)};
  }
  void use_packed_keys() {
    storage_.keys = {storage_.packed_keys, sizes_.qk_groups * amx_elements, amx_elements, amx_row_bytes};
  }
  void pack_keys(const AttentionTile &tile, std::size_t first, std::size_t key, std::size_t left) const {
    const auto pack = o_.packed_keys ? pack_16_packed_keys : pack_16_keys;
    pack(tile, first + key, left, storage_.packed_keys + key / amx_rows * sizes_.qk_groups * amx_elements);
  }
  static constexpr std::size_t values_together = amx_k32;
  void pack_values(const AttentionTile &tile, std::size_t first, std::size_t key, std::size_t left) {
    pack_values_of_k32(tile, first + key, left, chunk_k32s * amx_elements,
                       storage_.values + key / amx_k32 * amx_elements);
  }

  void add_chunk(Tile &tile, std::size_t first, std::size_t begin, std::size_t end) {
    if (vectors_of(tile) == 1) {
      Bf16Chunk<1>(tile, storage_, first).run(begin, end);
    } else {
      Bf16Chunk<4>(tile, storage_, first).run(begin, end);
    }
    const batch weights_unit(Bf16Rule::weights_unit);
    const float *const sums = storage_.out + sizes_.v_groups * amx_rows * tile_pitch;
    for (std::size_t r = 0; r < tile.rows.lanes; r += S::width) {
      S::store(tile.sums_of_chunk.sum + r, S::load(sums + r) * weights_unit);
    }
  }
  // Returns where add_chunk() has stored the outputs of the rows from r on. Dimensions are out_pitch elements
  // apart.
  const float *out_of(std::size_t r) const { return storage_.out + r; }
  static constexpr std::size_t out_pitch = tile_pitch;

 private:
  static std::size_t vectors_of(const Tile &tile) { return tile.rows.lanes <= S::width ? 1 : 4; }

  const rapt_attention_options &o_;
  const Sizes &sizes_;
  Bf16Storage storage_{};
};

}  // namespace
