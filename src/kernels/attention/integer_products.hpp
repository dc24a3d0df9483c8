// Multiplies queries by int8 keys and weights by int8 values for KeysInLanes (contract/int8_attention.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "call/attention_tile.hpp"
#include "call/attention_workspace.hpp"
#include "call/element.hpp"
#include "kernels/attention/integer_rows.hpp"
#include "kernels/attention/integers.hpp"
#include "kernels/attention/plain_rule.hpp"
#include "kernels/attention/run_list.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Rows multiplies rows of integers. It is IntegerRows, or a level's replacement such as DigitRows.
template <class Rows>
class IntegerProducts {
 public:
  using KV = std::int8_t;
  using A = float;
  using S = simd<float>;
  using I = typename Rows::I;
  using batch = typename S::batch;
  using Rule = PlainRule<float>;
  static constexpr std::size_t block = rapt::attention_block;

  // An excluded key cannot make a result NaN: its weight is the integer 0, and int8 values are finite.
  static constexpr bool ignores_excluded = true;

  IntegerProducts(const AttentionTile &tile, const TileRows<float> &rows, float *workspace)
      : tile_(tile),
        o_(tile.options()),
        rows_(rows),
        runs_(tile),
        k_group_(rapt::scale_group_of(o_, o_.qk_dim)),
        v_group_(rapt::scale_group_of(o_, o_.v_dim)),
        k_groups_(o_.qk_dim / k_group_),
        transposes_(worth_transposing()),
        pitch_(rapt::padded_dim(o_.qk_dim)),
        steps_(workspace),
        queries_(reinterpret_cast<std::int16_t *>(workspace + rapt::attention_tile_rows * k_groups_)) {}

  static std::size_t padded(std::size_t rows) { return rows; }

  void load_queries() {
    for (std::size_t r = 0; r < rows_.rows; ++r) {
      rapt::with_element<float>(o_.q_type, [&](auto element) {
        const auto *q = tile_.q<typename decltype(element)::type>(rows_.of[r]);
        for (std::size_t g = 0; g < k_groups_; ++g) {
          std::int16_t *const to = queries_ + r * pitch_ + g * k_group_;
          steps_[r * k_groups_ + g] =
              rows_.sign[r] * make_integers<I>(q + g * k_group_, k_group_, rapt::padded_dim(k_group_), to);
        }
        if (transposes_) {
          std::int16_t *const query = queries_ + r * pitch_;
          for (std::size_t d = 0; d < o_.qk_dim; d += 4) std::swap(query[d + 1], query[d + 2]);
        }
      });
    }
  }

  void begin_chunk(std::size_t from, std::size_t chunk_end, std::size_t end) {
    runs_.begin_chunk(from, chunk_end, end);
  }

  void scores(std::size_t first, std::size_t keys, float *scores) {
    const Int8Run *const run = runs_.next_keys(first, keys);
    if constexpr (TransposesBytes<I>) {
      if (transposes_) return transposed_scores(run, first, keys, scores);
    }
    each_k_scale_group(first, keys, [&](std::size_t g, const float *k_scales) RAPT_INNER {
      for (std::size_t from = 0; from < k_group_; from += rapt::Int8Attention::segment) {
        const std::size_t left = k_group_ - from, at = g * k_group_ + from;
        by_rows_at_once<I::score_rows>([&](std::size_t r, auto count) RAPT_INNER {
          const ScoreSegment of{queries_ + r * pitch_ + at,
                                pitch_,
                                steps_ + r * k_groups_ + g,
                                k_groups_,
                                k_scales,
                                at,
                                left < rapt::Int8Attention::segment ? left : rapt::Int8Attention::segment,
                                at == 0};
          if (o_.packed_keys) {
            Rows::template packed_scores<count>(of, tile_.k<std::int8_t>(first), scores + r * block);
          } else if (of.dim == 128) {
            Rows::template scores<count, 128>(of, run, runs_.last(), keys, scores + r * block);
          } else if (of.dim == 64) {
            Rows::template scores<count, 64>(of, run, runs_.last(), keys, scores + r * block);
          } else if constexpr (count == 1) {  // more rows usually use transposed_scores()
            const auto scores_of = of.dim == 32 ? Rows::template scores<1, 32> : Rows::template scores<1, 0>;
            scores_of(of, run, runs_.last(), keys, scores + r * block);
          } else {
            Rows::template scores<count, 0>(of, run, runs_.last(), keys, scores + r * block);
          }
        });
      }
    });
  }

