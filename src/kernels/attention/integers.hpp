// Turns queries and weights into 16-bit integers (contract/int8_attention.hpp), and loads scales.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/attention_tile.hpp"
#include "contract/attention.hpp"
#include "contract/int8_attention.hpp"
#include "contract/integer_units.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/parts.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Converts a query's scale group of `count` dimensions to integers, pads it with 0, and returns its step.
template <class I, class Q>
float make_integers(const Q *q, std::size_t count, std::size_t padded, std::int16_t *to) {
  using S = simd<float>;
  typename I::Sums largest = I::zero();
  for (std::size_t d = 0; d < count; d += S::width) {
    largest = I::greater_magnitude(largest, S::load_first(q + d, count - d));
  }
  const rapt::IntegerUnits units(I::largest(largest), rapt::Int8Attention::largest);
  const typename S::batch inverse(units.inverse);
  std::size_t d = 0;
  for (; d < count; d += S::width) {
    I::store_rounded(to + d, S::load_first(q + d, count - d) * inverse);
  }
  for (; d < padded; d += S::width) I::store_rounded(to + d, typename S::batch(0.0f));
  return units.step;
}
// Converts a block's weights, times the scales, to integers. Returns their step. A weight of 0 becomes 0,
// even if its scale is not finite.
template <class I>
float make_integers(const float *weights, const float *scales, std::int16_t *to) {
  using S = simd<float>;
  using batch = typename S::batch;
  constexpr std::size_t vectors = rapt::attention_block / S::width;
  const batch zero(0.0f);
  batch product[vectors];
  typename I::Sums largest = I::zero();
  unroll<vectors>([&](std::size_t i) RAPT_INNER {
    const batch weight = S::load(weights + i * S::width);
    product[i] = S::zero_where(S::equal(weight, zero), weight * S::load(scales + i * S::width));
    largest = I::greater_magnitude(largest, product[i]);
  });
  const rapt::IntegerUnits units(I::largest(largest), rapt::Int8Attention::largest);
  const batch inverse(units.inverse);
  unroll<vectors>([&](std::size_t i)
                      RAPT_INNER { I::store_rounded(to + i * S::width, product[i] * inverse); });
  return units.step;
}

// Says where the scales of keys or of values lie, from scale group `group` on.
struct ScaleRows {
  const AttentionTile &tile;
  bool are_of_keys;
  std::size_t group = 0;

  static ScaleRows of_keys(const AttentionTile &tile) { return {tile, true}; }
  static ScaleRows of_values(const AttentionTile &tile) { return {tile, false}; }
  const float *operator()(std::size_t key) const {
    return (are_of_keys ? tile.k_scales(key) : tile.v_scales(key)) + group;
  }
  const float *of_token(std::size_t token) const {
    return (are_of_keys ? tile.k_scales_of_token(token) : tile.v_scales_of_token(token)) + group;
  }
  std::ptrdiff_t stride() const {
    return (are_of_keys ? tile.k_scale_strides() : tile.v_scale_strides()).token;
  }
};

// Loads the scales of up to 16 keys of a list, and prefetches those of the next block.
inline void load_listed_scales(const ScaleRows &at, std::size_t groups, std::size_t first, std::size_t count,
                               float *to, std::size_t pitch) {
  constexpr std::size_t block = rapt::attention_block;
  const std::int32_t *const list = at.tile.list() + first;
  const std::size_t left = at.tile.kv_len() - first, later = left <= block ? 0 : left - block;
  const std::size_t fetched = later < count ? later : count;
  const float *const token0 = at.of_token(0);
  const std::ptrdiff_t stride = at.stride();
  for (std::size_t i = 0; i < fetched; ++i) {
    if (list[i + block] >= 0) __builtin_prefetch(token0 + stride * list[i + block], 0, 2);
  }
  for (std::size_t g = 0; g < groups; ++g, to += pitch) {
    for (std::size_t i = 0; i < count; ++i)
      to[i] = list[i] >= 0 ? token0[stride * list[i] + static_cast<std::ptrdiff_t>(g)] : 0.0f;
    for (std::size_t i = count; i < rapt::attention_page_unit; ++i) to[i] = 0.0f;
  }
}

