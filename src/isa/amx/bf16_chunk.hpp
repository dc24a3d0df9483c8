// Computes one chunk of keys for the rows of one tile: scores, weights, references and values.
//
// The keys and values of the chunk are already packed. A patch is the part that AMX multiplies at a time
// (isa/amx/patch_products.hpp). A strip is the rows of a patch. A step computes the scores and weights of one
// strip and one block of keys. The products of a step are interleaved with the weights of the previous step.
// Values are multiplied once per chunk, and also before a reference of their strip moves
// (contract/bf16_arithmetic.hpp).
//
// The largest scores of a step decide whether its references move, so they are usually found before its
// weights are computed. In a strip whose references do not move, that search would cost 5 to 8 %. The weights
// of such a strip are computed without a search. If one of these weights reaches 2 or is NaN, the search is
// made and the weights are computed again.
//
// Variants that lost, 2048 rows and keys of 128 dimensions                   | time
// room for scores of three steps, so that no search waits for products       | + 5 %
// both strips of a block before the next block, values every 256 keys        | + 2 %
// values fetched into L1 while those before them are multiplied              | + 10 %
// the chunk's outputs added to the tile's between the products of values     | + 2 %
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <limits>

#include "isa/amx/batch_tile.hpp"
#include "isa/amx/bf16_operands.hpp"
#include "isa/amx/patch_products.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/attention/bf16_rule.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/tile_scores.hpp"
#include "kernels/attention/tile_weights.hpp"

namespace {

// Holds the memory for computing one chunk. All tiles of a batch share this memory.
struct Bf16Storage {
  KeyTiles keys;
  rapt::BF16 *packed_keys;  // [16 keys][32 dimensions]
  rapt::BF16 *values;       // [16 dimensions][32 keys]
  rapt::BF16 *weights;      // of one strip: [32 keys][vector of rows]
  rapt::BF16 *ones;         // a row of ones, whose products with the weights are the sums of weights
  float *scores;            // the scores of two steps
  float *out;               // [dimension][row]; the sums of weights follow the last group of 16 dimensions
};

inline constexpr std::size_t chunk_k32s = rapt::attention_chunk / amx_k32;

// Holds a tile of a batch in bf16 arithmetic.
struct Bf16Tile : BatchTile<Bf16Rule> {
  const rapt::BF16 *queries = nullptr;
  bool moves[2] = {};  // for each half of the rows: whether a reference moved in the previous chunk
  alignas(64) float to_log2[rapt::attention_tile_rows];  // of rule; rows past the last repeat its value

  using BatchTile<Bf16Rule>::BatchTile;
};

template <std::size_t vectors>
class Bf16Chunk {
 public:
  using S = simd<float>;
  using batch = S::batch;
  using Products = PatchProducts<vectors>;
  static constexpr std::size_t block = rapt::attention_block, pitch = tile_pitch;

  Bf16Chunk(Bf16Tile &state, const Bf16Storage &storage, std::size_t begin)
      : state_(state),
        rows_(state.rows),
        rule_(state.rule),
        sums_(state.sums_of_chunk),
        o_(state.tile.options()),
        storage_(storage),
        begin_(begin),
        steps_((o_.qk_dim + amx_k32 - 1) / amx_k32),
        depth_((o_.v_dim + amx_k32 - 1) / amx_k32 * 2),
        strips_((rows_.lanes + strip_rows - 1) / strip_rows) {
    for (std::size_t r = 0; r < rows_.lanes; r += S::width) {
      Strip &strip = strip_[r / strip_rows];
      const TileRows<float>::VectorRange &seen = rows_.vector_range(r);
      if (seen.all.end < strip.seen_by_all) strip.seen_by_all = seen.all.end;
      if (seen.any.end > strip.seen_by_any) strip.seen_by_any = seen.any.end;
    }
  }

