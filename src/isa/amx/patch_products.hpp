// Multiplies queries by keys, and weights by values, with AMX. Computes weights between the products.
//
// A patch is the scores of 32 keys and 32 rows, or 16 rows if the tile has no more. It is stored key by key
// like all scores. AMX tiles 0 to 3 accumulate the products of two tiles of keys and two tiles of rows. Tiles
// 4 and 5 have keys or values, and tiles 6 and 7 have queries or weights. So each product needs one load.
// With one tile of keys and four tiles of rows, four products would need five loads.
//
// A product takes 16 cycles. During a product, 512-bit multiplications, maxima and VREDUCEPS have only one
// port, but additions and integer operations still have two. So the weights of an earlier patch are computed
// between the products of this patch. Both together take 510 cycles, instead of 310 + 320 one after the
// other. Accumulators are stored only when the next products need their tiles, because an immediate store
// would wait for the last product.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "contract/bf16_arithmetic.hpp"
#include "contract/types.hpp"
#include "isa/amx/tiles.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/attention/panels.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

inline constexpr std::size_t patch_keys = amx_k32, amx_pitch = amx_rows * tile_pitch;
inline constexpr std::size_t scores_stride = tile_pitch * sizeof(float);

// Describes keys that AMX can load as tiles. A tile has 16 keys and 32 dimensions, and its rows are
// `row_bytes` apart. The tile of the next 16 keys is `pitch` elements further. The tile of the next 32
// dimensions is `step` elements further.
struct KeyTiles {
  const rapt::BF16 *first;
  std::size_t pitch, step, row_bytes;

  KeyTiles from(std::size_t key) const { return {first + key / amx_rows * pitch, pitch, step, row_bytes}; }
};

// Describes how to compute the weights of a patch. Weights of `scores` are stored to `to` as pairs of bf16,
// in the order that products need.
struct PatchWeights {
  const float *scores;
  rapt::BF16 *to;
  const float *to_log2, *offset;  // per row
};

// The rows of a tile are `vectors` vectors of 16 rows. A patch has `wide` of them.
template <std::size_t vectors>
class PatchProducts {
 public:
  static constexpr std::size_t wide = vectors < 2 ? vectors : 2;

  // Returns whether no weight since clear() was NaN or reached 2.
  bool all_small() const { return _mm512_test_epi32_mask(bits_, _mm512_set1_epi32(~bits_of_small)) == 0; }
  void clear() { bits_ = _mm512_setzero_si512(); }

  void flush() {
    if (!pending_) return;
    each([&](auto a, auto c) RAPT_INNER { store<a, c>(pending_); });
    pending_ = nullptr;
  }

  // Multiplies a patch's queries and keys. flush(), or the next call, stores the scores to `to`.
  void scores(const KeyTiles &keys, const rapt::BF16 *queries, std::size_t steps, float *to) {
    scores_from<0>(keys, queries, steps, to, [](auto, auto) RAPT_INNER {});
  }

  void weights(const PatchWeights &w) {
    Weigher weigher(w);
    unroll<16 * wide>([&](auto i) RAPT_INNER { weigher.template pair<i>(); });
    bits_ = _mm512_or_si512(bits_, weigher.bits);
  }

  // Multiplies the queries and keys of one patch, and computes the weights `w` of another patch. After each
  // product, it computes the weights of `pairs` pairs of keys.
  template <std::size_t pairs>
  [[gnu::noinline, gnu::flatten]] void scores_and_weights(const KeyTiles &keys, const rapt::BF16 *queries,
                                                          std::size_t steps, float *to,
                                                          const PatchWeights &w) {
    Weigher weigher(w);
    scores_from<8 / pairs>(keys, queries, steps, to, [&](auto t, auto product) RAPT_INNER {
      unroll<pairs>([&](auto i)
                        RAPT_INNER { weigher.template pair<(t * 2 * wide + product) * pairs + i>(); });
    });
    bits_ = _mm512_or_si512(bits_, weigher.bits);
  }

