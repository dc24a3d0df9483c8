// Computes one chunk of int8 keys and values for the rows of one tile. A patch is one block of 64 keys and 16
// rows.
//
// AMX multiplies the queries and keys of a patch, and later its weights and values. Between these products,
// vector instructions compute scores, weights and 8-bit digits of weights, with rows in the lanes. A patch is
// plain if all 16 rows see all its keys, and no mask or formula changes the dot products. If a plain patch
// has a single scale group of values, and all scales are finite, one pass computes both the weights and w *
// v_scale (contract/int8_attention.hpp).
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "isa/amx/batch_tile.hpp"
#include "isa/amx/digit_products.hpp"
#include "isa/amx/int8_operands.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/attention/plain_rule.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/tile_scores.hpp"
#include "kernels/attention/tile_weights.hpp"
#include "kernels/attention/weight.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Holds the memory for computing one chunk. All tiles of a batch share this memory.
struct Int8Storage {
  KeyBytes keys;
  std::int8_t *packed_keys, *values;  // values: [block][16 dimensions]
  float *k_scales, *v_scales;         // [scale group][key]
  std::int32_t *score_sums[2], *value_sums;
  std::int8_t *digits[2];  // [scale group][high, low]
  float *scores;           // scores of patches that are not plain, in the layout of TileScores
  float *weights;          // [key][row]
  float *out;              // [vector of rows][dimension][row]
  // has_finite_scales[b] says whether all scales of block b's values are finite.
  bool has_finite_scales[rapt::attention_chunk / rapt::attention_block];
};

// Holds a tile of a batch over int8 keys and values.
struct Int8Tile : BatchTile<PlainRule<float>> {
  const std::int8_t *queries = nullptr;
  const float *query_steps = nullptr;  // [scale group][row]

  using BatchTile<PlainRule<float>>::BatchTile;
};

class Int8Chunk {
 public:
  using S = simd<float>;
  using batch = S::batch;
  using Sizes = rapt::Int8BatchSizes;
  static constexpr std::size_t block = rapt::attention_block, lanes = S::width;

  Int8Chunk(Int8Tile &state, const Int8Storage &storage, const Sizes &sizes, const QuerySegments &segments,
            std::size_t begin)
      : state_(state),
        rows_(state.rows),
        rule_(state.rule),
        sums_(state.sums_of_chunk),
        o_(state.tile.options()),
        storage_(storage),
        sizes_(sizes),
        segments_(segments),
        v_group_(rapt::scale_group_of(o_, o_.v_dim)),
        begin_(begin) {}

  // Computes the blocks [first, end) of the chunk. Block 0 begins with the key `begin`.
  void run(std::size_t first, std::size_t end) {
    sums_.clear();
    first_ = first;
    end_ = end;
    Patch next = first_patch(0), before{};
    bool more = next.r < rows_.lanes, has_before = false;
    if (more) multiply_scores(next);
    while (more) {
      const Patch now = next;
      products_.flush();
      next = after(now);
      more = next.r < rows_.lanes;
      if (has_before) multiply_values(before);
      if (more) {
        multiply_scores(next);
      } else {
        products_.flush();
      }
      weigh(now);
      if (has_before) add_values(before);
      before = now;
      has_before = true;
    }
    if (has_before) {
      multiply_values(before);
      products_.flush();
      add_values(before);
    }
  }

 private:
  // A patch is block b and the 16 rows from r on. `parity` alternates, so that two patches in progress use
  // different buffers.
  struct Patch {
    std::size_t r, b, parity;
    bool is_first;
  };

  AttentionTile::Range blocks_of(std::size_t r) const {
    const AttentionTile::Range any = rows_.vector_range(r).any;
    if (any.first >= any.end || any.end <= begin_) return {0, 0};
    const std::size_t from = any.first < begin_ ? 0 : (any.first - begin_) / block,
                      to = (any.end - begin_ + block - 1) / block;
    return {from < first_ ? first_ : from, to < end_ ? to : end_};
  }
  // Returns the first patch of the rows from r on that see a block. Skipped rows, which see no block, get
  // outputs of 0.
  Patch first_patch(std::size_t r, std::size_t parity = 0) const {
    for (; r < rows_.lanes; r += lanes) {
      const AttentionTile::Range blocks = blocks_of(r);
      if (blocks.first < blocks.end) return {r, blocks.first, parity, true};
      for (std::size_t d = 0; d < sizes_.v_tiles * amx_rows; ++d)
        S::store(out_of(r) + d * lanes, batch(0.0f));
    }
    return {r, 0, 0, false};
  }
  Patch after(const Patch &patch) const {
    if (patch.b + 1 < blocks_of(patch.r).end) return {patch.r, patch.b + 1, 1 - patch.parity, false};
    return first_patch(patch.r + lanes, 1 - patch.parity);
  }

