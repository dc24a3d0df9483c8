// Multiplies panels of query rows in RAPT_ARITHMETIC_BF16, with rows in the vector lanes. A k32 is a group of
// 32 terms, whose even terms and odd terms are summed in separate chains (contract/bf16_arithmetic.hpp).
//
// The chains of 3 keys or dimensions by 4 vectors take 24 of AVX-512's 32 registers. The two additions at the
// end of a k32 are 6 % of its operations. Sums of earlier k32s are in memory.
//
//   1024 x 1024, AVX-512, time of f32 / time of bf16       | 64 dimensions | 128
//   a vector of queries or weights loaded for each use     | 0.71          | 0.71
//   loaded once per term                                   | 0.87          | 0.87
//   elements widened for their only use, not per block;    |               |
//   chains that begin with a product, not with 0           | 0.96          | 0.95
//
//   rejected variant                                       | slower by
//   AVX-512: two or more words per loop iteration          | 3 to 15 %
//   AVX2: one chain of 6 by 2 and then the other           | 0 to 1 %
//   the sums of the weights as one more dimension          | 0 to 2 %
#pragma once

#include <cstddef>
#include <type_traits>

#include "call/packed_keys.hpp"
#include "contract/attention.hpp"
#include "contract/bf16_arithmetic.hpp"
#include "contract/types.hpp"
#include "kernels/attention/panels.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

inline constexpr std::size_t k32_terms = rapt::Bf16Contract::k32;

// Describes the layout of a k32's widened elements. `two_terms` is the distance from a term to the one after
// the next. `item` is the distance to the next key or dimension. `odd` is the distance from an even term to
// the next odd one.
template <std::ptrdiff_t two_terms, std::ptrdiff_t item, std::ptrdiff_t odd>
struct K32Layout {
  static constexpr std::ptrdiff_t to_word = two_terms, to_item = item, to_odd = odd;
};
inline constexpr std::size_t half_k32 = k32_terms / 2;
// KeyK32 stores key by key, each with its 32 dimensions, even ones first. PackedKeyK32 stores dimension by
// dimension, each with 64 packed keys. ValueK32 stores key by key, each with 32 dimensions.
using KeyK32 = K32Layout<1, k32_terms, k32_terms / 2>;
using PackedKeyK32 = K32Layout<2 * rapt::packed_dim_stride, 1, rapt::packed_dim_stride>;
using ValueK32 = K32Layout<2 * k32_terms, 1, k32_terms>;

// Splits [begin, end) into groups of at most `most`, and calls f(first, count) for each, with a constant
// count.
template <std::size_t most, class F>
RAPT_INNER inline void by_k32_depth(std::size_t begin, std::size_t end, F f) {
  for (; end - begin >= most; begin += most) f(begin, std::integral_constant<std::size_t, most>{});
  if constexpr (most > 1) by_k32_depth<most - 1>(begin, end, f);
}

// Sets sum[i][v] to the even chain plus the odd chain of `count` terms. A term is vector v of the rows times
// element(right, the address of that vector). Chains begin with a product, so the sum may be -0 where chains
// from +0 would give +0. It is then added to a result that began with +0, which -0 does not change.
template <class Layout, std::size_t depth, std::size_t vectors, class Element>
RAPT_INNER inline void sum_k32(std::size_t count, const float *left, const float *right, Element element,
                               typename simd<float>::batch (&sum)[depth][vectors]) {
  using S = simd<float>;
  using batch = typename S::batch;
  batch chain[2][depth][vectors];
  const auto each = [](auto f) RAPT_INNER { unroll_pairs<depth, vectors>(f); };
  const auto take = [&](auto odd, auto begins) RAPT_INNER {
    batch l[vectors];
    const float *const from = left + odd * tile_pitch;
    unroll<vectors>([&](std::size_t v) RAPT_INNER {
      l[v] = S::load(from + v * S::width);
      S::keep_in_register(l[v]);
    });
    each([&](std::size_t i, std::size_t v) RAPT_INNER {
      const batch r = element(right + i * Layout::to_item + odd * Layout::to_odd, from + v * S::width);
      batch &of = chain[odd][i][v];
      of = begins ? l[v] * r : S::fma(l[v], r, of);
    });
  };
  constexpr std::integral_constant<std::ptrdiff_t, 0> even{};
  constexpr std::integral_constant<std::ptrdiff_t, 1> odd{};
  const auto next = [&]() RAPT_INNER {
    left += 2 * tile_pitch;
    right += Layout::to_word;
  };
  take(even, std::true_type{});
  if (count == 1) [[unlikely]] {
    each([&](std::size_t i, std::size_t v) RAPT_INNER { sum[i][v] = chain[0][i][v]; });
    return;
  }
  take(odd, std::true_type{});
  const float *const end = left + count / 2 * 2 * tile_pitch;
  next();
  while (left < end) {
    take(even, std::false_type{});
    take(odd, std::false_type{});
    next();
  }
  if (count % 2 == 1) [[unlikely]]
    take(even, std::false_type{});
  each([&](std::size_t i, std::size_t v) RAPT_INNER { sum[i][v] = chain[0][i][v] + chain[1][i][v]; });
}