  // If the values have one scale group, converts a block's weights to integers in place, before its values
  // are added. Adding the previous block's values hides the latency of the conversion.
  void prepare_weights(std::size_t first, std::size_t keys, float *weights) const {
    if (v_group_ != o_.v_dim) return;
    each_v_scale_group(first, keys, [&](std::size_t, const float *v_scales) {
      for (std::size_t r = 0; r < rows_.rows; ++r) {
        float *const row = weights + r * block;
        row[step_at] = make_integers<I>(row, v_scales, reinterpret_cast<std::int16_t *>(row));
      }
    });
  }

  void values(std::size_t first, std::size_t keys, const float *weights, const float *rescale, float *values,
              std::size_t pitch) {
    const Int8Run *const run = runs_.next_values(first, keys);
    const bool in_place = v_group_ == o_.v_dim;
    const auto add_group = [&](std::size_t from, const float *v_scales) RAPT_INNER {
      by_rows_at_once<I::value_rows>([&](std::size_t r, auto count) RAPT_INNER {
        alignas(64) std::int16_t integers[count][block];
        float steps[count];
        for (std::size_t i = 0; i < count; ++i) {
          const float *const row = weights + (r + i) * block;
          steps[i] = in_place ? row[step_at] : make_integers<I>(row, v_scales, integers[i]);
        }
        const auto *const digits =
            in_place ? reinterpret_cast<const std::int16_t *>(weights + r * block) : integers[0];
        Rows::template values<count>({digits, in_place ? 2 * block : block, steps, rescale + r, from,
                                      from + v_group_, values + r * pitch, pitch},
                                     run, runs_.last(), keys);
      });
    };
    if (in_place) return add_group(0, nullptr);
    each_v_scale_group(first, keys,
                       [&](std::size_t g, const float *v_scales) { add_group(g * v_group_, v_scales); });
  }

  // Results always have the bits that all levels must agree on, so no tile is computed again.
  static constexpr bool is_doubtful() { return false; }
  static constexpr void use_exact_products() {}

 private:
  bool worth_transposing() const {
    if constexpr (TransposesBytes<I>) {
      return !o_.packed_keys && k_groups_ <= scale_groups_at_once && k_group_ <= 64 &&
             rows_.rows >= (k_group_ <= 32 ? 2 : 6);
    }
    return false;
  }
  void transposed_scores(const Int8Run *run, std::size_t first, std::size_t keys, float *scores) const {
    alignas(64) float k_scales[scale_groups_at_once][block];
    load_scales<I>(ScaleRows::of_keys(tile_), k_groups_, first, keys, k_scales[0], block);
    const auto compute = [&](std::size_t r, auto count) RAPT_INNER {
      Rows::template transposed_scores<count>({queries_ + r * pitch_, pitch_, steps_ + r * k_groups_,
                                               k_groups_, k_scales[0], k_group_, o_.qk_dim},
                                              run, runs_.last(), keys, scores + r * block);
    };
    std::size_t r = 0;
    if constexpr (I::transposed_rows == 8) {
      for (; rows_.rows - r >= 8; r += 8) compute(r, std::integral_constant<std::size_t, 8>{});
    }
    by_rows_at_once<4>(compute, r);
  }

  // In place, 64 integers of 16 bits take half of a row of 64 floats. Their step follows them, at this index.
  static constexpr std::size_t step_at = block / 2;

  template <class F>
  RAPT_INNER void each_k_scale_group(std::size_t first, std::size_t keys, F f) const {
    each_scale_group<I>(ScaleRows::of_keys(tile_), k_groups_, first, keys, f);
  }
  template <class F>
  RAPT_INNER void each_v_scale_group(std::size_t first, std::size_t keys, F f) const {
    each_scale_group<I>(ScaleRows::of_values(tile_), o_.v_dim / v_group_, first, keys, f);
  }
  // Calls f(first row, count) for groups of up to `most` rows, where count is a constant.
  template <std::size_t most, class F>
  RAPT_INNER void by_rows_at_once(F f, std::size_t r = 0) const {
    for (; rows_.rows - r >= most; r += most) f(r, std::integral_constant<std::size_t, most>{});
    if constexpr (most > 1) by_rows_at_once<most - 1>(f, r);
  }

  const AttentionTile &tile_;
  const rapt_attention_options &o_;
  const TileRows<float> &rows_;
  RunList<std::int8_t, most_addressed> runs_;
  std::size_t k_group_, v_group_, k_groups_;
  bool transposes_;
  std::size_t pitch_;
  float *steps_;
  std::int16_t *queries_;
};

}  // namespace