  // Computes the blocks [first, end) of the chunk. Block 0 begins with the key `begin`.
  void run(std::size_t first, std::size_t end) {
    sums_.clear();
    first_ = first;
    next_ = {first, 0, 0};
    for (Strip &strip : strip_) {
      strip.first_k32 = k32s * first;
      strip.end_k32 = k32s_before(strip.seen_by_any, k32s * first + 1, k32s * end);
    }
    for (Step step = next_; step.strip < strips_; step = after(step)) {
      finish(step);
      if (ends_strip(step)) multiply_values(strip_[step.strip].end_k32, step.strip);
    }
    products_.flush();
    for (std::size_t strip = 0; strip < strips_; ++strip) state_.moves[strip] = strip_[strip].has_moved;
  }

 private:
  static constexpr std::size_t strip_rows = 16 * Products::wide, most_strips = vectors / Products::wide;
  static constexpr std::size_t k32s = block / amx_k32;  // groups of 32 keys in a block, one per patch
  static constexpr std::size_t slots = 2;  // room for the scores of two steps: the present one and the next

  struct Step {
    std::size_t block, strip, index;
  };
  // Steps are run strip by strip, so that only one strip's weights occupy L1.
  Step after(const Step &step) const {
    if (ends_strip(step)) return {first_, step.strip + 1, step.index + 1};
    return {step.block + 1, step.strip, step.index + 1};
  }
  bool ends_strip(const Step &step) const { return k32s * (step.block + 1) >= strip_[step.strip].end_k32; }
  // Returns the number of groups of 32 keys in this step's block that any row of the strip may see. Each
  // group is one patch.
  std::size_t k32s_of(const Step &step) const {
    const std::size_t left = strip_[step.strip].end_k32 - k32s * step.block;
    return left < k32s ? left : k32s;
  }
  // Returns the number of groups of 32 keys from the chunk's first key to `key`, but at least `least` and at
  // most `most`.
  std::size_t k32s_before(std::size_t key, std::size_t least, std::size_t most) const {
    const std::size_t count = key < begin_ ? 0 : (key - begin_ + amx_k32 - 1) / amx_k32;
    return count < least ? least : count < most ? count : most;
  }
  struct Strip {
    // The groups of 32 keys from first_k32 on are not yet added to the output. The groups that any row sees
    // end at end_k32.
    std::size_t first_k32 = 0, end_k32 = 0;
    // The keys that all rows see end at seen_by_all, and the keys that any row sees end at seen_by_any.
    std::size_t seen_by_all = ~std::size_t{0}, seen_by_any = 0;
    bool has_values = false, rescales = false, has_moved = false;
    bool is_near = false;  // all rows have references, and z is score * to_log2 + offset
  };

  // Returns whether no reference is expected to move, so that the weights can be computed first. All rows
  // must see all keys of the block. The test checks only where their keys end, because a row with a reference
  // has seen an earlier key.
  bool expects_no_move(const Step &step) const {
    const Strip &strip = strip_[step.strip];
    return strip.is_near && !strip.has_moved && !state_.moves[step.strip] && !rows_.has_formula && !o_.mask &&
           begin_ + (step.block + 1) * block <= strip.seen_by_all &&
           state_.tile.missing(begin_ + step.block * block, block) == 0;
  }
  void finish(const Step &step) {
    while (next_.index <= step.index) {
      const PatchToMake patch = next_patch();
      products_.scores(patch.keys, patch.queries, steps_, patch.to);
    }
    if (next_.index == step.index + 1 && next_half_ == 0) products_.flush();
    const bool guesses = expects_no_move(step);
    if (!guesses) make_scores(step);
    if (weigh_step(step)) [[likely]]
      return;
    if (guesses) {
      make_scores(step);
      if (weigh_step(step)) return;
    }
    weigh_exactly(step);
  }

  // Returns where the scores of the tile's row 0 would be. A slot has room for the rows of one strip.
  float *step_scores(const Step &step) const {
    return storage_.scores + step.index % slots * strip_rows - step.strip * strip_rows;
  }
  rapt::BF16 *k32_weights(std::size_t k32) const {
    return storage_.weights + k32 * Products::wide * amx_elements;
  }

