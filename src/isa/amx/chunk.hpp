// A chunk of keys and the rows of a tile: scores, weights, references and values.
//
// The keys and values of the chunk are packed already. Scores are made in units of 16 keys. Values are
// multiplied for a part of 128 keys at a time, when the scores of the next part are there. So the weights of a
// part are computed beside its own later scores, and beside the values of the part before it
// (isa/amx/unit_products.hpp).
//
// A block is plain if all rows see all its keys, have a reference already and need no other scores than dot
// products. Its weights are computed as if no reference moved. If a weight reaches 2 or is NaN, the block is
// computed again as one that is not plain: all its scores first, then the largest of each row.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <limits>

#include "isa/amx/operands.hpp"
#include "isa/amx/unit_products.hpp"
#include "kernels/attention/block.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/tile_scores.hpp"
#include "kernels/attention/tile_weights.hpp"

namespace {

// Where a chunk is computed, shared by all tiles.
struct ChunkStorage {
  rapt::BF16 *keys;     // [unit][group of dimensions]
  rapt::BF16 *values;   // [part][16 dimensions][group]
  rapt::BF16 *weights;  // of two parts: [group][vector of rows]
  rapt::BF16 *ones;     // a row
  float *scores;        // of two blocks
  float *out;           // [dimension][row], and the sums after the last multiple of 16 dimensions
};

inline constexpr std::size_t part_blocks = 2, part_groups = part_blocks * rapt::attention_block / amx_group;

// A tile and its results.
struct TileState {
  AttentionTile tile;
  TileRows<float> rows;
  TileScores<float> scores;
  RowSums<float> total, sums;
  const rapt::BF16 *queries;
  float *total_values;
  bool has_keys = false;  // total has a chunk
  bool some_excluded = false;
  alignas(64) float to_log2[rapt::attention_tile_rows];  // as of TileRows, and as many rows as tiles have

  TileState(const rapt::AttentionCall &call, std::size_t index)
      : tile(call, index), rows(tile), scores(tile, rows, nullptr) {
    total.clear();
  }
};

template <int vectors, std::size_t pairs>
class ChunkOfTile {
 public:
  using S = simd<float>;
  using batch = S::batch;
  static constexpr std::size_t block = rapt::attention_block, pitch = tile_pitch;

  ChunkOfTile(TileState &state, const ChunkStorage &storage, std::size_t begin)
      : state_(state),
        rows_(state.rows),
        sums_(state.sums),
        o_(state.tile.options()),
        storage_(storage),
        weigher_(storage.scores, storage.weights, state.to_log2, state.sums.offset),
        begin_(begin),
        steps_((o_.qk_dim + amx_group - 1) / amx_group),
        depth_((o_.v_dim + amx_rows - 1) / amx_rows) {}

  // Takes in the blocks [first, end) of the chunk, which lie at multiples of 64 keys from `begin`.
  void run(std::size_t first, std::size_t end) {
    sums_.clear();
    settled_ = first;
    multiplied_ = 2 * first;
    weigher_.begin(4 * first);
    find_plain_keys();
    for (std::size_t b = first; b < end; ++b) {
      const bool plain = is_plain(b);
      plain_[b] = plain;
      for (std::size_t unit = 4 * b; unit < 4 * b + 4; ++unit) {
        // The unit before this one is being stored.
        const std::size_t ready = plain || unit <= 4 * b ? unit - 1 : 4 * b;
        if (unit > 4 * settled_) weigher_.allow(ready);
        multiply_keys(unit);
      }
      if (!plain) {
        settle(b);
        make_scores(b);
      }
      if ((b + 1) % part_blocks != 0 && b + 1 != end) continue;
      products_.flush();
      weigher_.allow(4 * b + 4);
      multiply_values(b / part_blocks * part_groups);
      settle(b + 1);
    }
    multiply_values(2 * end);
    products_.flush();
  }

 private:
  void find_plain_keys() {
    seen_by_all_ = {0, ~std::size_t{0}};
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      const AttentionTile::Range all = rows_.vector_range(r).all;
      if (all.first > seen_by_all_.first) seen_by_all_.first = all.first;
      if (all.end < seen_by_all_.end) seen_by_all_.end = all.end;
    }
  }
  bool is_plain(std::size_t b) const {
    const std::size_t key = begin_ + b * block;
    return all_have_reference_ && !some_far_ && !rows_.made && !o_.mask && key >= seen_by_all_.first &&
           key + block <= seen_by_all_.end;
  }

  float *block_scores(std::size_t b) const { return storage_.scores + b % 2 * 4 * unit_length; }
  rapt::BF16 *group_weights(std::size_t group) const {
    return storage_.weights + group % Weigher<vectors>::groups * vectors * amx_elements;
  }

  void multiply_keys(std::size_t unit) {
    products_.scores(storage_.keys + unit * steps_ * amx_elements, state_.queries, steps_,
                     block_scores(unit / 4) + unit % 4 * unit_length, weigher_);
  }

  // Ends the weights of the blocks before `b`, which have all scores.
  void settle(std::size_t b) {
    products_.flush();
    weigher_.allow(4 * b);
    weigher_.rest();
    if (!weigher_.all_small() || some_far_) [[unlikely]] {
      for (; settled_ < b; ++settled_) {
        if (plain_[settled_]) {
          for (std::size_t unit = 0; unit < 4; ++unit) multiply_keys(4 * settled_ + unit);
          products_.flush();
          make_scores(settled_);
        }
        weigh_exactly(settled_);
      }
      weigher_.clear();
    }
    settled_ = b;
  }