  float *out_of(std::size_t r) const { return storage_.out + r * sizes_.v_tiles * amx_rows; }

  void multiply_scores(const Patch &patch) {
    KeyBytes keys = storage_.keys;
    keys.first += patch.b * (block / amx_rows) * keys.pitch;
    const std::int8_t *const queries = state_.queries + patch.r / lanes * sizes_.query_tiles * tile_bytes;
    std::int32_t *sums = storage_.score_sums[patch.parity];
    for (std::size_t s = 0; s < segments_.count; ++s, sums += 4 * sums_of_tile) {
      const QuerySegment &segment = segments_.at[s];
      KeyBytes of_segment = keys;
      of_segment.first += segment.step * keys.step;
      products_.scores(of_segment, queries + segment.tile * tile_bytes, segment.steps, sums);
    }
  }
  void multiply_values(const Patch &patch) {
    const std::int8_t *values = storage_.values + patch.b * sizes_.v_tiles * tile_bytes;
    const std::size_t tiles = sizes_.v_tiles / sizes_.v_groups;
    std::int32_t *sums = storage_.value_sums;
    for (std::size_t g = 0; g < sizes_.v_groups; ++g) {
      products_.values(values, storage_.digits[patch.parity] + g * 2 * tile_bytes, tiles, sums);
      values += tiles * tile_bytes;
      sums += tiles * sums_of_tile;
    }
  }

  void weigh(const Patch &patch) {
    const std::size_t first = begin_ + patch.b * block, r = patch.r;
    const SeenKeys seen = rows_.seen_of_block(first, r);
    const bool bounded = seen.excludes_some_of({0, block});
    const bool plain = !bounded && !rows_.has_formula && !o_.mask && state_.tile.missing(first, block) == 0;
    batch max = plain ? make_scores(patch, storage_.weights, lanes)
                      : make_scores(patch, storage_.scores + r, tile_pitch);
    if (!plain) {
      state_.scores.use(storage_.scores);
      max = state_.scores.complete(r, first, seen, bounded, [&] { return max; });
    }
    rule_.update_max(sums_, r, max);
    S::store(rescale_[patch.parity], S::load(rule_.rescale + r));
    if (plain && sizes_.v_groups == 1 && storage_.has_finite_scales[patch.b]) {
      return weigh_plain(patch);
    }
    const float *weights = storage_.weights;
    std::size_t pitch = lanes;
    if (plain) {
      rule_.add_sums(sums_, r, make_weights<false>(patch).sum);
    } else {
      weights = storage_.scores + r;
      pitch = tile_pitch;
      rule_.weigh_rows(sums_, r, storage_.scores + r, seen.any.first, seen.any.end);
    }
    for (std::size_t g = 0; g < sizes_.v_groups; ++g) {
      const float *const scales = v_scales(patch, g);
      const batch largest = largest_number(weights, pitch, scales);
      make_digits(patch, g, scaling_of(largest, S::negate(S::less(largest, infinite()))),
                  [&](std::size_t j) { return number(S::load(weights + j * pitch), scales[j]); });
    }
  }
  void weigh_plain(const Patch &patch) {
    const Weights made = make_weights<true>(patch);
    rule_.add_sums(sums_, patch.r, made.sum);
    // Weights are finite or NaN and scales are finite, so the sum is NaN if and only if a number is NaN.
    make_digits(patch, 0, scaling_of(made.largest, S::unordered(made.sum, made.sum)),
                [&](std::size_t j) { return S::load(storage_.weights + j * lanes); });
  }

  static batch infinite() { return batch(std::numeric_limits<float>::infinity()); }
  const float *v_scales(const Patch &patch, std::size_t g) const {
    return storage_.v_scales + g * rapt::attention_chunk + patch.b * block;
  }
  static batch number(batch weight, float scale) {
    return S::zero_where(S::equal(weight, batch(0.0f)), weight * batch(scale));
  }

