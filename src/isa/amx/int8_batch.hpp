// Packs the operands of a batch of tiles over int8 keys and values. Computes one chunk of keys for one of the
// tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "call/attention_call.hpp"
#include "call/attention_workspace.hpp"
#include "isa/amx/int8_chunk.hpp"
#include "isa/amx/int8_operands.hpp"
#include "isa/amx/layout.hpp"
#include "isa/avx512/integer_simd.hpp"
#include "isa/avx512/simd.hpp"
#include "isa/x86/vnni.hpp"
#include "kernels/attention/integers.hpp"
#include "kernels/attention/ways.hpp"
#include "kernels/kernels.hpp"

namespace {

class Int8Batch {
 public:
  using S = simd<float>;
  using batch = S::batch;
  using Tile = Int8Tile;
  using Sizes = rapt::Int8BatchSizes;
  using Element = std::int8_t;
  // One AMX multiplication uses this many elements of a key.
  static constexpr std::size_t step = amx_row_bytes;

  static auto without_tiles() { return rapt_kernels_without_tiles()->i8.attention; }
  static bool goes_in_batch(const TileRows<float> &rows) { return goes_in_batch_int8(rows); }

  Int8Batch(const rapt_attention_options &o, const Sizes &sizes, Bytes &shared)
      : o_(o), sizes_(sizes), segments_(o) {
    storage_.packed_keys = shared.reserve<std::int8_t>(sizes.keys);
    storage_.values = shared.reserve<std::int8_t>(sizes.values);
    storage_.k_scales = shared.reserve<float>(sizes.k_scales);
    storage_.v_scales = shared.reserve<float>(sizes.v_scales);
    for (auto *&sums : storage_.score_sums) sums = shared.reserve<std::int32_t>(sizes.score_sums / 2);
    storage_.value_sums = shared.reserve<std::int32_t>(sizes.value_sums);
    for (auto *&digits : storage_.digits) digits = shared.reserve<std::int8_t>(sizes.digits / 2);
    storage_.scores = shared.reserve<float>(sizes.scores);
    storage_.weights = shared.reserve<float>(sizes.weights);
    storage_.out = shared.reserve<float>(sizes.out);
  }

  void load_queries(Tile &tile, Bytes of_tile) const {
    auto *const steps = of_tile.reserve<float>(sizes_.query_steps);
    auto *const queries = of_tile.reserve<std::int8_t>(sizes_.queries);
    pack_queries(tile.tile, tile.rows, segments_, sizes_.query_tiles,
                 reinterpret_cast<std::int16_t *>(storage_.score_sums[0]), queries, steps);
    tile.queries = queries;
    tile.query_steps = steps;
  }

  void use_keys(const std::int8_t *keys, std::size_t stride) {
    storage_.keys = {keys, amx_rows * stride, amx_row_bytes, stride};
  }
  void use_packed_keys() {
    storage_.keys = {storage_.packed_keys, sizes_.qk_steps * tile_bytes, tile_bytes, amx_row_bytes};
  }
  void pack_keys(const AttentionTile &tile, std::size_t first, std::size_t key, std::size_t left) const {
    const auto pack = o_.packed_keys ? ::pack_packed_keys : ::pack_keys;
    pack(tile, first + key, left, storage_.packed_keys + key / amx_rows * sizes_.qk_steps * tile_bytes);
  }
  static constexpr std::size_t values_together = rapt::attention_block;
  void pack_values(const AttentionTile &tile, std::size_t first, std::size_t key, std::size_t left) {
    constexpr std::size_t block = rapt::attention_block, chunk = rapt::attention_chunk;
    ::pack_values(tile, first + key, left, storage_.values + key / block * sizes_.v_tiles * tile_bytes);
    load_scales<VnniIntegers<IntegerSimd>>(ScaleRows::of_keys(tile), sizes_.k_groups, first + key, left,
                                           storage_.k_scales + key, chunk);
    load_scales<VnniIntegers<IntegerSimd>>(ScaleRows::of_values(tile), sizes_.v_groups, first + key, left,
                                           storage_.v_scales + key, chunk);
    auto finite = ~S::mask{0};
    for (std::size_t g = 0; g < sizes_.v_groups; ++g) {
      const float *const scales = storage_.v_scales + g * chunk + key;
      for (std::size_t j = 0; j < block; j += S::width) {
        finite &= S::less(S::abs(S::load(scales + j)), batch(std::numeric_limits<float>::infinity()));
      }
    }
    storage_.has_finite_scales[key / block] = static_cast<S::mask>(~finite) == 0;
  }

  void add_chunk(Tile &tile, std::size_t first, std::size_t begin, std::size_t end) {
    Int8Chunk(tile, storage_, sizes_, segments_, first).run(begin, end);
  }
  // Returns where add_chunk() has stored the outputs of the rows from r on. Dimensions are out_pitch elements
  // apart.
  const float *out_of(std::size_t r) const { return storage_.out + r * sizes_.v_tiles * amx_rows; }
  static constexpr std::size_t out_pitch = S::width;

 private:
  const rapt_attention_options &o_;
  const Sizes &sizes_;
  QuerySegments segments_;
  Int8Storage storage_{};
};

}  // namespace