  // Adds `k32s` groups of 32 keys to the rows of a patch: out[d][row] += weights times values. The sums of
  // weights follow the last dimension of out. The values have `depth` groups of 16 dimensions, `pitch`
  // elements apart; `depth` is even. If `fresh`, out counts as 0. If `factors` is not null, each row of out
  // is first multiplied by its factor.
  [[gnu::noinline, gnu::flatten]] void values(const rapt::BF16 *values, std::size_t pitch, std::size_t depth,
                                              const rapt::BF16 *ones, const rapt::BF16 *weights,
                                              std::size_t k32s, bool fresh, const float *factors,
                                              float *out) {
    if (factors) {
      flush();
      rescale(out + depth * amx_pitch, amx_rows, factors);
      rescale(out, 2 * amx_rows, factors);
    }
    values_of<1>(ones, 0, 0, 0, weights, k32s, fresh, out + depth * amx_pitch);
    for (std::size_t ct = 0; ct < depth; ct += 2, values += 2 * pitch, out += 2 * amx_pitch) {
      values_of<2>(values, pitch, amx_elements, amx_row_bytes, weights, k32s, fresh, out);
      if (factors && ct + 2 < depth) rescale(out + 2 * amx_pitch, 2 * amx_rows, factors);
    }
  }

 private:
  // These are all bits that can be set in 0, or in the sum of `magic` and a weight below 2.
  static constexpr int bits_of_small = 0x47c03fff;

  // Computes weights. f is z - floor(z), rounded to nearest. VREDUCEPS subtracts the nearest integer from z,
  // and 1 is added if the result is negative. VREDUCEPS with floor would round differently, and change 31
  // weights.
  struct Weigher {
    using C = rapt::Bf16Contract;
    const PatchWeights of;
    __m512i bits = _mm512_setzero_si512();
    __m512 to_log2, offset;
    const __m512 c1 = _mm512_set1_ps(C::c1), c2 = _mm512_set1_ps(C::c2), c3 = _mm512_set1_ps(C::c3);
    const __m512 lowest = _mm512_set1_ps(C::lowest), magic = _mm512_set1_ps(C::magic);
    const __m512 one = _mm512_set1_ps(1.0f), zero = _mm512_setzero_ps();
    const __m512i low_to_high = _mm512_set4_epi32(0x0d0c0c0c, 0x09080808, 0x05040404, 0x01000000);

    RAPT_INNER explicit Weigher(const PatchWeights &w) : of(w) {}

    // Computes the weights of key pair i % 16 for the 16 rows of vector i / 16.
    template <std::size_t i>
    RAPT_INNER void pair() {
      constexpr std::size_t row = i / 16 * 16, pair = i % 16;
      if constexpr (pair == 0) {
        to_log2 = _mm512_loadu_ps(of.to_log2 + row);
        offset = _mm512_loadu_ps(of.offset + row);
      }
      const float *const at = of.scores + 2 * pair * tile_pitch + row;
      const __m512i even = weight(_mm512_loadu_ps(at)), odd = weight(_mm512_loadu_ps(at + tile_pitch));
      _mm512_storeu_si512(of.to + i / 16 * amx_elements + pair * 32,
                          _mm512_mask_shuffle_epi8(even, 0xccccccccccccccccull, odd, low_to_high));
      bits = _mm512_ternarylogic_epi32(bits, even, odd, 0xfe);
    }
    RAPT_INNER __m512i weight(__m512 score) const {
      const __m512 z = _mm512_fmadd_ps(score, to_log2, offset);
      const __mmask16 counts = _mm512_cmp_ps_mask(z, lowest, _CMP_NLT_UQ);
      const __m512 r = _mm512_reduce_ps(z, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      const __m512 f = _mm512_mask_add_ps(r, _mm512_cmp_ps_mask(r, zero, _CMP_LT_OQ), r, one);
      const __m512 p = _mm512_fmadd_ps(_mm512_fmadd_ps(_mm512_fmadd_ps(c3, f, c2), f, c1), f, z);
      return _mm512_castps_si512(_mm512_maskz_add_ps(counts, p, magic));
    }
  };

  // Calls f(a, c) for each accumulator: `a` is its AMX tile of keys or dimensions, `c` its tile of rows.
  template <std::size_t deep = 2, class F>
  RAPT_INNER static void each(F f) {
    unroll_pairs<deep, wide>(f);
  }
  template <std::size_t a, std::size_t c>
  RAPT_INNER static void store(float *to) {
    store_tile<2 * a + c>(to + a * amx_pitch + c * amx_rows, scores_stride);
  }

