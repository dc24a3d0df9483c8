// Multiplies queries by keys and weights by values in RAPT_ARITHMETIC_BF16 with f32 FMAs. Lanes are rows.
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/attention/bf16_rule.hpp"
#include "kernels/attention/broadcast_products.hpp"
#include "kernels/attention/k32_panels.hpp"
#include "kernels/flushes.hpp"
#include "kernels/vector/inner.hpp"

namespace {

class K32Products : public BroadcastProducts<StoredBlock<float>> {
 public:
  using Base = BroadcastProducts<StoredBlock<float>>;
  using KV = rapt::BF16;
  using Rule = Bf16Rule;
  static constexpr bool rescales = false;

  // All levels use the same size of workspace, which has room for AMX's tiles. So there is room for a block
  // whose dimensions are padded to multiples of 32.
  static std::size_t workspace_length(const rapt_attention_options &o) {
    return Base::workspace_length(o) + length_of_keys(o) + length_of_values(o);
  }

  K32Products(const AttentionTile &tile, const TileRows<float> &rows, float *workspace)
      : Base(tile, rows, workspace),
        keys_(workspace + Base::workspace_length(o_)),
        values_(keys_ + length_of_keys(o_)) {}

  void find_block(std::size_t first, std::size_t keys, std::size_t left) {
    narrow_.find(tile_, first, keys, left);
    if constexpr (widens_for_one_use) return;
    for (std::size_t d = 0; d < o_.qk_dim; d += k32) {
      if (o_.packed_keys) {
        widen_packed_keys(d);
      } else {
        for (std::size_t j = 0; j < keys; ++j) widen_key(j, d, keys_at(d) + j * k32);
      }
    }
    for (std::size_t j = 0; j < keys; j += k32) {
      for (std::size_t d = 0; d < o_.v_dim; d += k32) widen_values(j, terms(j, keys), d);
    }
  }

  // Returns whether a result may have wrong bits, because the CPU flushed it before rounding. After
  // use_exact_products(), another run is exact.
  bool is_doubtful() const { return guard_.is_doubtful(); }
  void use_exact_products() { guard_.use_exact_products(); }

  RAPT_INNER void scores(const Segment &segment, float *scores, float *largest) {
    if (guard_.is_exact()) [[unlikely]]
      return exact_scores(segment, scores, largest);
    const typename S::Flushing flushing;
    by_vectors<float>(segment, [&](auto vectors) RAPT_INNER {
      scores_of<vectors>(segment, scores + segment.from, largest);
    });
    guard_.note(flushing);
  }

  RAPT_INNER void values(const Segment &segment, const float *weights, Before, const float *, float *out,
                         float *sums) {
    add_values(segment, weights, nullptr, out, sums);
  }
  RAPT_INNER void careful_values(const Segment &segment, const float *weights, const float *exclusions,
                                 float *out, float *sums) {
    add_values(segment, weights, exclusions, out, sums);
  }

 private:
  static constexpr std::size_t k32 = k32_terms;
  // Says whether elements are widened for each use. If a tile is one panel, it uses an element only once, and
  // the widened copy stays in L1. Otherwise all panels use the elements, which are widened once per block.
  static constexpr bool widens_for_one_use = panel_rows<float> == tile_pitch;
  static constexpr std::size_t block = rapt::attention_block;

  // `exclusions` is null unless the values of excluded keys may be NaN or infinite.
  RAPT_INNER void add_values(const Segment &segment, const float *weights, const float *exclusions,
                             float *out, float *sums) {
    if (guard_.is_exact()) [[unlikely]]
      return exact_values(segment, weights, exclusions, out, sums);
    const typename S::Flushing flushing;
    by_vectors<float>(segment, [&](auto vectors) RAPT_INNER {
      const float *const from = weights + segment.from;
      if (exclusions) {
        values_of<vectors, true>(segment, from, exclusions + segment.from, out + segment.from,
                                 sums + segment.from);
      } else {
        values_of<vectors, false>(segment, from, nullptr, out + segment.from, sums + segment.from);
      }
    });
    guard_.note(flushing);
  }

  static std::size_t padded(std::size_t dim) { return (dim + k32 - 1) / k32 * k32; }
  static std::size_t length_of_keys(const rapt_attention_options &o) {
    return block * (widens_for_one_use ? k32 : padded(o.qk_dim));
  }
  static std::size_t length_of_values(const rapt_attention_options &o) {
    return widens_for_one_use ? k32 * k32 : block * padded(o.v_dim);
  }
  static std::size_t terms(std::size_t at, std::size_t end) { return end - at < k32 ? end - at : k32; }

  // Return the widened elements of keys from dimension d on, and of values from key j and dimension d on.
  float *keys_at(std::size_t d) const { return keys_ + (widens_for_one_use ? 0 : d * block); }
  float *values_at(std::size_t j, std::size_t d) const {
    return values_ + (widens_for_one_use ? 0 : j * padded(o_.v_dim) + d * k32);
  }

