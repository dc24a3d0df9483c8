// A chunk of keys and the rows of a tile: scores, weights, references and values.
//
// The keys and values of the chunk are packed already. Scores are made in units, and weights follow two
// units behind (isa/amx/unit_products.hpp). Values are multiplied once for 256 keys.
//
// A block is plain if all rows see all its keys, have a reference already and need no other scores than dot
// products. Its scores go through a ring of the units of one block, and its weights are computed as if no
// reference moved. If a weight reaches 2 or is NaN, the block is computed again as one that is not plain: all
// its scores first, then the largest of each row.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <limits>

#include "isa/amx/operands.hpp"
#include "isa/amx/unit_products.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/attention/block.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/tile_scores.hpp"
#include "kernels/attention/tile_weights.hpp"

namespace {

// Where a chunk is computed, shared by all tiles.
struct ChunkStorage {
  KeyTiles keys;
  rapt::BF16 *packed_keys;  // [16 keys][group of dimensions]
  rapt::BF16 *values;       // [part][16 dimensions][group]
  rapt::BF16 *weights;      // of a part: [group][vector of rows]
  rapt::BF16 *ones;         // a row
  float *plain_block;       // scores
  float *blocks[2];         // of blocks that are not plain
  float *out;               // [dimension][row], and the sums after the last multiple of 16 dimensions
};

inline constexpr std::size_t chunk_part_keys = 256, part_groups = chunk_part_keys / amx_group;

// A tile and its results.
struct TileState {
  AttentionTile tile;
  TileRows<float> rows;
  TileScores<float> scores;
  RowSums<float> total, sums;
  const rapt::BF16 *queries;
  float *total_values;
  bool has_keys = false;  // total has a chunk
  bool moves = false;     // a reference moved in the chunk before
  bool some_excluded = false;
  alignas(64) float to_log2[rapt::attention_tile_rows];  // as of TileRows, and as many rows as tiles have

  TileState(const rapt::AttentionCall &call, std::size_t index)
      : tile(call, index), rows(tile), scores(tile, rows, nullptr) {
    total.clear();
  }
};

template <std::size_t vectors>
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
        begin_(begin),
        steps_((o_.qk_dim + amx_group - 1) / amx_group),
        depth_((o_.v_dim + amx_group - 1) / amx_group * 2) {}

  // Takes in the blocks [first, end) of the chunk, which lie at multiples of 64 keys from `begin`.
  void run(std::size_t first, std::size_t end) {
    sums_.clear();
    end_ = end;
    next_unit_ = units * first;
    begin_part(2 * first % part_groups);
    find_plain_keys();
    for (std::size_t b = first; b < end; ++b) {
      const bool plain = is_plain(b);
      if (plain != plain_[b]) next_unit_ = units * b;  // units that have been made lie elsewhere
      plain_[b] = plain;
      if (plain) {
        take_plain_block(b);
      } else {
        take_other_block(b);
      }
      group_ += 2;
      if (group_ == part_groups || b + 1 == end) {
        for (std::size_t pair = 0; pair < pairs; ++pair) multiply_values(b + 1, pair);
        begin_part(0);
      }
    }
    products_.flush();
    state_.moves = has_moved_;
  }

