// Tiles of one key/value head that are computed together: keys and values are packed once for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#include "call/attention_call.hpp"
#include "call/attention_workspace.hpp"
#include "isa/amx/chunk.hpp"
#include "isa/amx/operands.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/tile_values.hpp"

namespace {

class TileGroup {
 public:
  using S = simd<float>;
  using batch = S::batch;
  using Layout = rapt::TileGroupLayout;
  static constexpr std::size_t block = rapt::attention_block, chunk = rapt::attention_chunk;

  // The tiles [first, first + count), with the keys [begin, end).
  TileGroup(const rapt::AttentionCall &call, std::size_t first, std::size_t count, void *workspace)
      : o_(call.options), layout_(o_), count_(count) {
    char *const base = static_cast<char *>(workspace);
    const auto numbers = [&](std::size_t at) { return reinterpret_cast<float *>(base + at); };
    const auto halves = [&](std::size_t at) { return reinterpret_cast<rapt::BF16 *>(base + at); };
    storage_ = {{},
                halves(layout_.keys),
                halves(layout_.values),
                halves(layout_.weights),
                halves(layout_.ones),
                numbers(layout_.scores),
                numbers(layout_.out)};
    for (std::size_t i = 0; i < amx_group; ++i) storage_.ones[i] = rapt::BF16{0x3f80};
    for (std::size_t i = 0; i < count; ++i) {
      char *const at = base + layout_.tiles + i * layout_.tile_bytes;
      static_assert(sizeof(TileState) <= Layout::state_bytes);
      states_[i] = new (at) TileState(call, first + i);
      states_[i]->total_values = reinterpret_cast<float *>(at + Layout::state_bytes);
      if (suits(*states_[i])) {
        load_queries(*states_[i], reinterpret_cast<rapt::BF16 *>(at + layout_.queries_in_tile));
      } else {
        states_[i]->queries = nullptr;
      }
    }
  }

  TileState &operator[](std::size_t i) { return *states_[i]; }
  // Whether AMX computes this tile.
  bool takes(std::size_t i) const { return states_[i]->queries != nullptr; }

