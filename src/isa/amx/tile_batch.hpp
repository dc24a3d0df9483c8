// Computes several tiles of rows of one key/value head together, as a batch, so that keys and values are
// packed only once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "call/attention_call.hpp"
#include "call/attention_workspace.hpp"
#include "isa/amx/batch_tile.hpp"
#include "isa/amx/layout.hpp"
#include "isa/amx/tiles.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/attention/results.hpp"
#include "kernels/attention/row_sums.hpp"
#include "kernels/attention/tile_rows.hpp"

namespace {

// Of is Bf16Batch or Int8Batch. It packs the operands and multiplies them. The level below computes the tiles that
// do not go in a batch: a second copy of its code would cost 200 KB and a fifth of AMX's compile time.
template <class Of>
class TileBatch {
 public:
  using S = simd<float>;
  using batch = S::batch;
  using Tile = typename Of::Tile;
  using Element = typename Of::Element;
  static constexpr std::size_t block = rapt::attention_block, chunk = rapt::attention_chunk;

  // The batch has the tiles [first, first + count) of the call.
  TileBatch(const rapt::AttentionCall &call, const typename Of::Sizes &sizes, std::size_t first,
            std::size_t count, void *workspace)
      : TileBatch(call, sizes, first, count, Bytes(workspace),
                  rapt::gathered_memory<Element>(call.options, workspace)) {}

  Tile &operator[](std::size_t i) { return *tiles_[i]; }
  // Returns whether AMX computes this tile.
  bool takes(std::size_t i) const { return tiles_[i]->queries != nullptr; }

  // Chooses the keys [begin, end). `begin` must be the first key of a chunk. Returns false if no tile sees
  // any of these keys.
  bool choose_keys(std::size_t begin, std::size_t end) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (!takes(i)) continue;
      seen_[i] = tiles_[i]->rows.range();
      if (seen_[i].end > end) seen_[i].end = end;
      if (seen_[i].first < begin) seen_[i].first = begin;
      if (seen_[i].first >= seen_[i].end) continue;
      if (seen_[i].first < all_.first) all_.first = seen_[i].first;
      if (seen_[i].end > all_.end) all_.end = seen_[i].end;
    }
    return all_.first < all_.end;
  }

  // Adds the chosen keys to the results of the tiles.
  [[gnu::noinline, gnu::flatten]] void run() {
    for (std::size_t key = all_.first / chunk * chunk; key < all_.end; key += chunk) {
      pack_chunk(key);
      for (std::size_t i = 0; i < count_; ++i) {
        if (!takes(i) || seen_[i].first >= seen_[i].end) continue;
        const std::size_t last = seen_[i].end < key + chunk ? seen_[i].end : key + chunk;
        const std::size_t first = seen_[i].first > key ? seen_[i].first : key;
        if (first >= last) continue;
        add_chunk(*tiles_[i], key, (first - key) / block, (last - key + block - 1) / block);
      }
    }
    for (std::size_t i = 0; i < count_; ++i) {
      if (takes(i) && !tiles_[i]->has_keys) tiles_[i]->total_values.clear();
    }
  }

 private:
  TileBatch(const rapt::AttentionCall &call, const typename Of::Sizes &sizes, std::size_t first,
            std::size_t count, Bytes workspace, void *gathered)
      : o_(call.options), count_(count), of_(o_, sizes, workspace) {
    static_assert(sizeof(Tile) <= Of::Sizes::numbers_of_tile);
    for (std::size_t i = 0; i < count; ++i) {
      Bytes of_tile(workspace.reserve<char>(sizes.of_tile()));
      void *const numbers = of_tile.reserve<char>(Of::Sizes::numbers_of_tile);
      tiles_[i] = new (numbers) Tile(call, first + i, gathered, of_tile.reserve<float>(sizes.total_values));
      if (Of::goes_in_batch(tiles_[i]->rows)) of_.load_queries(*tiles_[i], of_tile);
    }
  }

  // Returns whether AMX can load keys without packing. Loading a row that crosses a cache line would take six
  // times as long. Rows that are far apart would share few sets of the L1 cache.
  bool are_keys_operands(const Element *keys) const {
    constexpr std::ptrdiff_t far = 512 / sizeof(Element);
    return !o_.packed_keys && !o_.block_table && !o_.key_lists && o_.qk_dim % Of::step == 0 &&
           o_.k_strides.token > 0 && o_.k_strides.token <= far &&
           static_cast<std::size_t>(o_.k_strides.token) % Of::step == 0 &&
           reinterpret_cast<std::uintptr_t>(keys) % amx_row_bytes == 0;
  }

  // Packs the blocks of the chunk at `first` that any tile sees.
  void pack_chunk(std::size_t first) {
    const AttentionTile &tile = tiles_[0]->tile;
    const std::size_t begin = all_.first > first ? (all_.first - first) / block * block : 0;
    const std::size_t last =
        all_.end - first < chunk ? (all_.end - first + block - 1) / block * block : chunk;
    const std::size_t kv = tile.kv_len() - first;
    const auto left = [&](std::size_t key, std::size_t most) {
      return key >= kv ? 0 : kv - key < most ? kv - key : most;
    };
    if (last <= kv && are_keys_operands(tile.k<Element>(first))) {
      of_.use_keys(tile.k<Element>(first), static_cast<std::size_t>(o_.k_strides.token));
    } else {
      of_.use_packed_keys();
      for (std::size_t key = begin; key < last; key += amx_rows) {
        of_.pack_keys(tile, first, key, left(key, amx_rows));
      }
    }
    for (std::size_t key = begin; key < last; key += Of::values_together) {
      of_.pack_values(tile, first, key, left(key, Of::values_together));
    }
  }

  void add_chunk(Tile &tile, std::size_t first, std::size_t begin, std::size_t end) {
    of_.add_chunk(tile, first, begin, end);
    FoldFactors<float> factors;
    if (tile.has_keys) {
      fold<float>(tile.rows, tile.total, tile.sums_of_chunk, factors);
      add_values<true>(tile, factors);
    } else {
      tile.total = tile.sums_of_chunk;
      add_values<false>(tile, factors);
    }
    tile.has_keys = true;
  }

  // If `on`, adds the outputs of a chunk to the outputs of the tile. Otherwise overwrites the outputs of the
  // tile.
  template <bool on>
  void add_values(const Tile &tile, const FoldFactors<float> &factors) const {
    const batch weights_unit(Tile::Rule::weights_unit);
    for (std::size_t r = 0; r < tile.rows.lanes; r += S::width) {
      const float *const from = of_.out_of(r);
      float *const to = tile.total_values.data() + r;
      const batch a = on ? S::load(factors.of_total + r) : weights_unit,
                  b = on ? S::load(factors.of_next + r) : weights_unit;
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        const batch value = S::load(from + d * Of::out_pitch) * weights_unit;
        S::store(to + d * tile_pitch, on ? S::fma(value, b, S::load(to + d * tile_pitch) * a) : value);
      }
    }
  }

  const rapt_attention_options &o_;
  std::size_t count_;
  AttentionTile::Range seen_[most_tiles_of_batch], all_{~std::size_t{0}, 0};
  Of of_;
  Tile *tiles_[most_tiles_of_batch];
};