 private:
  void find_plain_keys() {
    seen_by_all_ = ~std::size_t{0};
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      const std::size_t end = rows_.vector_range(r).all.end;
      if (end < seen_by_all_) seen_by_all_ = end;
    }
  }
  // A row that has a reference has seen a key before this block.
  bool is_plain(std::size_t b) const {
    return all_have_reference_ && !some_far_ && !rows_.made && !o_.mask && !state_.moves && !has_moved_ &&
           begin_ + (b + 1) * block <= seen_by_all_;
  }

  // A unit is that many in its block, keys first and then rows.
  static constexpr std::size_t units = UnitProducts<vectors>::units_of_block,
                               rows_of_unit = 16 * UnitProducts<vectors>::wide,
                               pairs = vectors / UnitProducts<vectors>::wide;
  static std::size_t row_of(std::size_t unit) { return unit % (units / 2) * rows_of_unit; }
  static std::size_t key_of(std::size_t unit) { return unit % units / (units / 2) * unit_keys; }

  float *unit_scores(std::size_t unit) const {
    const std::size_t b = unit / units;
    return (plain_[b] ? storage_.plain_block : storage_.blocks[b % 2]) + key_of(unit) * pitch + row_of(unit);
  }
  KeyTiles unit_keys_at(std::size_t unit) const {
    return storage_.keys.from(unit / units * block + key_of(unit));
  }
  const rapt::BF16 *unit_queries(std::size_t unit) const {
    return state_.queries + row_of(unit) / amx_rows * amx_elements;
  }
  rapt::BF16 *group_weights(std::size_t group) const {
    return storage_.weights + group * vectors * amx_elements;
  }

  void multiply_next_unit() {
    products_.scores(unit_keys_at(next_unit_), unit_queries(next_unit_), steps_, unit_scores(next_unit_));
    ++next_unit_;
  }

  // Whether the next unit can be multiplied beside the weights of `unit`.
  bool runs_ahead(std::size_t unit) {
    if (next_unit_ >= units * end_) return false;
    const std::size_t b = unit / units, next = next_unit_ / units;
    if (next > b + 1) return false;
    if (next == b + 1 && next_unit_ % units == 0) plain_[next] = is_plain(next);
    return !plain_[next] || next_unit_ <= unit + 2;
  }

  // The weights of a unit, beside the products of the next one if there is one.
  void weigh(std::size_t unit) {
    float *const scores = unit_scores(unit);
    const std::size_t row = row_of(unit);
    const UnitWeights weights{
        scores, group_weights(group_ + key_of(unit) / amx_group) + row / amx_rows * amx_elements,
        state_.to_log2 + row, sums_.offset + row};
    const bool more = runs_ahead(unit);
    if (!more || products_.awaits(scores)) {
      products_.flush();
    }
    if (!more) return products_.weights(weights);
    const KeyTiles keys = unit_keys_at(next_unit_);
    const rapt::BF16 *const queries = unit_queries(next_unit_);
    float *const to = unit_scores(next_unit_++);
    if (steps_ >= 4) {
      products_.template scores_and_weights<2>(keys, queries, steps_, to, weights);
    } else if (steps_ >= 2) {
      products_.template scores_and_weights<4>(keys, queries, steps_, to, weights);
    } else {
      products_.template scores_and_weights<8>(keys, queries, steps_, to, weights);
    }
  }

  void take_plain_block(std::size_t b) {
    products_.clear();
    for (std::size_t unit = units * b; unit < units * (b + 1); ++unit) {
      while (next_unit_ <= unit) multiply_next_unit();
      weigh(unit);
    }
    if (products_.all_small()) [[likely]]
      return;
    plain_[b] = false;
    for (std::size_t unit = units * b; unit < units * (b + 1); ++unit) {
      products_.scores(unit_keys_at(unit), unit_queries(unit), steps_, unit_scores(unit));
    }
    make_scores(b);
    weigh_block(b);
  }

  void take_other_block(std::size_t b) {
    while (next_unit_ < units * (b + 1)) multiply_next_unit();
    make_scores(b);
    weigh_block(b);
  }
  void weigh_block(std::size_t b) {
    if (!some_far_) {
      products_.clear();
      for (std::size_t unit = units * b; unit < units * (b + 1); ++unit) weigh(unit);
      if (products_.all_small()) [[likely]]
        return;
    }
    weigh_exactly(b);
  }

  void begin_part(std::size_t group) {
    group_ = group;
    for (std::size_t &first : first_group_) first = group;
  }
  // Adds the weighted values of the groups before block `b`, down to the first one of which this was not
  // done, to the rows of a pair of vectors.
  void multiply_values(std::size_t b, std::size_t pair) {
    const std::size_t from = first_group_[pair], count = group_ - from;
    if (count == 0) return;
    const std::size_t group = 2 * b - count;
    const std::size_t of_part = depth_ * (group / part_groups) * part_groups + group % part_groups;
    const std::size_t vector = pair * UnitProducts<vectors>::wide;
    products_.values(storage_.values + of_part * amx_elements, part_groups * amx_elements, depth_,
                     storage_.ones, storage_.weights + (from * vectors + vector) * amx_elements, count,
                     !has_values_[pair], storage_.out + vector * amx_rows);
    has_values_[pair] = true;
    first_group_[pair] = group_;
  }

  // Scores of block b in storage_.blocks[b % 2], where excluded keys become -inf. Moves the references.
  void make_scores(std::size_t b) {
    products_.flush();
    find_scores(b);
    bool moved[vectors];
    if (!move_references(moved)) return;
    has_moved_ = true;
    for (std::size_t v = 0; v < vectors; ++v) {
      if (moved[v]) multiply_values(b, v / UnitProducts<vectors>::wide);
    }
    products_.flush();
    for (std::size_t v = 0; v < vectors; ++v) {
      if (moved[v]) rescale(v * S::width);
    }
  }
  // Leaves the largest of each row in largest_.
  void find_scores(std::size_t b) {
    float *const block_scores = storage_.blocks[b % 2];
    const std::size_t first = begin_ + b * block;
    const batch none(-std::numeric_limits<float>::infinity());
    state_.scores.use(block_scores);
    for (std::size_t r = 0; r < vectors * S::width; r += S::width) {
      float *const column = block_scores + r;
      AttentionTile::Range any{0, 0};
      batch max = none;
      if (r < rows_.lanes) {
        any = within_block(rows_.vector_range(r).any, first);
        if (any.first >= any.end) any = {0, 0};
        if (any.end > 0) max = make_scores_of(r, first, any, column);
        state_.some_excluded = state_.some_excluded || o_.mask || o_.bias || any.first > 0 || any.end < block;
      }
      for (std::size_t j = 0; j < any.first; ++j) S::store(column + j * pitch, none);
      for (std::size_t j = any.end; j < block; ++j) S::store(column + j * pitch, none);
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

  // Moves the references to the largest scores where it is due; true if results so far are to be rescaled,
  // those of the vectors in `moved`.
  bool move_references(bool (&moved)[vectors]) {
    bool any_rescaled = false;
    const batch zero(0.0f), none(-std::numeric_limits<float>::infinity());
    auto far = S::less(zero, zero), without = far;
    for (bool &of_vector : moved) of_vector = false;
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      moved[r / S::width] = rows_.take_max_by_groups(sums_, r, S::load(largest_ + r));
      any_rescaled |= moved[r / S::width];
      far = S::either(far, S::negate(S::equal(S::load(sums_.base + r), zero)));
      without = S::either(without, S::equal(S::load(sums_.max + r), none));
    }
    some_far_ = S::any(far);
    all_have_reference_ = !S::any(without);
    for (std::size_t r = rows_.lanes; r < vectors * S::width; ++r)
      sums_.offset[r] = sums_.offset[rows_.rows - 1];
    return any_rescaled;
  }

  void rescale(std::size_t r) {
    const std::size_t pair = r / rows_of_unit;
    if (!has_values_[pair]) return;
    const batch factor = S::load(rows_.rescale + r);
    const auto times = [&](std::size_t d) {
      float *const value = storage_.out + d * pitch + r;
      S::store(value, S::load(value) * factor);
    };
    for (std::size_t d = 0; d < o_.v_dim; ++d) times(d);
    times(depth_ * amx_rows);
  }

  // Weights of any size or NaN, and of scores far from 0.
  [[gnu::noinline]] void weigh_exactly(std::size_t b) {
    float *const block_scores = storage_.blocks[b % 2];
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      tile_weights_of_16_bits(block_scores + r, 0, block, S::load(sums_.base + r), S::load(sums_.offset + r),
                              rows_.to_log2_by_groups(r));
    }
    for (std::size_t r = 0; r < vectors * S::width; r += S::width) {
      for (std::size_t j = 0; j < block; j += 2) {
        const float *const at = block_scores + j * pitch + r;
        const __m512i even = _mm512_castps_si512(_mm512_loadu_ps(at)),
                      odd = _mm512_castps_si512(_mm512_loadu_ps(at + pitch));
        rapt::BF16 *const to =
            group_weights(group_ + j / amx_group) + r / S::width * amx_elements + j % amx_group * amx_rows;
        _mm512_storeu_si512(to, _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(even, 16), odd));
      }
    }
  }

  TileState &state_;
  TileRows<float> &rows_;
  RowSums<float> &sums_;
  const rapt_attention_options &o_;
  const ChunkStorage &storage_;
  std::size_t begin_, end_ = 0, steps_, depth_;
  UnitProducts<vectors> products_;
  std::size_t next_unit_ = 0;  // of scores to multiply
  // Of the part: where the next weights go, and the first not multiplied.
  std::size_t group_ = 0, first_group_[pairs];
  std::size_t seen_by_all_ = 0;  // the end of these keys
  bool all_have_reference_ = false, some_far_ = false, has_moved_ = false;
  bool has_values_[pairs] = {};
  bool plain_[rapt::attention_chunk / block] = {};
  alignas(64) float largest_[rapt::attention_tile_rows];
};

}  // namespace