  // Chooses the keys [begin, end), which begin at a chunk. False: tiles have nothing to compute.
  bool choose_keys(std::size_t begin, std::size_t end) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (!takes(i)) continue;
      seen_[i] = states_[i]->rows.range();
      if (seen_[i].end > end) seen_[i].end = end;
      if (seen_[i].first < begin) seen_[i].first = begin;
      if (seen_[i].first >= seen_[i].end) continue;
      if (seen_[i].first < all_.first) all_.first = seen_[i].first;
      if (seen_[i].end > all_.end) all_.end = seen_[i].end;
    }
    return all_.first < all_.end;
  }

  // Takes in the chosen keys.
  void run() {
    for (std::size_t key = all_.first / chunk * chunk; key < all_.end; key += chunk) {
      pack_chunk(key, all_);
      for (std::size_t i = 0; i < count_; ++i) {
        if (!takes(i) || seen_[i].first >= seen_[i].end) continue;
        const std::size_t last = seen_[i].end < key + chunk ? seen_[i].end : key + chunk;
        const std::size_t first = seen_[i].first > key ? seen_[i].first : key;
        if (first >= last) continue;
        take_chunk(*states_[i], key, (first - key) / block, (last - key + block - 1) / block);
      }
    }
    for (std::size_t i = 0; i < count_; ++i) {
      TileState &state = *states_[i];
      if (takes(i) && !state.has_keys) clear_values(state.total_values, o_.v_dim, 0, state.rows.lanes);
    }
  }

 private:
  // The queries of AMX are bf16, so that a scale cannot be part of them. One or two rows over 4096 keys of
  // 128 dimensions take the shared body 77 us, and AMX 125: it packs the values.
  static bool suits(const TileState &state) {
    if (state.tile.rows() <= 2) return false;
    for (std::size_t r = 0; r < state.rows.lanes; ++r) {
      if (state.rows.sign[r] != state.rows.sign[0] || (state.rows.sign[r] != 1 && state.rows.sign[r] != -1)) {
        return false;
      }
    }
    return true;
  }
  static std::size_t vectors_of(const TileState &state) { return state.rows.lanes <= S::width ? 1 : 4; }

  void load_queries(TileState &state, rapt::BF16 *to) {
    const TileRows<float> &rows = state.rows;
    state.queries = to;
    pack_queries(
        vectors_of(state), o_.qk_dim, rows.sign[0] < 0,
        [&](std::size_t r) { return state.tile.q<rapt::BF16>(rows.of[r < rows.rows ? r : rows.rows - 1]); },
        to);
    for (std::size_t r = 0; r < rapt::attention_tile_rows; r += S::width) {
      S::store(state.to_log2 + r, r < rows.lanes ? rows.to_log2_by_groups(r) : batch(0.0f));
    }
    for (std::size_t r = rows.lanes; r < rapt::attention_tile_rows; ++r) {
      state.to_log2[r] = state.to_log2[rows.rows - 1];
    }
  }

  // Whether products can read keys as they are. A row that crosses a line would take six times as long, and
  // rows far apart meet in few sets of L1.
  bool lie_as_tiles(const rapt::BF16 *keys) const {
    constexpr std::ptrdiff_t far = 512 / sizeof(rapt::BF16);
    return !o_.packed_keys && !o_.block_table && o_.qk_dim % amx_group == 0 && o_.k_strides.token > 0 &&
           o_.k_strides.token <= far && static_cast<std::size_t>(o_.k_strides.token) % amx_group == 0 &&
           reinterpret_cast<std::uintptr_t>(keys) % amx_row_bytes == 0;
  }

  // The blocks of the chunk at `first` that a tile sees.
  void pack_chunk(std::size_t first, AttentionTile::Range seen) {
    const AttentionTile &tile = states_[0]->tile;
    const std::size_t begin = seen.first > first ? (seen.first - first) / block * block : 0;
    const std::size_t last =
        seen.end - first < chunk ? (seen.end - first + block - 1) / block * block : chunk;
    const std::size_t kv = tile.kv_len() - first;
    const auto left = [&](std::size_t key, std::size_t most) {
      return key >= kv ? 0 : kv - key < most ? kv - key : most;
    };
    if (last <= kv && lie_as_tiles(tile.k<rapt::BF16>(first))) {
      const auto stride = static_cast<std::size_t>(o_.k_strides.token);
      storage_.keys = {tile.k<rapt::BF16>(first), amx_rows * stride, amx_group, stride * sizeof(rapt::BF16)};
    } else {
      storage_.keys = {storage_.packed_keys, layout_.qk_groups * amx_elements, amx_elements, amx_row_bytes};
      const auto pack = o_.packed_keys ? pack_packed_keys_of_unit : pack_keys_of_unit;
      for (std::size_t key = begin; key < last; key += amx_rows) {
        rapt::BF16 *const to = storage_.packed_keys + key / amx_rows * layout_.qk_groups * amx_elements;
        pack(tile, first + key, left(key, amx_rows), to);
      }
    }
    for (std::size_t key = begin; key < last; key += amx_group) {
      pack_values_of_group(tile, first + key, left(key, amx_group), chunk_groups * amx_elements,
                           storage_.values + key / amx_group * amx_elements);
    }
  }

  void take_chunk(TileState &state, std::size_t first, std::size_t begin, std::size_t end) {
    if (vectors_of(state) == 1) {
      ChunkOfTile<1>(state, storage_, first).run(begin, end);
    } else {
      ChunkOfTile<4>(state, storage_, first).run(begin, end);
    }
    const batch unit(rapt::Bf16Contract::from_weights);
    const float *const sums = storage_.out + layout_.v_groups * amx_rows * tile_pitch;
    for (std::size_t r = 0; r < state.rows.lanes; r += S::width) {
      S::store(state.sums.sum + r, S::load(sums + r) * unit);
    }
    if (state.has_keys) {
      state.rows.fold(state.total, state.sums);
      add_values<true>(state);
    } else {
      state.total = state.sums;
      add_values<false>(state);
    }
    state.has_keys = true;
  }

  // The outputs of a chunk to those of the tile, or on to them with the factors that fold() left.
  template <bool on>
  void add_values(TileState &state) const {
    const batch unit(rapt::Bf16Contract::from_weights);
    constexpr std::size_t most = rapt::attention_tile_rows / S::width;
    batch a[most], b[most];
    for (std::size_t v = 0; v < most; ++v) {
      const bool exists = v * S::width < state.rows.lanes;
      a[v] = exists ? S::load(state.rows.rescale + v * S::width) : unit;
      b[v] = exists ? S::load(state.rows.rescale_next + v * S::width) : unit;
    }
    for (std::size_t d = 0; d < o_.v_dim; ++d) {
      const float *const from = storage_.out + d * tile_pitch;
      float *const to = state.total_values + d * tile_pitch;
      unroll<most>([&](auto v) __attribute__((always_inline)) {
        const batch value = S::load(from + v * S::width) * unit;
        S::store(to + v * S::width, on ? S::fma(value, b[v], S::load(to + v * S::width) * a[v]) : value);
      });
    }
  }

  const rapt_attention_options &o_;
  Layout layout_;
  std::size_t count_;
  AttentionTile::Range seen_[Layout::most_tiles], all_{~std::size_t{0}, 0};
  ChunkStorage storage_;
  TileState *states_[Layout::most_tiles];
};

}  // namespace