  // Joins the sums of the high and of the low digits. Both sums are exact in f32.
  static batch joined(const std::int32_t *high) {
    const __m512 a = _mm512_cvtepi32_ps(_mm512_loadu_si512(high)),
                 b = _mm512_cvtepi32_ps(_mm512_loadu_si512(high + sums_of_tile / 2));
    return _mm512_fmadd_ps(a, _mm512_set1_ps(256.0f), b);
  }

  // Computes the dot products of a patch, and returns the largest dot product of each row.
  batch make_scores(const Patch &patch, float *to, std::size_t pitch) {
    return segments_.count == 1 ? make_scores_of<1>(patch, to, pitch) : make_scores_of<0>(patch, to, pitch);
  }
  template <std::size_t fixed>
  [[gnu::noinline, gnu::flatten]] batch make_scores_of(const Patch &patch, float *to, std::size_t pitch) {
    const std::int32_t *const sums = storage_.score_sums[patch.parity];
    const float *const steps = state_.query_steps + patch.r;
    const float *const scales = storage_.k_scales + patch.b * block;
    const std::size_t count = fixed != 0 ? fixed : segments_.count;
    batch max[4];
    unroll<4>([&](std::size_t i) RAPT_INNER { max[i] = batch(-std::numeric_limits<float>::infinity()); });
    for (std::size_t j = 0; j < block; j += 4) {
      const std::int32_t *at = sums + j / amx_rows * sums_of_tile + j % amx_rows * amx_rows;
      batch score[4];
      unroll<4>([&](std::size_t i) RAPT_INNER { score[i] = batch(0.0f); });
      for (std::size_t s = 0; s < count; ++s, at += 4 * sums_of_tile) {
        const std::size_t g = fixed != 0 ? 0 : segments_.at[s].group;
        const batch step = S::load(steps + g * rapt::attention_tile_rows);
        unroll<4>([&](std::size_t i) RAPT_INNER {
          const batch scale(scales[g * rapt::attention_chunk + j + i]);
          score[i] = S::fma(joined(at + i * amx_rows) * step, scale, score[i]);
        });
      }
      unroll<4>([&](std::size_t i) RAPT_INNER {
        S::store(to + (j + i) * pitch, score[i]);
        max[i] = S::max_number(score[i], max[i]);
      });
    }
    return S::max(S::max(max[0], max[1]), S::max(max[2], max[3]));
  }

  struct Weights {
    batch sum, largest;
  };
  // Computes the weights of a patch in which all rows see all keys and scores have no formula. Returns each
  // row's sum of weights. If `to_numbers`, stores weight * v_scale instead, and also returns the largest
  // magnitude of each row's products.
  template <bool to_numbers>
  [[gnu::noinline, gnu::flatten]] Weights make_weights(const Patch &patch) {
    const std::size_t r = patch.r;
    const batch reference = S::load(rule_.reference + r), to_log2 = S::load(rows_.to_log2 + r),
                cutoff = S::load(rows_.cutoff + r);
    const float *const scales = v_scales(patch, 0);
    batch largest[4];
    unroll<4>([&](std::size_t i) RAPT_INNER { largest[i] = batch(0.0f); });
    constexpr std::size_t quarter = block / 4;
    alignas(64) float sums[quarter * lanes];
    for (std::size_t j = 0; j < quarter; ++j) {
      batch weight[4];
      unroll<4>([&](std::size_t i) RAPT_INNER {
        float *const at = storage_.weights + (j + i * quarter) * lanes;
        weight[i] = Weight<float>()(S::load(at) - reference, to_log2, cutoff);
        if constexpr (to_numbers) {
          const batch n = weight[i] * batch(scales[j + i * quarter]);
          largest[i] = _mm512_range_ps(n, largest[i], 0xb);  // compares magnitudes
          S::store(at, n);
        } else {
          S::store(at, weight[i]);
        }
      });
      S::store(sums + j * lanes, (weight[0] + weight[2]) + (weight[1] + weight[3]));
    }
    return {sum_by_halves<float, quarter, lanes>(sums),
            S::max(S::max(largest[0], largest[1]), S::max(largest[2], largest[3]))};
  }
  // Returns the largest magnitude of each row's numbers, or NaN if a number is NaN.
  [[gnu::noinline, gnu::flatten]] static batch largest_number(const float *weights, std::size_t pitch,
                                                              const float *scales) {
    __m512i largest = _mm512_setzero_si512();
    for (std::size_t j = 0; j < block; ++j) {
      largest = VnniIntegers<IntegerSimd>::greater_magnitude(largest,
                                                             number(S::load(weights + j * pitch), scales[j]));
    }
    return _mm512_castsi512_ps(largest);
  }

