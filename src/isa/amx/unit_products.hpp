// The products of a panel by AMX, with weights beside them.
//
// A unit is the scores of 16 keys and the panel's rows, keys by rows like all scores: one accumulator for each
// vector of rows. AMX tiles 0 to 3 accumulate, 4 and 5 have keys or values, 6 and 7 queries or weights.
//
// A product takes 16 cycles, and vector operations beside it are free. So every product is followed by the
// weights of a few pairs of keys, whose scores are older. Accumulators are stored when the next ones need the
// AMX tiles: stored at once they would wait for their last product.
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

// From scores to weights, pairs of keys in order: units of a chunk, in each the vectors of rows, in each the
// pairs. A weight is a bf16; a pair of them lies where products want it.
template <int vectors>
class Weigher {
 public:
  // Units of scores and groups of weights are kept modulo this.
  static constexpr std::size_t units = 8, groups = 8;
  static constexpr std::size_t pairs_of_unit = 8 * vectors;

  Weigher(const float *scores, rapt::BF16 *weights, const float *to_log2, const float *offset)
      : scores_(scores), weights_(weights), to_log2_(to_log2), offset_(offset) {}

  void begin(std::size_t unit) { pair_ = end_ = unit * pairs_of_unit; }
  // The scores of all units before this one are ready.
  void allow(std::size_t unit) { end_ = unit * pairs_of_unit; }

  // False where a weight since clear() is NaN or reaches 2.
  bool all_small() const {
    return _mm512_test_epi32_mask(bits_, _mm512_set1_epi32(~bits_of_small)) == 0;
  }
  void clear() { bits_ = _mm512_setzero_si512(); }

  // `count` pairs, a divisor of 8, if their scores are ready.
  template <std::size_t count>
  [[gnu::always_inline]] void step() {
    if (pair_ >= end_) return;
    const std::size_t unit = pair_ / pairs_of_unit, row = pair_ / 8 % vectors * 16, first = pair_ % 8;
    const __m512 to_log2 = _mm512_loadu_ps(to_log2_ + row), offset = _mm512_loadu_ps(offset_ + row);
    const float *const from = scores_ + unit % units * unit_length + first * 2 * tile_pitch + row;
    const __m512i low_to_high = _mm512_set4_epi32(0x0d0c0c0c, 0x09080808, 0x05040404, 0x01000000);
    rapt::BF16 *const to = weights_ + unit / 2 % groups * (vectors * amx_elements) +
                           unit % 2 * (amx_elements / 2) + row / 16 * amx_elements + first * 32;
    unroll<count>([&](auto i) __attribute__((always_inline)) {
      const float *const at = from + 2 * i * tile_pitch;
      const __m512i even = weight(_mm512_loadu_ps(at), to_log2, offset),
                    odd = weight(_mm512_loadu_ps(at + tile_pitch), to_log2, offset);
      _mm512_storeu_si512(to + i * 32, _mm512_mask_shuffle_epi8(even, 0xccccccccccccccccull, odd, low_to_high));
      bits_ = _mm512_ternarylogic_epi32(bits_, even, odd, 0xfe);
    });
    pair_ += count;
  }
  void rest() {
    while (pair_ % 4 != 0) step<1>();
    while (pair_ < end_) step<4>();
  }

 private:
  using C = rapt::Bf16Contract;
  // The bits of a small weight's sum with `magic`, and of 0.
  static constexpr int bits_of_small = 0x47c03fff;

