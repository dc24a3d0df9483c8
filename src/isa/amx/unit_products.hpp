// The products of a panel by AMX, with weights between them.
//
// A unit is the scores of 16 keys and the panel's rows, keys by rows like all scores: one accumulator for each
// vector of rows. AMX tiles 0 to 3 accumulate, 4 and 5 have keys or values, 6 and 7 queries or weights.
//
// A product takes 16 cycles and the vector operations beside it are free. So the weights of an earlier unit
// are computed between the products of this one. Accumulators are stored when the next ones need the tiles:
// stored at once they would wait for their last product.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "contract/bf16_arithmetic.hpp"
#include "contract/types.hpp"
#include "isa/amx/tiles.hpp"
#include "kernels/attention/panels.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

inline constexpr std::size_t unit_keys = amx_rows, unit_length = unit_keys * tile_pitch;
inline constexpr std::size_t scores_stride = tile_pitch * sizeof(float);

// The weights of a unit: scores to pairs of bf16 that lie as products want them.
struct UnitWeights {
  const float *scores;
  rapt::BF16 *to;
  const float *to_log2, *offset;  // of each row
};

template <int vectors>
class UnitProducts {
 public:
  // 0 where no weight since clear() is NaN or reaches 2.
  bool all_small() const {
    return _mm512_test_epi32_mask(bits_, _mm512_set1_epi32(~bits_of_small)) == 0;
  }
  void clear() { bits_ = _mm512_setzero_si512(); }

  bool awaits(const float *to) const { return pending_ == to; }
  void flush() {
    if (!pending_) return;
    unroll<vectors>([&](auto c) __attribute__((always_inline)) {
      store_tile<c>(pending_ + c * amx_rows, scores_stride);
    });
    pending_ = nullptr;
  }

  // The scores of a unit, which flush() or the next products store to `to`.
  void scores(const rapt::BF16 *keys, const rapt::BF16 *queries, std::size_t steps, float *to) {
    first_scores(keys, queries, [](auto) __attribute__((always_inline)) {});
    for (std::size_t t = 1; t < steps; ++t) {
      keys += amx_elements;
      queries += vectors * amx_elements;
      more_scores<4>(keys, queries, [](auto) __attribute__((always_inline)) {});
    }
    pending_ = to;
  }

  void weights(const UnitWeights &w) {
    Weigher weigher(w);
    unroll<8 * vectors>([&](auto i) __attribute__((always_inline)) { weigher.template pair<i>(); });
    bits_ = _mm512_or_si512(bits_, weigher.bits);
  }

  // Both, of different units. pairs: of keys between two products.
  template <std::size_t pairs>
  [[gnu::noinline, gnu::flatten]] void scores_and_weights(const rapt::BF16 *keys, const rapt::BF16 *queries,
                                                          std::size_t steps, float *to,
                                                          const UnitWeights &w) {
    constexpr std::size_t weighing = 8 / pairs;
    Weigher weigher(w);
    unroll<weighing>([&](auto t) __attribute__((always_inline)) {
      const auto beside = [&](auto c) __attribute__((always_inline)) {
        unroll<pairs>([&](auto i) __attribute__((always_inline)) {
          weigher.template pair<(t * vectors + c) * pairs + i>();
        });
      };
      if constexpr (t == 0) {
        first_scores(keys, queries, beside);
      } else {
        more_scores<t % 2 == 0 ? 4 : 5>(keys + t * amx_elements, queries + t * vectors * amx_elements, beside);
      }
    });
    for (std::size_t t = weighing; t < steps; ++t) {
      more_scores<4>(keys + t * amx_elements, queries + t * vectors * amx_elements,
                     [](auto) __attribute__((always_inline)) {});
    }
    pending_ = to;
    bits_ = _mm512_or_si512(bits_, weigher.bits);
  }

  // out[d][row] += the weights of `groups` groups of keys times their values, for `depth` times 16 dimensions
  // and then the sum of the weights; out counts as 0 if it is `fresh`. Values of 16 dimensions lie `pitch`
  // elements apart.
  [[gnu::noinline, gnu::flatten]] void values(const rapt::BF16 *values, std::size_t pitch, std::size_t depth,
                                              const rapt::BF16 *ones, const rapt::BF16 *weights,
                                              std::size_t groups, bool fresh, float *out) {
    for (std::size_t ct = 0; ct <= depth; ++ct, values += pitch, out += unit_length) {
      const bool sums = ct == depth;
      const rapt::BF16 *v = sums ? ones : values, *w = weights;
      const std::size_t step = sums ? 0 : amx_elements, stride = sums ? 0 : amx_row_bytes;
      load_tile<4>(v, stride);
      unroll<vectors>([&](auto c) __attribute__((always_inline)) {
        load_tile<6 + c % 2>(w + c * amx_elements, amx_row_bytes);
        if (pending_) store_tile<c>(pending_ + c * amx_rows, scores_stride);
        if (fresh) {
          zero_tile<c>();
        } else {
          load_tile<c>(out + c * amx_rows, scores_stride);
        }
        multiply_tiles<c, 4, 6 + c % 2>();
      });
      for (std::size_t g = 1; g < groups; ++g) {
        v += step;
        w += vectors * amx_elements;
        load_tile<5>(v, stride);
        unroll<vectors>([&](auto c) __attribute__((always_inline)) {
          load_tile<6 + c % 2>(w + c * amx_elements, amx_row_bytes);
          multiply_tiles<c, 5, 6 + c % 2>();
        });
      }
      pending_ = out;
    }
  }