// Loads the scales of up to 16 keys that may lie anywhere.
[[gnu::noinline]] inline void load_scattered_scales(const ScaleRows &at, std::size_t groups,
                                                    std::size_t first, std::size_t count, float *to,
                                                    std::size_t pitch) {
  if (at.tile.list()) return load_listed_scales(at, groups, first, count, to, pitch);
  for (std::size_t i = 0; i < rapt::attention_page_unit; ++i) {
    const float *const scales = i < count ? at(first + i) : nullptr;
    for (std::size_t g = 0; g < groups; ++g) to[g * pitch + i] = scales ? scales[g] : 0.0f;
  }
}

// Loads the scales of a block's keys for `groups` adjacent scale groups. Scales past the last key, and of missing keys,
// are 0. The scales of group g are stored at to + g * pitch.
//
// If the scales are contiguous, and there are 2 groups or a multiple of 4, they are transposed in registers.
// One by one, the scales of a block of 128 dimensions in groups of 32 took 500 cycles for keys and values.
template <class I>
RAPT_INNER inline void load_scales(const ScaleRows &at, std::size_t groups, std::size_t first,
                                   std::size_t keys, float *to, std::size_t pitch) {
  using S = simd<float>;
  using batch = typename S::batch;
  constexpr std::size_t unit = rapt::attention_page_unit, part = 4;
  const std::ptrdiff_t stride = at.stride();
  const bool dense = stride == static_cast<std::ptrdiff_t>(groups);
  for (std::size_t j = 0; j < rapt::attention_block; j += unit) {
    const std::size_t count = keys <= j ? 0 : keys - j < unit ? keys - j : unit;
    if (at.tile.is_scattered() && count > 0 && !at.tile.lie_together(first + j, count)) [[unlikely]] {
      load_scattered_scales(at, groups, first + j, count, to + j, pitch);
      continue;
    }
    const float *from = count > 0 ? at(first + j) : nullptr;
    if (count == unit && dense && groups == 1) {
      unroll<unit / S::width>(
          [&](std::size_t i) RAPT_INNER { S::store(to + j + i * S::width, S::load(from + i * S::width)); });
    } else if (count == unit && dense && groups == 2) {
      for (std::size_t i = 0; i < unit; i += S::width, from += 2 * S::width) {
        const batch a = I::load_parts(from, 2 * part), b = I::load_parts(from + part, 2 * part);
        S::store(to + j + i, S::evens(a, b));
        S::store(to + pitch + j + i, S::odds(a, b));
      }
    } else if (count == unit && dense && groups % part == 0) {
      for (std::size_t i = 0; i < unit; i += S::width, from += groups * S::width) {
        for (std::size_t g = 0; g < groups; g += part) {
          batch v[part];
          unroll<part>([&](std::size_t k)
                           RAPT_INNER { v[k] = I::load_parts(from + k * groups + g, part * groups); });
          transpose_in_parts<S>(v);
          unroll<part>([&](std::size_t k) RAPT_INNER { S::store(to + (g + k) * pitch + j + i, v[k]); });
        }
      }
    } else {
      for (std::size_t g = 0; g < groups; ++g) {
        for (std::size_t i = 0; i < unit; ++i) {
          to[g * pitch + j + i] = i < count ? from[stride * static_cast<std::ptrdiff_t>(i)] : 0.0f;
        }
        if (count > 0) ++from;
      }
    }
  }
}

// each_scale_group() loads the scales of this many scale groups together.
inline constexpr std::size_t scale_groups_at_once = 16;

// Calls f(g, scales) for each scale group g of a block. `scales` has one scale per key.
template <class I, class F>
RAPT_INNER inline void each_scale_group(const ScaleRows &at, std::size_t groups, std::size_t first,
                                        std::size_t keys, F f) {
  alignas(64) float scales[scale_groups_at_once][rapt::attention_block];
  for (std::size_t g = 0; g < groups; ++g) {
    const std::size_t in_turn = g % scale_groups_at_once;
    if (in_turn == 0) {
      const std::size_t left = groups - g;
      load_scales<I>(ScaleRows{at.tile, at.are_of_keys, g},
                     left < scale_groups_at_once ? left : scale_groups_at_once, first, keys, scales[0],
                     rapt::attention_block);
    }
    f(g, scales[in_turn]);
  }
}

}  // namespace