  RAPT_INNER void widen_key(std::size_t j, std::size_t d, float *to) const {
    const std::size_t count = terms(d, o_.qk_dim);
    if (count == k32) {
      widen_words(narrow_.k[j] + d, to);
    } else {
      widen_last_words(narrow_.k[j] + d, count, to);
    }
  }
  void widen_packed_keys(std::size_t d) const {
    const KV *const from = narrow_.k[0] + d * rapt::packed_dim_stride;
    float *const to = keys_at(d);
    for (std::size_t i = 0; i < terms(d, o_.qk_dim) * rapt::packed_dim_stride; i += S::width) {
      S::store(to + i, S::load(from + i));
    }
  }
  // Widens up to 32 dimensions of `count` values. 32 dimensions are stored even ones first, fewer in order.
  RAPT_INNER void widen_values(std::size_t j, std::size_t count, std::size_t d) const {
    const std::size_t dims = terms(d, o_.v_dim);
    float *to = values_at(j, d);
    for (std::size_t i = 0; i < count; ++i, to += k32) {
      const KV *const from = narrow_.v[j + i] + d;
      if (dims == k32) {
        widen_words(from, to);
      } else {
        for (std::size_t w = 0; w < dims; w += S::width) S::store(to + w, S::load_first(from + w, dims - w));
      }
    }
  }

  template <std::size_t vectors>
  [[gnu::noinline, gnu::flatten]] void scores_of(const Segment &segment, float *scores,
                                                 float *largest) const {
    unroll<vectors>([&](std::size_t v) RAPT_INNER {
      S::store(largest + v * S::width, batch(-std::numeric_limits<float>::infinity()));
    });
    for (std::size_t d = 0; d < o_.qk_dim; d += k32) {
      const auto add = [&](auto layout, auto elements) RAPT_INNER {
        add_k32_scores<decltype(layout), vectors>(queries_ + segment.from + d * tile_pitch,
                                                  terms(d, o_.qk_dim), d == 0, d + k32 >= o_.qk_dim,
                                                  segment.begin, segment.end, elements, scores, largest);
      };
      if (o_.packed_keys) {
        if constexpr (widens_for_one_use) widen_packed_keys(d);
        add(PackedKeyK32(), [&](std::size_t j, auto) RAPT_INNER { return keys_at(d) + j; });
      } else {
        add(KeyK32(), [&](std::size_t j, auto depth) RAPT_INNER {
          if constexpr (!widens_for_one_use) return keys_at(d) + j * k32;
          unroll<depth>([&](std::size_t i) RAPT_INNER { widen_key(j + i, d, keys_ + i * k32); });
          return keys_;
        });
      }
    }
  }

  template <std::size_t vectors, bool careful>
  [[gnu::noinline, gnu::flatten]] void values_of(const Segment &segment, const float *weights,
                                                 const float *exclusions, float *out, float *sums) const {
    constexpr std::integral_constant<std::size_t, careful ? 1 : 3> most_depth;
    const auto seen = [&](const float *right, const float *weight) RAPT_INNER {
      const batch excluded = S::load(exclusions + (weight - weights)), zero(0.0f);
      return S::select(S::equal(excluded, zero), batch(*right), zero);
    };
    const auto one = [](const float *, const float *) RAPT_INNER { return batch(1.0f); };
    for (std::size_t j = segment.begin; j < segment.end; j += k32) {
      const std::size_t count = terms(j, segment.end);
      const float *const from = weights + j * tile_pitch;
      for (std::size_t d = 0; d < o_.v_dim; d += k32) {
        if constexpr (widens_for_one_use) widen_values(j, count, d);
        const auto add = [&](auto element) RAPT_INNER {
          add_k32_values<vectors>(from, count, values_at(j, d), terms(d, o_.v_dim), element, most_depth,
                                  out + d * tile_pitch);
        };
        if constexpr (careful) {
          add(seen);
        } else {
          add(plain_element);
        }
      }
      batch sum[1][vectors];
      sum_k32<ValueK32>(count, from, from, one, sum);
      unroll<vectors>([&](std::size_t v) RAPT_INNER {
        S::store(sums + v * S::width, S::load(sums + v * S::width) + sum[0][v]);
      });
    }
  }

  [[gnu::noinline, gnu::cold]] void exact_scores(const Segment &segment, float *scores,
                                                 float *largest) const {
    for (std::size_t r = segment.from; r < segment.to; ++r) {
      float max = -std::numeric_limits<float>::infinity();
      for (std::size_t j = segment.begin; j < segment.end; ++j) {
        const KV *const key = narrow_.k[j];
        const float score = add_with_flushes(
            0, o_.qk_dim, [&](std::size_t d) { return queries_[d * tile_pitch + r]; },
            [&](std::size_t d) {
              return rapt::widened(key[static_cast<std::ptrdiff_t>(d) * narrow_.k_step]);
            });
        scores[j * tile_pitch + r] = score;
        if (score > max) max = score;
      }
      largest[r - segment.from] = max;
    }
  }

  [[gnu::noinline, gnu::cold]] void exact_values(const Segment &segment, const float *weights,
                                                 const float *exclusions, float *out, float *sums) const {
    const std::size_t first = segment.begin, keys = segment.end - first;
    for (std::size_t r = segment.from; r < segment.to; ++r) {
      const auto weight = [&](std::size_t j) { return weights[(first + j) * tile_pitch + r]; };
      for (std::size_t d = 0; d < o_.v_dim; ++d) {
        float &value = out[d * tile_pitch + r];
        value = add_with_flushes(value, keys, weight, [&](std::size_t j) {
          const bool is_excluded = exclusions && exclusions[(first + j) * tile_pitch + r] != 0;
          return is_excluded ? 0.0f : rapt::widened(narrow_.v[first + j][d]);
        });
      }
      sums[r] = add_with_flushes(sums[r], keys, weight, [](std::size_t) { return 1.0f; });
    }
  }

  float *keys_, *values_;
  BlockAddresses<KV> narrow_;
  FlushGuard<typename S::Flushing> guard_;
};

}  // namespace