  // z - floor(z), rounded to nearest, is z less the nearest integer, plus 1 where that is negative.
  // VREDUCEPS by floor() rounds down too: 31 weights would differ.
  [[gnu::always_inline]] static __m512i weight(__m512 score, __m512 to_log2, __m512 offset) {
    const __m512 c1 = _mm512_set1_ps(C::c1), c2 = _mm512_set1_ps(C::c2), c3 = _mm512_set1_ps(C::c3);
    const __m512 lowest = _mm512_set1_ps(C::lowest), magic = _mm512_set1_ps(C::magic);
    const __m512 one = _mm512_set1_ps(1.0f), zero = _mm512_setzero_ps();
    const __m512 z = _mm512_fmadd_ps(score, to_log2, offset);
    const __mmask16 counts = _mm512_cmp_ps_mask(z, lowest, _CMP_NLT_UQ);
    const __m512 r = _mm512_reduce_ps(z, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 f = _mm512_mask_add_ps(r, _mm512_cmp_ps_mask(r, zero, _CMP_LT_OQ), r, one);
    const __m512 p = _mm512_fmadd_ps(_mm512_fmadd_ps(_mm512_fmadd_ps(c3, f, c2), f, c1), f, z);
    return _mm512_castps_si512(_mm512_maskz_add_ps(counts, p, magic));
  }

  const float *scores_;
  rapt::BF16 *weights_;
  const float *to_log2_, *offset_;
  std::size_t pair_ = 0, end_ = 0;
  __m512i bits_ = _mm512_setzero_si512();
};

// `pairs`: of keys whose weights follow each product.
template <int vectors, std::size_t pairs>
class UnitProducts {
 public:
  void flush() {
    if (!pending_) return;
    unroll<vectors>([&](auto c) __attribute__((always_inline)) {
      store_tile<c>(pending_ + c * amx_rows, scores_stride);
    });
    pending_ = nullptr;
  }

  // The scores of a unit, which flush() or the next products store to `to`.
  [[gnu::noinline, gnu::flatten]] void scores(const rapt::BF16 *keys, const rapt::BF16 *queries,
                                              std::size_t steps, float *to, Weigher<vectors> &weigher) {
    Weigher<vectors> w = weigher;
    float *const pending = pending_;
    load_tile<4>(keys, amx_row_bytes);
    unroll<vectors>([&](auto c) __attribute__((always_inline)) {
      load_tile<6 + c % 2>(queries + c * amx_elements, amx_row_bytes);
      if (pending) store_tile<c>(pending + c * amx_rows, scores_stride);
      zero_tile<c>();
      multiply_tiles<c, 4, 6 + c % 2>();
      w.template step<pairs>();
    });
    for (std::size_t t = 1; t < steps; ++t) {
      keys += amx_elements;
      queries += vectors * amx_elements;
      load_tile<5>(keys, amx_row_bytes);
      unroll<vectors>([&](auto c) __attribute__((always_inline)) {
        load_tile<6 + c % 2>(queries + c * amx_elements, amx_row_bytes);
        multiply_tiles<c, 5, 6 + c % 2>();
        w.template step<pairs>();
      });
    }
    pending_ = to;
    weigher = w;
  }

  // out[d][row] += the weights of `groups` groups of keys times their values, for `depth` times 16 dimensions
  // and then the sum of the weights; out counts as 0 if it is `fresh`. Values of 16 dimensions lie `pitch`
  // elements apart.
  [[gnu::noinline, gnu::flatten]] void values(const rapt::BF16 *values, std::size_t pitch, std::size_t depth,
                                              const rapt::BF16 *ones, const rapt::BF16 *weights,
                                              std::size_t groups, bool fresh, float *out,
                                              Weigher<vectors> &weigher) {
    Weigher<vectors> w = weigher;
    float *pending = pending_;
    for (std::size_t ct = 0; ct <= depth; ++ct, values += pitch, out += unit_length) {
      const bool sums = ct == depth;
      const rapt::BF16 *v = sums ? ones : values, *of = weights;
      const std::size_t step = sums ? 0 : amx_elements, stride = sums ? 0 : amx_row_bytes;
      load_tile<4>(v, stride);
      unroll<vectors>([&](auto c) __attribute__((always_inline)) {
        load_tile<6 + c % 2>(of + c * amx_elements, amx_row_bytes);
        if (pending) store_tile<c>(pending + c * amx_rows, scores_stride);
        if (fresh) {
          zero_tile<c>();
        } else {
          load_tile<c>(out + c * amx_rows, scores_stride);
        }
        multiply_tiles<c, 4, 6 + c % 2>();
        w.template step<pairs>();
      });
      for (std::size_t g = 1; g < groups; ++g) {
        v += step;
        of += vectors * amx_elements;
        load_tile<5>(v, stride);
        unroll<vectors>([&](auto c) __attribute__((always_inline)) {
          load_tile<6 + c % 2>(of + c * amx_elements, amx_row_bytes);
          multiply_tiles<c, 5, 6 + c % 2>();
          w.template step<pairs>();
        });
      }
      pending = out;
    }
    pending_ = pending;
    weigher = w;
  }

 private:
  float *pending_ = nullptr;  // where the accumulators belong
};

}  // namespace
