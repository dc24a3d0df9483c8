// Turns scores into weights for RAPT_ARITHMETIC_BF16, with the interface that plain_rule.hpp describes.
// Weights are bf16 numbers. Their sum is computed like one more output dimension, in which all values are 1.
#pragma once

#include <cstddef>
#include <limits>

#include "contract/attention.hpp"
#include "contract/bf16_arithmetic.hpp"
#include "kernels/attention/row_sums.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/tile_weights.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// The weight of a score s is computed from z = (s - base) * to_log2 + offset. Weights are relative to a
// reference score, whose product with to_log2 is rounded.
struct Bf16Reference {
  using S = simd<float>;
  using C = rapt::Bf16Contract;
  using batch = typename S::batch;
  batch score, to_log2, base, offset;

  RAPT_INNER Bf16Reference(batch reference, batch to_log2_of_rows)
      : score(reference), to_log2(to_log2_of_rows) {
    const batch zero(0.0f), near = (zero - score) * to_log2;
    const auto is_near = S::less(S::abs(near), batch(C::far));
    base = S::select(is_near, zero, score);
    offset = S::select(is_near, near, zero);
  }
  // Returns the weight of the reference score itself. It is 1 except for the rounding of a large product.
  RAPT_INNER batch weight() const {
    return weight_of_16_bits(score, base, offset, to_log2) * batch(C::from_weights);
  }
};

class Bf16Rule {
 public:
  using S = simd<float>;
  using batch = typename S::batch;
  using C = rapt::Bf16Contract;
  static constexpr std::size_t block = rapt::attention_block;
  static constexpr float weights_unit = C::from_weights;
  static constexpr std::size_t segment_keys = C::k32;

  // Holds the base and the offset of each row's Bf16Reference.
  struct Sums : RowSums<float> {
    alignas(64) float base[count];
    alignas(64) float offset[count];

    void clear() {
      RowSums<float>::clear();
      for (std::size_t r = 0; r < count; r += S::width) {
        S::store(base + r, batch(0.0f));
        S::store(offset + r, batch(0.0f));
      }
    }
  };

  explicit Bf16Rule(const TileRows<float> &rows) : rows_(rows) {}

  // A row's reference score is its first block's maximum. It changes only if a weight would otherwise reach
  // 2.
  RAPT_INNER bool update_max(Sums &sums, std::size_t r, batch block_max) {
    const batch before = S::load(sums.max + r), base = S::load(sums.base + r),
                offset = S::load(sums.offset + r), to = S::load(rows_.to_log2 + r);
    const batch none(-std::numeric_limits<float>::infinity()), one(1.0f);
    const auto has_none = S::equal(before, none);
    const batch z = S::fma(block_max - base, to, offset);
    const auto stays = S::either(S::equal(block_max, none),
                                 S::negate(S::either(has_none, S::negate(S::less(z, batch(C::move_from))))));
    const batch max = S::select(stays, before, block_max);
    const batch factor = S::select(S::either(stays, has_none), one, weight_of(rows_, r, before - max));
    const Bf16Reference moved(max, to);
    S::store(sums.max + r, max);
    S::store(sums.base + r, S::select(stays, base, moved.base));
    S::store(sums.offset + r, S::select(stays, offset, moved.offset));
    S::store(rescale + r, factor);
    return S::any(S::negate(S::equal(factor, one)));
  }

  // Computes only the weights. The products with the values also sum the weights.
  RAPT_INNER void weigh_rows(Sums &sums, std::size_t r, float *column, std::size_t begin,
                             std::size_t end) const {
    S::store(sums.sum + r, S::load(sums.sum + r) * S::load(rescale + r));
    tile_weights_of_16_bits(column, begin, end, S::load(sums.base + r), S::load(sums.offset + r),
                            S::load(rows_.to_log2 + r));
  }

  RAPT_INNER void weigh_row(Sums &sums, std::size_t r, float *row) const {
    const batch base(sums.base[r]), offset(sums.offset[r]), to_log2(rows_.to_log2[r]);
    unroll<block / S::width>([&](std::size_t i) RAPT_INNER {
      S::store(row + i * S::width, weight_of_16_bits(S::load(row + i * S::width), base, offset, to_log2));
    });
    constexpr std::size_t k32s = block / C::k32;
    float sum = sums.sum[r] * rescale[r], even[k32s] = {}, odd[k32s] = {};
    for (std::size_t i = 0; i < C::k32; i += 2) {
      unroll<k32s>([&](std::size_t g) RAPT_INNER {
        even[g] += row[g * C::k32 + i];
        odd[g] += row[g * C::k32 + i + 1];
      });
    }
    unroll<k32s>([&](std::size_t g) RAPT_INNER { sum += even[g] + odd[g]; });
    sums.sum[r] = sum;
  }

  alignas(64) float rescale[rapt::attention_tile_rows];

 private:
  const TileRows<float> &rows_;
};

}  // namespace