// Runs `count` tasks from `first`. All have the same key/value head, and in a partial call the same chunk.
// Returns false, and stores nothing, if this process may not use AMX's tiles now.
template <class Of>
bool attention_of_batch(const rapt::AttentionCall &call, const typename Of::Sizes &sizes, std::size_t first,
                        std::size_t count, void *workspace, TileRegisters &registers) {
  const bool is_whole = call.stage == rapt::AttentionStage::whole;
  const std::size_t tile = is_whole ? first : first % call.tiles(),
                    chunk = is_whole ? 0 : first / call.tiles();
  TileBatch<Of> tiles(call, sizes, tile, count, workspace);
  const auto task_of = [&](std::size_t i) {
    return TileTask<float>{tiles[i].tile, tiles[i].rows, is_whole, chunk};
  };
  const bool needs_tiles = tiles.choose_keys(task_of(0).begin(), task_of(0).end());
  if (needs_tiles && !registers.configured() && !registers.configure()) return false;
  tiles.run();
  bool goes_another_way[most_tiles_of_batch] = {};
  for (std::size_t i = 0; i < count; ++i) {
    if (tiles[i].tile.rows() == 0) continue;
    goes_another_way[i] = !tiles.takes(i) || task_of(i).store(tiles[i]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (goes_another_way[i]) Of::without_tiles()(&call, first + i, first + i + 1, workspace);
  }
  return true;
}

// Divides the tasks into batches. Results do not depend on the division.
template <class Of>
void attention_by_amx(const rapt::AttentionCall *call, std::size_t first, std::size_t last, void *workspace) {
  const typename Of::Sizes sizes(call->options);
  if (call->stage == rapt::AttentionStage::merge || !sizes.fit()) {
    return Of::without_tiles()(call, first, last, workspace);
  }
  // A batch's tiles have the same keys, and thus the same list of keys.
  const std::size_t most = rapt::tiles_of_batch(sizes.of_tile()),
                    of_list = call->tiles_per_list() > 0 ? call->tiles_per_list() : 1;
  TileRegisters registers;
  while (first < last) {
    const std::size_t left = of_list - first % of_list, all = last - first < left ? last - first : left;
    const std::size_t count = all < most ? all : most;
    if (!attention_of_batch<Of>(*call, sizes, first, count, workspace, registers)) {
      return Of::without_tiles()(call, first, last, workspace);
    }
    first += count;
  }
}

}  // namespace
