// The products of RAPT_ARITHMETIC_BF16 by plain fused operations, with rows in the vector lanes: the even and
// the odd terms of a group are a chain each (contract/bf16_arithmetic.hpp).
#pragma once

#include <cstddef>
#include <limits>

#include "contract/bf16_arithmetic.hpp"
#include "kernels/attention/flushes.hpp"
#include "kernels/attention/widening_products.hpp"

namespace {

// Accumulators are `vectors` of rows by so many keys or dimensions by two chains.
inline constexpr std::size_t group_depth = 3;

// f(rows of a panel, a constant) for all of [begin, end), three and then one at a time.
template <class F>
[[gnu::always_inline]] inline void by_group_depth(std::size_t begin, std::size_t end, F f) {
  for (; end - begin >= group_depth; begin += group_depth) {
    f(begin, std::integral_constant<std::size_t, group_depth>{});
  }
  for (; begin < end; ++begin) f(begin, std::integral_constant<std::size_t, 1>{});
}

// chain[c][i][v] of `count` terms: left(term, v) * right(term, i), in order, from +0.
template <std::size_t depth, std::size_t vectors, class Left, class Right>
[[gnu::always_inline]] inline void add_terms_of_group(std::size_t count, Left left, Right right,
                                                      typename simd<float>::batch (&sum)[depth][vectors]) {
  using S = simd<float>;
  using batch = typename S::batch;
  batch chain[2][depth][vectors];
  const auto each = [](auto f) __attribute__((always_inline)) {
    unroll<depth>([&](auto i) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) { f(i, v); });
    });
  };
  each([&](auto i, auto v) __attribute__((always_inline)) { chain[0][i][v] = chain[1][i][v] = batch(0.0f); });
  const auto take = [&](std::size_t term, batch(&of)[depth][vectors]) __attribute__((always_inline)) {
    batch l[vectors];
    unroll<vectors>([&](auto v) __attribute__((always_inline)) { l[v] = left(term, v); });
    unroll<depth>([&](auto i) __attribute__((always_inline)) {
      unroll<vectors>([&](auto v) __attribute__((always_inline)) {
        of[i][v] = S::fma(l[v], right(term, i, v), of[i][v]);
      });
    });
  };
  std::size_t term = 0;
  for (; term + 1 < count; term += 2) {
    take(term, chain[0]);
    take(term + 1, chain[1]);
  }
  if (term < count) take(term, chain[0]);
  each([&](auto i, auto v)
           __attribute__((always_inline)) { sum[i][v] = sum[i][v] + (chain[0][i][v] + chain[1][i][v]); });
}

// The scores of keys [begin, end) with vectors of rows, under FTZ and DAZ.
template <std::size_t vectors>
[[gnu::noinline, gnu::flatten]] void group_scores(const float *queries, const float *const *keys,
                                                  std::ptrdiff_t step, std::size_t dim, std::size_t begin,
                                                  std::size_t end, float *scores, float *largest) {
  using S = simd<float>;
  using batch = typename S::batch;
  constexpr std::size_t group = rapt::Bf16Contract::group;
  batch max[vectors];
  unroll<vectors>([&](auto v) __attribute__((always_inline)) {
    max[v] = batch(-std::numeric_limits<float>::infinity());
  });
  by_group_depth(
      begin, end, [&](std::size_t j, auto depth) __attribute__((always_inline)) {
        batch sum[depth][vectors];
        unroll<depth>([&](auto i) __attribute__((always_inline)) {
          unroll<vectors>([&](auto v) __attribute__((always_inline)) { sum[i][v] = batch(0.0f); });
        });
        for (std::size_t d = 0; d < dim; d += group) {
          const float *const from = queries + d * tile_pitch;
          const std::ptrdiff_t at = step * static_cast<std::ptrdiff_t>(d);
          add_terms_of_group(
              dim - d < group ? dim - d : group,
              [&](std::size_t term, auto v)
                  __attribute__((always_inline)) { return S::load(from + term * tile_pitch + v * S::width); },
              [&](std::size_t term, auto i, auto) __attribute__((always_inline)) {
                return batch(keys[j + i][at + step * static_cast<std::ptrdiff_t>(term)]);
              },
              sum);
        }
        unroll<depth>([&](auto i) __attribute__((always_inline)) {
          unroll<vectors>([&](auto v) __attribute__((always_inline)) {
            max[v] = S::max_number(sum[i][v], max[v]);
            S::store(scores + (j + i) * tile_pitch + v * S::width, sum[i][v]);
          });
        });
      });
  unroll<vectors>([&](auto v) __attribute__((always_inline)) { S::store(largest + v * S::width, max[v]); });
}