  // Adds the weighted values of the groups before `end` of which this was not done.
  void multiply_values(std::size_t end) {
    while (multiplied_ < end) {
      const std::size_t in_part = multiplied_ % part_groups, left = end - multiplied_;
      const std::size_t groups = left < part_groups - in_part ? left : part_groups - in_part;
      const std::size_t of_chunk = depth_ * (multiplied_ - in_part) + in_part;
      products_.values(storage_.values + of_chunk * amx_elements, part_groups * amx_elements, depth_,
                       storage_.ones, group_weights(multiplied_), groups, !has_values_, storage_.out, weigher_);
      has_values_ = true;
      multiplied_ += groups;
    }
  }

  // Excluded keys of block b become -inf. Moves the references; earlier blocks are settled.
  void make_scores(std::size_t b) {
    find_scores(b);
    if (!move_references()) return;
    multiply_values(2 * b);
    products_.flush();
    if (has_values_) rescale();
  }
  // Leaves the largest of each row in largest_.
  void find_scores(std::size_t b) {
    float *const scores = block_scores(b);
    const std::size_t first = begin_ + b * block;
    const batch none(-std::numeric_limits<float>::infinity());
    state_.scores.use(scores);
    for (std::size_t r = 0; r < vectors * S::width; r += S::width) {
      float *const column = scores + r;
      AttentionTile::Range any{0, 0};
      batch max = none;
      if (r < rows_.lanes) {
        any = within_block(rows_.vector_range(r).any, first);
        if (any.first < any.end) max = make_scores_of(r, first, any, column);
        state_.some_excluded = state_.some_excluded || o_.mask || o_.bias || any.first > 0 || any.end < block;
      }
      for (std::size_t j = 0; j < block; ++j) {
        if (j < any.first || j >= any.end) S::store(column + j * pitch, none);
      }
      S::store(largest_ + r, max);
    }
  }
  batch make_scores_of(std::size_t r, std::size_t first, AttentionTile::Range any, const float *column) {
    const AttentionTile::Range all = within_block(rows_.vector_range(r).all, first);
    const bool masked = o_.mask && state_.scores.load_mask(r, first, any.first, any.end);
    if (rows_.made || masked) return state_.scores.make(r, first, any.first, any.end, masked);
    if (all.first > any.first || all.end < any.end) {
      state_.some_excluded = true;
      return state_.scores.exclude(r, first, any, all);
    }
    batch max[4];
    for (batch &largest : max) largest = batch(-std::numeric_limits<float>::infinity());
    std::size_t j = any.first;
    for (; any.end - j >= 4; j += 4) {
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        max[i] = S::max_number(S::load(column + (j + i) * pitch), max[i]);
      });
    }
    for (; j < any.end; ++j) max[0] = S::max_number(S::load(column + j * pitch), max[0]);
    return S::max(S::max(max[0], max[1]), S::max(max[2], max[3]));
  }

  // Moves the references to the largest scores where it is due; true if results so far are to be rescaled.
  bool move_references() {
    bool any_rescaled = false;
    const batch zero(0.0f), none(-std::numeric_limits<float>::infinity());
    auto far = S::less(zero, zero), without = far;
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      any_rescaled |= rows_.take_max_by_groups(sums_, r, S::load(largest_ + r));
      far = S::either(far, S::negate(S::equal(S::load(sums_.base + r), zero)));
      without = S::either(without, S::equal(S::load(sums_.max + r), none));
    }
    some_far_ = S::any(far);
    all_have_reference_ = !S::any(without);
    for (std::size_t r = rows_.lanes; r < vectors * S::width; ++r) sums_.offset[r] = sums_.offset[rows_.rows - 1];
    return any_rescaled;
  }

  void rescale() {
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      const batch factor = S::load(rows_.rescale + r);
      const auto times = [&](std::size_t d) {
        float *const value = storage_.out + d * pitch + r;
        S::store(value, S::load(value) * factor);
      };
      for (std::size_t d = 0; d < o_.v_dim; ++d) times(d);
      times(depth_ * amx_rows);
    }
  }

  // Weights of any size or NaN, and of scores far from 0.
  [[gnu::noinline]] void weigh_exactly(std::size_t b) {
    float *const scores = block_scores(b);
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      tile_weights_of_16_bits(scores + r, 0, block, S::load(sums_.base + r), S::load(sums_.offset + r),
                              rows_.to_log2_by_groups(r));
    }
    for (std::size_t r = 0; r < vectors * S::width; r += S::width) {
      for (std::size_t j = 0; j < block; j += 2) {
        const float *const at = scores + j * pitch + r;
        const __m512i even = _mm512_castps_si512(_mm512_loadu_ps(at)),
                      odd = _mm512_castps_si512(_mm512_loadu_ps(at + pitch));
        rapt::BF16 *const to =
            group_weights(2 * b + j / amx_group) + r / S::width * amx_elements + j % amx_group * amx_rows;
        _mm512_storeu_si512(to, _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(even, 16), odd));
      }
    }
  }

  TileState &state_;
  TileRows<float> &rows_;
  RowSums<float> &sums_;
  const rapt_attention_options &o_;
  const ChunkStorage &storage_;
  UnitProducts<vectors, pairs> products_;
  Weigher<vectors> weigher_;
  std::size_t begin_, steps_, depth_;
  std::size_t settled_ = 0;     // blocks before this one have their weights
  std::size_t multiplied_ = 0;  // groups before this one are in the outputs
  AttentionTile::Range seen_by_all_{};
  bool all_have_reference_ = false, some_far_ = false, has_values_ = false;
  bool plain_[rapt::attention_chunk / block] = {};
  alignas(64) float largest_[rapt::attention_tile_rows];
};

}  // namespace