 private:
  // The bits of a small weight's sum with `magic`, and of 0.
  static constexpr int bits_of_small = 0x47c03fff;

  // z - floor(z), rounded to nearest, is z less the nearest integer, plus 1 where that is negative.
  // VREDUCEPS by floor() rounds down too: 31 weights would differ.
  struct Weigher {
    using C = rapt::Bf16Contract;
    const UnitWeights &of;
    __m512i bits = _mm512_setzero_si512();
    __m512 to_log2, offset;
    const __m512 c1 = _mm512_set1_ps(C::c1), c2 = _mm512_set1_ps(C::c2), c3 = _mm512_set1_ps(C::c3);
    const __m512 lowest = _mm512_set1_ps(C::lowest), magic = _mm512_set1_ps(C::magic);
    const __m512 one = _mm512_set1_ps(1.0f), zero = _mm512_setzero_ps();
    const __m512i low_to_high = _mm512_set4_epi32(0x0d0c0c0c, 0x09080808, 0x05040404, 0x01000000);

    [[gnu::always_inline]] explicit Weigher(const UnitWeights &w) : of(w) {}

    // Pair i of keys: 8 of each vector of rows.
    template <std::size_t i>
    [[gnu::always_inline]] void pair() {
      constexpr std::size_t row = i / 8 * 16, pair = i % 8;
      if constexpr (pair == 0) {
        to_log2 = _mm512_loadu_ps(of.to_log2 + row);
        offset = _mm512_loadu_ps(of.offset + row);
      }
      const float *const at = of.scores + 2 * pair * tile_pitch + row;
      const __m512i even = weight(_mm512_loadu_ps(at)), odd = weight(_mm512_loadu_ps(at + tile_pitch));
      _mm512_storeu_si512(of.to + i / 8 * amx_elements + pair * 32,
                          _mm512_mask_shuffle_epi8(even, 0xccccccccccccccccull, odd, low_to_high));
      bits = _mm512_ternarylogic_epi32(bits, even, odd, 0xfe);
    }
    [[gnu::always_inline]] __m512i weight(__m512 score) const {
      const __m512 z = _mm512_fmadd_ps(score, to_log2, offset);
      const __mmask16 counts = _mm512_cmp_ps_mask(z, lowest, _CMP_NLT_UQ);
      const __m512 r = _mm512_reduce_ps(z, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      const __m512 f = _mm512_mask_add_ps(r, _mm512_cmp_ps_mask(r, zero, _CMP_LT_OQ), r, one);
      const __m512 p = _mm512_fmadd_ps(_mm512_fmadd_ps(_mm512_fmadd_ps(c3, f, c2), f, c1), f, z);
      return _mm512_castps_si512(_mm512_maskz_add_ps(counts, p, magic));
    }
  };

  template <class Beside>
  [[gnu::always_inline]] void first_scores(const rapt::BF16 *keys, const rapt::BF16 *queries, Beside beside) {
    load_tile<4>(keys, amx_row_bytes);
    unroll<vectors>([&](auto c) __attribute__((always_inline)) {
      load_tile<6 + c % 2>(queries + c * amx_elements, amx_row_bytes);
      if (pending_) store_tile<c>(pending_ + c * amx_rows, scores_stride);
      zero_tile<c>();
      multiply_tiles<c, 4, 6 + c % 2>();
      beside(c);
    });
  }
  template <int a, class Beside>
  [[gnu::always_inline]] void more_scores(const rapt::BF16 *keys, const rapt::BF16 *queries, Beside beside) {
    load_tile<a>(keys, amx_row_bytes);
    unroll<vectors>([&](auto c) __attribute__((always_inline)) {
      load_tile<6 + c % 2>(queries + c * amx_elements, amx_row_bytes);
      multiply_tiles<c, a, 6 + c % 2>();
      beside(c);
    });
  }

  float *pending_ = nullptr;  // where the accumulators belong
  __m512i bits_ = _mm512_setzero_si512();
};

}  // namespace