  struct PatchToMake {
    KeyTiles keys;
    const rapt::BF16 *queries;
    float *to;
  };
  PatchToMake next_patch() {
    const std::size_t key = next_half_ * patch_keys;
    const PatchToMake patch{storage_.keys.from(next_.block * block + key),
                            state_.queries + next_.strip * Products::wide * amx_elements,
                            step_scores(next_) + key * pitch + next_.strip * strip_rows};
    if (++next_half_ == k32s_of(next_)) {
      next_half_ = 0;
      next_ = after(next_);
    }
    return patch;
  }

  // Computes the weights of a patch. If there is a next patch and a slot for its scores, multiplies the next
  // patch meanwhile.
  void weigh(const Step &step, std::size_t half) {
    const std::size_t row = step.strip * strip_rows;
    const PatchWeights weights{step_scores(step) + half * patch_keys * pitch + row,
                               k32_weights(k32s * step.block + half), state_.to_log2 + row,
                               sums_.offset + row};
    if (next_.strip >= strips_ || next_.index >= step.index + slots) return products_.weights(weights);
    const PatchToMake next = next_patch();
    if (steps_ >= 4) {
      products_.template scores_and_weights<2>(next.keys, next.queries, steps_, next.to, weights);
    } else if (steps_ >= 2) {
      products_.template scores_and_weights<4>(next.keys, next.queries, steps_, next.to, weights);
    } else {
      products_.template scores_and_weights<8>(next.keys, next.queries, steps_, next.to, weights);
    }
  }
  // Returns false if the step needs weigh_exactly(), or if its references must move first.
  bool weigh_step(const Step &step) {
    if (!strip_[step.strip].is_near) return false;
    products_.clear();
    for (std::size_t half = 0; half < k32s_of(step); ++half) weigh(step, half);
    return products_.all_small();
  }

  // Adds weighted values to the rows of a strip, from the first group of 32 keys that is not yet added, up to
  // group `end`.
  void multiply_values(std::size_t end, std::size_t number) {
    Strip &strip = strip_[number];
    const std::size_t first = strip.first_k32, count = end - first;
    if (count == 0) return;
    products_.values(storage_.values + first * amx_elements, chunk_k32s * amx_elements, depth_, storage_.ones,
                     k32_weights(first), count, !strip.has_values,
                     strip.rescales ? factors_ + number * strip_rows : nullptr,
                     storage_.out + number * strip_rows);
    strip.has_values = true;
    strip.rescales = false;
    strip.first_k32 = end;
  }

  // Completes the scores of a step: excluded keys become -inf. Then moves the references if needed.
  void make_scores(const Step &step) {
    Strip &strip = strip_[step.strip];
    find_scores(step);
    if (strip.is_near && stay(step.strip)) [[likely]]
      return;
    if (!move_references(step.strip)) return;
    multiply_values(k32s * step.block, step.strip);
    strip.has_moved = true;
    strip.rescales = strip.has_values;
    for (std::size_t r = step.strip * strip_rows; r < (step.strip + 1) * strip_rows; r += S::width) {
      S::store(factors_ + r, r < rows_.lanes ? S::load(rule_.rescale + r) : batch(1.0f));
    }
  }
  // Completes the scores of a step, and stores the largest score of each row to largest_.
  void find_scores(const Step &step) {
    float *const scores = step_scores(step);
    const std::size_t first = begin_ + step.block * block, from = step.strip * strip_rows;
    const batch none(-std::numeric_limits<float>::infinity());
    state_.scores.use(scores);
    for (std::size_t r = from; r < from + strip_rows; r += S::width) {
      float *const column = scores + r;
      SeenKeys seen{};
      batch max = none;
      if (r < rows_.lanes) {
        seen = rows_.seen_of_block(first, r);
        const auto score = [&](std::size_t j) { return S::load(column + j * pitch); };
        if (seen.any.end > 0) {
          max = state_.scores.complete(r, first, seen, seen.excludes_some_of(seen.any),
                                       [&] { return largest_score<float>(seen.any, score); });
        }
        state_.some_excluded =
            state_.some_excluded || o_.mask || o_.bias || seen.excludes_some_of({0, block});
      }
      for (std::size_t j = 0; j < seen.any.first; ++j) S::store(column + j * pitch, none);
      for (std::size_t j = seen.any.end; j < block; ++j) S::store(column + j * pitch, none);
      S::store(largest_ + r, max);
    }
  }