  // Multiplies queries and keys, 32 dimensions per step. During the first `beside_steps` steps, calls
  // beside(step, number of the product) after each product.
  template <std::size_t beside_steps, class Beside>
  RAPT_INNER void scores_from(const KeyTiles &keys, const rapt::BF16 *queries, std::size_t steps, float *to,
                              Beside beside) {
    float *const pending = pending_;
    const rapt::BF16 *at = keys.first;
    const std::size_t pitch = keys.pitch, key_step = keys.step, row_bytes = keys.row_bytes;
    const auto step = [&](auto first, auto product) RAPT_INNER {
      load_tile<4>(at, row_bytes);
      each([&](auto a, auto c) RAPT_INNER {
        if constexpr (a == 0) load_tile<6 + c>(queries + c * amx_elements, amx_row_bytes);
        if constexpr (a == 1 && c == 0) load_tile<5>(at + pitch, row_bytes);
        if constexpr (first) {
          if (pending) store<a, c>(pending);
          zero_tile<2 * a + c>();
        }
        multiply_tiles<2 * a + c, 4 + a, 6 + c>();
        product(std::integral_constant<std::size_t, a * wide + c>{});
      });
      at += key_step;
      queries += vectors * amx_elements;
    };
    constexpr std::size_t unrolled = beside_steps == 0 ? 1 : beside_steps;
    unroll<unrolled>([&](auto t) RAPT_INNER {
      step(std::bool_constant<t == 0>{}, [&](auto product) RAPT_INNER {
        if constexpr (beside_steps != 0) beside(t, product);
      });
    });
    for (std::size_t t = unrolled; t < steps; ++t) {
      step(std::false_type{}, [](auto) RAPT_INNER {});
    }
    pending_ = to;
  }

  RAPT_INNER static void rescale(float *out, std::size_t dim, const float *factors) {
    unroll<wide>([&](std::size_t c) RAPT_INNER {
      const __m512 factor = _mm512_loadu_ps(factors + c * amx_rows);
      for (std::size_t d = 0; d < dim; ++d) {
        float *const at = out + d * tile_pitch + c * amx_rows;
        _mm512_storeu_ps(at, _mm512_mul_ps(_mm512_loadu_ps(at), factor));
      }
    });
  }

  template <std::size_t deep>
  RAPT_INNER void values_of(const rapt::BF16 *values, std::size_t pitch, std::size_t step, std::size_t stride,
                            const rapt::BF16 *weights, std::size_t k32s, bool fresh, float *out) {
    float *const pending = pending_, *const pending_sums = pending_sums_;
    const auto take = [&](auto first) RAPT_INNER {
      load_tile<4>(values, stride);
      each<deep>([&](auto a, auto c) RAPT_INNER {
        if constexpr (a == 0) load_tile<6 + c>(weights + c * amx_elements, amx_row_bytes);
        if constexpr (a == 1 && c == 0) load_tile<5>(values + pitch, stride);
        if constexpr (first) {
          if constexpr (a == 0) {
            if (pending_sums) store<0, c>(pending_sums);
          }
          if (pending) {
            store<a, c>(pending);
            if constexpr (deep == 1) store<1, c>(pending);
          }
          if (fresh) {
            zero_tile<2 * a + c>();
          } else {
            load_tile<2 * a + c>(out + a * amx_pitch + c * amx_rows, scores_stride);
          }
        }
        multiply_tiles<2 * a + c, 4 + a, 6 + c>();
      });
      values += step;
      weights += wide * amx_elements;
    };
    take(std::true_type{});
    for (std::size_t g = 1; g < k32s; ++g) take(std::false_type{});
    pending_ = deep == 1 ? nullptr : out;
    pending_sums_ = deep == 1 ? out : nullptr;
  }

  float *pending_ = nullptr;       // where to store the accumulators
  float *pending_sums_ = nullptr;  // where to store the accumulators of the sums of weights
  __m512i bits_ = _mm512_setzero_si512();
};

}  // namespace