// Broadcasts an element. This is one `element` argument of sum_k32().
inline constexpr auto plain_element = [](const float *right, const float *)
                                          RAPT_INNER { return typename simd<float>::batch(*right); };

// Adds the products of up to 32 dimensions to the scores of keys [begin, end). The caller sets FTZ and DAZ.
// elements(j, depth) returns the elements of `depth` keys from j on. If is_last, finds each row's largest
// score.
template <class Layout, std::size_t vectors, class Elements>
RAPT_INNER inline void add_k32_scores(const float *queries, std::size_t count, bool is_first, bool is_last,
                                      std::size_t begin, std::size_t end, Elements elements, float *scores,
                                      float *largest) {
  using S = simd<float>;
  using batch = typename S::batch;
  by_k32_depth<3>(begin, end, [&](std::size_t j, auto depth) RAPT_INNER {
    batch sum[depth][vectors];
    sum_k32<Layout>(count, queries, elements(j, depth), plain_element, sum);
    const auto each = [&](auto f) RAPT_INNER {
      unroll_pairs<depth, vectors>([&](std::size_t i, std::size_t v)
                                       RAPT_INNER { f(i, v, scores + (j + i) * tile_pitch + v * S::width); });
    };
    if (is_first) {  // turns -0 into +0
      each([&](std::size_t i, std::size_t v, float *) RAPT_INNER { sum[i][v] = batch(0.0f) + sum[i][v]; });
    } else {
      each([&](std::size_t i, std::size_t v, float *at) RAPT_INNER { sum[i][v] = S::load(at) + sum[i][v]; });
    }
    each([&](std::size_t i, std::size_t v, float *at) RAPT_INNER { S::store(at, sum[i][v]); });
    if (!is_last) return;
    unroll<vectors>([&](std::size_t v) RAPT_INNER {
      batch max = S::load(largest + v * S::width);
      unroll<depth>([&](std::size_t i) RAPT_INNER { max = S::max_number(sum[i][v], max); });
      S::store(largest + v * S::width, max);
    });
  });
}

// Widens 32 elements, loaded as words of two. Stores the even elements first, then the odd ones.
RAPT_INNER inline void widen_words(const rapt::BF16 *from, float *to) {
  using S = simd<float>;
  unroll<half_k32 / S::width>([&](std::size_t i) RAPT_INNER {
    const typename S::batch words = S::load(reinterpret_cast<const float *>(from) + i * S::width);
    S::store(to + i * S::width, S::lower_bf16(words));
    S::store(to + half_k32 + i * S::width, S::upper_bf16(words));
  });
}
// Does the work of widen_words() for only `count` elements at the end of a row.
[[gnu::noinline, gnu::flatten]] inline void widen_last_words(const rapt::BF16 *from, std::size_t count,
                                                             float *to) {
  using S = simd<float>;
  for (std::size_t w = 0; 2 * w < count; w += S::width) {
    const auto words = S::load_first(reinterpret_cast<const float *>(from) + w, count / 2 - w);
    S::store(to + w, S::lower_bf16(words));
    S::store(to + half_k32 + w, S::upper_bf16(words));
  }
  if (count % 2 == 1) to[count / 2] = rapt::widened(from[count - 1]);
}

// Up to 32 dimensions of a value are widened together. Returns the dimension of the i-th widened element. A
// whole k32 has its even dimensions first.
constexpr std::size_t dim_of_k32(std::size_t i, bool is_whole) {
  if (!is_whole) return i;
  return i < k32_terms / 2 ? 2 * i : 2 * i - (k32_terms - 1);
}

// Adds weighted values of up to 32 keys to the results of vectors of rows, for up to 32 dimensions.
template <std::size_t vectors, class Element, std::size_t most_depth>
RAPT_INNER inline void add_k32_values(const float *weights, std::size_t count, const float *values,
                                      std::size_t dims, Element element,
                                      std::integral_constant<std::size_t, most_depth>, float *out) {
  using S = simd<float>;
  using batch = typename S::batch;
  by_k32_depth<most_depth>(0, dims, [&](std::size_t d, auto depth) RAPT_INNER {
    batch sum[depth][vectors];
    sum_k32<ValueK32>(count, weights, values + d, element, sum);
    unroll<depth>([&](std::size_t i) RAPT_INNER {
      float *const to = out + dim_of_k32(d + i, dims == k32_terms) * tile_pitch;
      unroll<vectors>([&](std::size_t v) RAPT_INNER {
        S::store(to + v * S::width, S::load(to + v * S::width) + sum[i][v]);
      });
    });
  });
}

}  // namespace