// Adds the weighted values of keys [begin, end) of a block to the results of vectors of rows, and the weights
// to their sums, under FTZ and DAZ. With `exclusions`, keys that a row does not see have the value 0.
template <std::size_t vectors, bool careful>
[[gnu::noinline, gnu::flatten]] void group_values(const float *weights, const float *exclusions,
                                                  const float *const *values, std::size_t begin,
                                                  std::size_t end, std::size_t dim, float *out, float *sums) {
  using S = simd<float>;
  using batch = typename S::batch;
  constexpr std::size_t group = rapt::Bf16Contract::group;
  for (std::size_t j = begin; j < end; j = (j / group + 1) * group) {
    const std::size_t left = end - j, whole = group - j % group, count = left < whole ? left : whole;
    const auto weight = [&](std::size_t term, auto v) __attribute__((always_inline)) {
      return S::load(weights + (j + term) * tile_pitch + v * S::width);
    };
    const auto seen = [&](std::size_t term, auto v, batch value) __attribute__((always_inline)) {
      if constexpr (!careful) return value;
      const batch excluded = S::load(exclusions + (j + term) * tile_pitch + v * S::width), zero(0.0f);
      return S::select(S::equal(excluded, zero), value, zero);
    };
    const auto add = [&](auto depth, float *to, std::size_t pitch, auto value)
        __attribute__((always_inline)) {
      batch sum[depth][vectors];
      const auto each = [&](auto f) __attribute__((always_inline)) {
        unroll<depth>([&](auto i) __attribute__((always_inline)) {
          unroll<vectors>([&](auto v)
                              __attribute__((always_inline)) { f(i, v, to + i * pitch + v * S::width); });
        });
      };
      each([&](auto i, auto v, float *at) __attribute__((always_inline)) { sum[i][v] = S::load(at); });
      add_terms_of_group(count, weight, value, sum);
      each([&](auto i, auto v, float *at) __attribute__((always_inline)) { S::store(at, sum[i][v]); });
    };
    by_group_depth(
        0, dim, [&](std::size_t d, auto depth) __attribute__((always_inline)) {
          add(
              depth, out + d * tile_pitch,
              tile_pitch, [&](std::size_t term, auto i, auto v) __attribute__((always_inline)) {
                return seen(term, v, batch(values[j + term][d + i]));
              });
        });
    add(
        std::integral_constant<std::size_t, 1>{}, sums, 0,
        [](std::size_t, auto, auto) __attribute__((always_inline)) { return batch(1.0f); });
  }
}

class GroupProducts : public WideningProducts<rapt::BF16> {
 public:
  using Base = WideningProducts<rapt::BF16>;
  static constexpr bool sums_by_groups = true;
  using Base::Base;

  // Whether a result may lack the contract's bits, which be_exact() then gives another run.
  bool is_doubtful() const { return guard_.is_doubtful(); }
  void be_exact() { guard_.be_exact(); }

  [[gnu::always_inline]] void scores(const Segment &part, float *scores, float *largest) {
    if (guard_.is_exact()) [[unlikely]]
      return exact_scores(part, scores, largest);
    const typename S::Flushing flushing;
    by_vectors<float>(
        part, [&](auto vectors) __attribute__((always_inline)) {
          group_scores<vectors>(queries_ + part.from, addresses_.k, addresses_.k_step, o_.qk_dim, part.begin,
                                part.end, scores + part.from, largest);
        });
    guard_.note(flushing);
  }

  // `exclusions` is null unless some value is not finite.
  [[gnu::always_inline]] void values(const Segment &part, const float *weights, const float *exclusions,
                                     float *out, float *sums) {
    if (guard_.is_exact()) [[unlikely]]
      return exact_values(part, weights, exclusions, out, sums);
    const typename S::Flushing flushing;
    by_vectors<float>(
        part, [&](auto vectors) __attribute__((always_inline)) {
          if (exclusions) {
            group_values<vectors, true>(weights + part.from, exclusions + part.from, addresses_.v, part.begin,
                                        part.end, o_.v_dim, out + part.from, sums + part.from);
          } else {
            group_values<vectors, false>(weights + part.from, nullptr, addresses_.v, part.begin, part.end,
                                         o_.v_dim, out + part.from, sums + part.from);
          }
        });
    guard_.note(flushing);
  }

 private:
  static constexpr std::size_t group = rapt::Bf16Contract::group;

  // f(the first term of a group, its terms) for the terms [begin, end).
  template <class F>
  static void each_group(std::size_t begin, std::size_t end, F f) {
    for (std::size_t i = begin; i < end; i += group) f(i, end - i < group ? end - i : group);
  }

  [[gnu::noinline, gnu::cold]] void exact_scores(const Segment &part, float *scores, float *largest) const {
    for (std::size_t r = part.from; r < part.to; ++r) {
      float max = -std::numeric_limits<float>::infinity();
      for (std::size_t j = part.begin; j < part.end; ++j) {
        const float *const key = addresses_.k[j];
        float sum = 0;
        each_group(0, o_.qk_dim, [&](std::size_t d, std::size_t count) {
          sum = add_group_with_flushes(
              sum, count, [&](std::size_t i) { return queries_[(d + i) * tile_pitch + r]; },
              [&](std::size_t i) { return key[static_cast<std::ptrdiff_t>(d + i) * addresses_.k_step]; });
        });
        scores[j * tile_pitch + r] = sum;
        if (sum > max) max = sum;
      }
      largest[r - part.from] = max;
    }
  }

  [[gnu::noinline, gnu::cold]] void exact_values(const Segment &part, const float *weights,
                                                 const float *exclusions, float *out, float *sums) const {
    for (std::size_t r = part.from; r < part.to; ++r) {
      each_group(part.begin, part.end, [&](std::size_t j, std::size_t count) {
        const auto weight = [&](std::size_t i) { return weights[(j + i) * tile_pitch + r]; };
        for (std::size_t d = 0; d < o_.v_dim; ++d) {
          float &value = out[d * tile_pitch + r];
          value = add_group_with_flushes(value, count, weight, [&](std::size_t i) {
            const bool is_excluded = exclusions && exclusions[(j + i) * tile_pitch + r] != 0;
            return is_excluded ? 0.0f : addresses_.v[j + i][d];
          });
        }
        sums[r] = add_group_with_flushes(sums[r], count, weight, [](std::size_t) { return 1.0f; });
      });
    }
  }

  FlushGuard<typename S::Flushing> guard_;
};

}  // namespace