  // Returns whether no reference of the strip has to move. The strip must be near (Strip::is_near).
  bool stay(std::size_t strip) const {
    bool any = false;
    for (std::size_t r = strip * strip_rows; r < (strip + 1) * strip_rows && r < rows_.lanes; r += S::width) {
      const batch z = S::fma(S::load(largest_ + r), S::load(state_.to_log2 + r), S::load(sums_.offset + r));
      any |= S::any(S::negate(S::less(z, batch(rapt::Bf16Contract::move_from))));
    }
    return !any;
  }
  // Moves those references that have to move to the largest scores. Returns whether earlier results must be
  // rescaled.
  bool move_references(std::size_t strip) {
    bool any_rescaled = false;
    const batch zero(0.0f), none(-std::numeric_limits<float>::infinity());
    auto not_near = S::less(zero, zero);
    const std::size_t end = (strip + 1) * strip_rows;
    for (std::size_t r = strip * strip_rows; r < end && r < rows_.lanes; r += S::width) {
      any_rescaled |= rule_.update_max(sums_, r, S::load(largest_ + r));
      not_near = S::either(not_near, S::negate(S::equal(S::load(sums_.base + r), zero)));
      not_near = S::either(not_near, S::equal(S::load(sums_.max + r), none));
    }
    strip_[strip].is_near = !S::any(not_near);
    for (std::size_t r = rows_.lanes; r < end; ++r) sums_.offset[r] = sums_.offset[rows_.rows - 1];
    return any_rescaled;
  }

  // Computes the weights of a step by the general method. Scores and weights may be of any size, or NaN.
  [[gnu::noinline, gnu::flatten]] void weigh_exactly(const Step &step) {
    float *const scores = step_scores(step);
    const std::size_t from = step.strip * strip_rows, end = from + strip_rows;
    for (std::size_t r = from; r < end && r < rows_.lanes; r += S::width) {
      tile_weights_of_16_bits(scores + r, 0, block, S::load(sums_.base + r), S::load(sums_.offset + r),
                              S::load(rows_.to_log2 + r));
    }
    for (std::size_t r = from; r < end; r += S::width) {
      for (std::size_t j = 0; j < block; j += 2) {
        const float *const at = scores + j * pitch + r;
        const __m512i even = _mm512_castps_si512(_mm512_loadu_ps(at)),
                      odd = _mm512_castps_si512(_mm512_loadu_ps(at + pitch));
        rapt::BF16 *const to = k32_weights(k32s * step.block + j / amx_k32) +
                               (r - from) / S::width * amx_elements + j % amx_k32 * amx_rows;
        _mm512_storeu_si512(to, _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(even, 16), odd));
      }
    }
  }

  Bf16Tile &state_;
  const TileRows<float> &rows_;
  Bf16Rule &rule_;
  Bf16Rule::Sums &sums_;
  const rapt_attention_options &o_;
  const Bf16Storage &storage_;
  std::size_t begin_, steps_, depth_, strips_;
  Products products_;
  std::size_t first_ = 0;  // the first block
  Step next_{};            // the step of the next products, which begin with its patch next_half_
  std::size_t next_half_ = 0;
  Strip strip_[most_strips];
  alignas(64) float largest_[rapt::attention_tile_rows], factors_[rapt::attention_tile_rows];
};

}  // namespace
