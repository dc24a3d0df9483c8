// Tiles of one key/value head that are computed together over int8 keys and values: these are packed once for
// all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>

#include "call/attention_call.hpp"
#include "call/attention_workspace.hpp"
#include "isa/amx/integer_chunk.hpp"
#include "isa/amx/integer_operands.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/attention/integers.hpp"
#include "kernels/attention/tile_values.hpp"

namespace {

class IntegerTileGroup {
 public:
  using S = simd<float>;
  using batch = S::batch;
  using Layout = rapt::IntegerTilesLayout;
  static constexpr std::size_t block = rapt::attention_block, chunk = rapt::attention_chunk;

  // The tiles [first, first + count), with the keys [begin, end).
  IntegerTileGroup(const rapt::AttentionCall &call, std::size_t first, std::size_t count, void *workspace)
      : o_(call.options), layout_(o_), segments_(o_), count_(count) {
    char *const base = static_cast<char *>(workspace);
    const auto numbers = [&](std::size_t at) { return reinterpret_cast<float *>(base + at); };
    const auto bytes = [&](std::size_t at) { return reinterpret_cast<std::int8_t *>(base + at); };
    const auto sums = [&](std::size_t at) { return reinterpret_cast<std::int32_t *>(base + at); };
    storage_ = {{},
                bytes(layout_.keys),
                bytes(layout_.values),
                numbers(layout_.k_scales),
                numbers(layout_.v_scales),
                {sums(layout_.score_sums), sums(layout_.score_sums + layout_.segments * Layout::sums_bytes)},
                sums(layout_.value_sums),
                {bytes(layout_.digits), bytes(layout_.digits + 2 * layout_.v_groups * tile_bytes)},
                numbers(layout_.scores),
                numbers(layout_.weights),
                numbers(layout_.out),
                {}};
    for (std::size_t i = 0; i < count; ++i) {
      char *const at = base + layout_.states + i * layout_.bytes_of_state;
      static_assert(sizeof(IntegerTileState) <= Layout::state_bytes);
      IntegerTileState &state = *new (at) IntegerTileState(call, first + i);
      states_[i] = &state;
      state.total_values = reinterpret_cast<float *>(at + Layout::state_bytes);
      if (!suits(state)) continue;
      auto *const queries = reinterpret_cast<std::int8_t *>(at + layout_.queries_in_state);
      auto *const steps = reinterpret_cast<float *>(at + layout_.units_in_state);
      pack_queries(state.tile, state.rows, segments_, layout_.query_tiles,
                   reinterpret_cast<std::int16_t *>(base + layout_.score_sums), queries, steps);
      state.queries = queries;
      state.query_steps = steps;
    }
  }

  IntegerTileState &operator[](std::size_t i) { return *states_[i]; }
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
      IntegerTileState &state = *states_[i];
      if (takes(i) && !state.has_keys) clear_values(state.total_values, o_.v_dim, 0, state.rows.lanes);
    }
  }

 private:
  // 4096 keys, us:
  //
  //   rows                    | 4    | 6    | 8     | 16    | 32
  //   64 dimensions: shared   | 37.5 | 57.7 | 70.0  | 135.2 | 277.4
  //   AMX                     | 56.4 | 56.5 | 56.3  | 56.5  | 101.1
  //   128 dimensions: shared  | 55.4 | 87.1 | 108.4 | 206.1 | 410.5
  //   AMX                     | 91.7 | 91.4 | 91.2  | 91.3  | 158.4
  static bool suits(const IntegerTileState &state) { return state.tile.rows() > 6; }

  // Whether products can read keys as they are. A row that crosses a line would take six times as long, and
  // rows far apart meet in few sets of L1.
  bool lie_as_tiles(const std::int8_t *keys) const {
    constexpr std::ptrdiff_t far = 512;
    return !o_.packed_keys && !o_.block_table && o_.qk_dim % amx_row_bytes == 0 && o_.k_strides.token > 0 &&
           o_.k_strides.token <= far && static_cast<std::size_t>(o_.k_strides.token) % amx_row_bytes == 0 &&
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
    if (last <= kv && lie_as_tiles(tile.k<std::int8_t>(first))) {
      const auto stride = static_cast<std::size_t>(o_.k_strides.token);
      storage_.keys = {tile.k<std::int8_t>(first), amx_rows * stride, amx_row_bytes, stride};
    } else {
      storage_.keys = {storage_.packed_keys, layout_.qk_steps * tile_bytes, tile_bytes, amx_row_bytes};
      const auto pack = o_.packed_keys ? pack_packed_keys : pack_keys;
      for (std::size_t key = begin; key < last; key += amx_rows) {
        pack(tile, first + key, left(key, amx_rows),
             storage_.packed_keys + key / amx_rows * layout_.qk_steps * tile_bytes);
      }
    }
    for (std::size_t key = begin; key < last; key += block) {
      const std::size_t keys = left(key, block);
      pack_values(tile, first + key, keys, storage_.values + key / block * layout_.v_tiles * tile_bytes);
      for (std::size_t g = 0; g < layout_.k_groups; ++g) {
        load_scales([&](std::size_t of) { return tile.k_scales(of) + g; }, tile.k_scale_strides().token,
                    first + key, keys, storage_.k_scales + g * chunk + key);
      }
      auto finite = ~S::mask{0};
      for (std::size_t g = 0; g < layout_.v_groups; ++g) {
        float *const scales = storage_.v_scales + g * chunk + key;
        load_scales([&](std::size_t of) { return tile.v_scales(of) + g; }, tile.v_scale_strides().token,
                    first + key, keys, scales);
        for (std::size_t j = 0; j < block; j += S::width) {
          finite &= S::less(S::abs(S::load(scales + j)), batch(std::numeric_limits<float>::infinity()));
        }
      }
      storage_.has_finite_scales[key / block] = static_cast<S::mask>(~finite) == 0;
    }
  }

  void take_chunk(IntegerTileState &state, std::size_t first, std::size_t begin, std::size_t end) {
    IntegerChunk(state, storage_, layout_, segments_, first).run(begin, end);
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
  void add_values(IntegerTileState &state) const {
    for (std::size_t r = 0; r < state.rows.lanes; r += S::width) {
      const float *const from = storage_.out + r * layout_.v_tiles * amx_rows;
      float *const to = state.total_values + r;
      const batch a = S::load(state.rows.rescale + r), b = S::load(state.rows.rescale_next + r);
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        const batch value = S::load(from + d * S::width);
        S::store(to + d * tile_pitch, on ? S::fma(value, b, S::load(to + d * tile_pitch) * a) : value);
      }
    }
  }

  const rapt_attention_options &o_;
  Layout layout_;
  QuerySegments segments_;
  std::size_t count_;
  AttentionTile::Range seen_[Layout::most_tiles], all_{~std::size_t{0}, 0};
  IntegerStorage storage_;
  IntegerTileState *states_[Layout::most_tiles];
};

}  // namespace