  struct Scaling {
    batch inverse, step;
  };
  static Scaling scaling_of(batch largest, S::mask not_finite) {
    using C = rapt::Int8Attention;
    const auto counts = S::negate(S::either(S::less(largest, batch(rapt::IntegerUnits::lowest)), not_finite));
    const batch step = S::keep_where(counts, S::divide(largest, batch(C::largest)));
    return {S::keep_where(counts, S::divide(batch(C::largest), largest)),
            S::select(not_finite, batch(std::numeric_limits<float>::quiet_NaN()), step)};
  }

  // Stores the digits of all numbers of a patch as tiles. The low 16 bits of number * inverse + magic are the
  // integer.
  template <class Number>
  RAPT_INNER void make_digits(const Patch &patch, std::size_t g, const Scaling &scaling, Number number_of) {
    constexpr std::size_t quarter = block / 4;
    std::int8_t *to = storage_.digits[patch.parity] + g * 2 * tile_bytes;
    S::store(steps_[patch.parity][g], scaling.step);
    const batch magic(rapt::AttentionContract<float>::round_magic);
    const __m512i to_high_half = _mm512_set4_epi32(0x0d0c0d0c, 0x09080908, 0x05040504, 0x01000100);
    for (std::size_t j = 0; j < quarter; ++j, to += amx_row_bytes) {
      __m512i v[4];
      unroll<4>([&](std::size_t i) RAPT_INNER {
        v[i] = _mm512_castps_si512(number_of(j + i * quarter) * scaling.inverse + magic);
      });
      const auto halves = [&](__m512i low, __m512i high) RAPT_INNER {
        return _mm512_mask_shuffle_epi8(low, 0xccccccccccccccccull, high, to_high_half);
      };
      const __m512i a = halves(v[0], v[2]), b = halves(v[1], v[3]);
      constexpr __mmask64 odd = 0xaaaaaaaaaaaaaaaaull;
      _mm512_storeu_si512(to, _mm512_mask_blend_epi8(odd, _mm512_srli_epi16(a, 8), b));
      _mm512_storeu_si512(to + tile_bytes, _mm512_mask_blend_epi8(odd, a, _mm512_slli_epi16(b, 8)));
    }
  }

  // Adds the weighted values of a patch to the outputs.
  [[gnu::noinline, gnu::flatten]] void add_values(const Patch &patch) {
    const batch rescale = S::load(rescale_[patch.parity]);
    float *const out = out_of(patch.r);
    for (std::size_t t = 0; t < sizes_.v_tiles; ++t) {
      const batch step = S::load(steps_[patch.parity][t * amx_rows / v_group_]);
      const std::int32_t *const sums = storage_.value_sums + t * sums_of_tile;
      float *const to = out + t * amx_rows * lanes;
      const auto add = [&](auto load) RAPT_INNER {
        unroll<amx_rows>([&](std::size_t d) RAPT_INNER {
          S::store(to + d * lanes, S::fma(joined(sums + d * lanes), step, load(to + d * lanes) * rescale));
        });
      };
      if (patch.is_first) {
        add([](const float *) RAPT_INNER { return batch(0.0f); });
      } else {
        add([](const float *at) RAPT_INNER { return S::load(at); });
      }
    }
  }

  Int8Tile &state_;
  const TileRows<float> &rows_;
  PlainRule<float> &rule_;
  RowSums<float> &sums_;
  const rapt_attention_options &o_;
  const Int8Storage &storage_;
  const Sizes &sizes_;
  const QuerySegments &segments_;
  std::size_t v_group_, begin_, first_ = 0, end_ = 0;
  DigitProducts products_;
  alignas(64) float rescale_[2][lanes];
  alignas(64) float steps_[2][Sizes::most_segments][lanes];
};

}  // namespace
