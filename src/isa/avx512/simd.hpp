// What the kernels need of AVX-512 beside xsimd: masked tails, fused operations that xsimd 8 rounds twice,
// folds.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <xsimd/xsimd.hpp>

#include "contract/exp.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class T>
struct simd;

template <>
struct simd<float> {
  using batch = xsimd::batch<float, xsimd::avx512bw>;
  using mask = __mmask16;
  static constexpr std::size_t width = 16;
  static constexpr std::size_t panel_vectors = 4;      // of rows in a panel of attention
  static constexpr bool fetches_by_line = true;        // in a tile of scores, kernels/attention/panels.hpp
  static constexpr std::size_t dot_rows_together = 4;  // 4 accumulators a row
  static constexpr bool max_keeps_nan = false;
  static constexpr bool masks_are_free = true;  // an operation can zero lanes by a mask
  static constexpr bool exp_keeps_nan = true;   // vscalefps passes a NaN on; an addition to its bits need not

  static mask first(std::size_t k) {
    return static_cast<mask>(_bzhi_u32(0xffff, static_cast<unsigned>(k < 16 ? k : 16)));
  }
  // Element j into lane j of the last k lanes, the others 0 and not read; k is at least 1.
  static batch load_last(const float *p, std::size_t k) {
    return _mm512_maskz_loadu_ps(static_cast<mask>(~0u << (width - k)), p);
  }
  static batch load(const float *p) { return _mm512_loadu_ps(p); }
  // shifted(a, b, shift_by(k)): a and b as one, from lane k of a on.
  static constexpr bool aligns_dot = true;
  static constexpr bool shifts = true;
  static __m512i shift_by(std::size_t k) {
    const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(k)));
  }
  static batch shifted(batch a, batch b, __m512i shift) { return _mm512_permutex2var_ps(a, shift, b); }
  static void store(float *p, batch v) { _mm512_storeu_ps(p, v); }
  // Past the caches; p is aligned. end_streaming() before others may look.
  static constexpr bool can_stream = true;
  static void stream(float *p, batch v) { _mm512_stream_ps(p, v); }
  static void end_streaming() { _mm_sfence(); }
  static batch load_first(const float *p, std::size_t k) { return _mm512_maskz_loadu_ps(first(k), p); }
  static void store_first(float *p, batch v, std::size_t k) { _mm512_mask_storeu_ps(p, first(k), v); }
  static mask load_flags(const std::uint8_t *p, std::size_t k) {
    const __m128i flags = _mm_maskz_loadu_epi8(first(k), p);
    return _mm_test_epi8_mask(flags, flags);
  }

  static batch fma(batch a, batch b, batch c) { return _mm512_fmadd_ps(a, b, c); }
  static batch fnma(batch a, batch b, batch c) { return _mm512_fnmadd_ps(a, b, c); }
  static batch divide(batch a, batch b) { return _mm512_div_ps(a, b); }
  static batch max(batch a, batch b) { return _mm512_max_ps(a, b); }
  static batch min(batch a, batch b) { return _mm512_min_ps(a, b); }
  // b where a is NaN; b is not.
  static batch max_number(batch a, batch b) { return _mm512_max_ps(a, b); }
  static batch abs(batch a) { return _mm512_abs_ps(a); }
  static mask less(batch a, batch b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
  static mask equal(batch a, batch b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  static mask unordered(batch a, batch b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q); }
  static mask either(mask a, mask b) { return static_cast<mask>(a | b); }
  static mask negate(mask a) { return static_cast<mask>(~a); }
  static bool any(mask m) { return m != 0; }
  static batch select(mask m, batch yes, batch no) { return _mm512_mask_blend_ps(m, no, yes); }
  static batch zero_where(mask m, batch v) { return _mm512_maskz_mov_ps(negate(m), v); }
  // v with lane k and all after it 0.
  static batch keep_first(batch v, std::size_t k) { return _mm512_maskz_mov_ps(first(k), v); }
  // v with lane k and all after it `value`.
  static batch fill_after(batch v, std::size_t k, float value) {
    return _mm512_mask_mov_ps(_mm512_set1_ps(value), first(k), v);
  }

  // The bits of p plus the low bits of n, moved to the exponent.
  static batch add_exponent(batch p, batch n) {
    return _mm512_castsi512_ps(
        _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(n), 23)));
  }

  // p * 2^n with one rounding, for any n.
  static constexpr bool has_scale_by_power = true;
  static batch scale_by_power(batch p, batch n) { return _mm512_scalef_ps(p, n); }
  // p * 2^n in the lanes where v is not at or below `cutoff`, 0 in the others; n is `shifted` less
  // round_magic.
  static batch scale_by_power_above(batch v, batch cutoff, batch p, batch n, batch) {
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(v, cutoff, _CMP_NLE_UQ), p, n);
  }
  // Lane j of v[i] and lane i of v[j] change places.
  [[gnu::always_inline]] static void transpose(batch (&v)[width]) {
    batch pairs[width];
    unroll<4>([&](auto quarter) __attribute__((always_inline)) {
      constexpr std::size_t i = 4 * quarter;
      const __m512 a = _mm512_unpacklo_ps(v[i], v[i + 1]), b = _mm512_unpackhi_ps(v[i], v[i + 1]);
      const __m512 c = _mm512_unpacklo_ps(v[i + 2], v[i + 3]), d = _mm512_unpackhi_ps(v[i + 2], v[i + 3]);
      pairs[i] = _mm512_shuffle_ps(a, c, 0x44);
      pairs[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
      pairs[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
      pairs[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    });
    unroll<4>([&](auto i) __attribute__((always_inline)) {
      const __m512 a = _mm512_shuffle_f32x4(pairs[i], pairs[i + 4], 0x88);
      const __m512 b = _mm512_shuffle_f32x4(pairs[i], pairs[i + 4], 0xdd);
      const __m512 c = _mm512_shuffle_f32x4(pairs[i + 8], pairs[i + 12], 0x88);
      const __m512 d = _mm512_shuffle_f32x4(pairs[i + 8], pairs[i + 12], 0xdd);
      v[i] = _mm512_shuffle_f32x4(a, c, 0x88);
      v[i + 4] = _mm512_shuffle_f32x4(b, d, 0x88);
      v[i + 8] = _mm512_shuffle_f32x4(a, c, 0xdd);
      v[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
    });
  }
  // v[i] becomes element i of each of the rows. Joining quarters of rows as they are loaded leaves half of
  // the shuffles, which all go to one port: 40 cycles against 64.
  [[gnu::always_inline]] static void load_transposed(batch (&v)[width], const float *const *row,
                                                     std::size_t at) {
    unroll<4>([&](auto c) __attribute__((always_inline)) {
      __m512 quarters[4];
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        const auto from = [&](std::size_t r) { return _mm_loadu_ps(row[r] + at + 4 * c); };
        __m512 rows = _mm512_castps128_ps512(from(i));
        rows = _mm512_insertf32x4(rows, from(i + 4), 1);
        rows = _mm512_insertf32x4(rows, from(i + 8), 2);
        quarters[i] = _mm512_insertf32x4(rows, from(i + 12), 3);
      });
      const __m512 a = _mm512_unpacklo_ps(quarters[0], quarters[1]);
      const __m512 b = _mm512_unpackhi_ps(quarters[0], quarters[1]);
      const __m512 x = _mm512_unpacklo_ps(quarters[2], quarters[3]);
      const __m512 y = _mm512_unpackhi_ps(quarters[2], quarters[3]);
      v[4 * c] = _mm512_shuffle_ps(a, x, 0x44);
      v[4 * c + 1] = _mm512_shuffle_ps(a, x, 0xee);
      v[4 * c + 2] = _mm512_shuffle_ps(b, y, 0x44);
      v[4 * c + 3] = _mm512_shuffle_ps(b, y, 0xee);
    });
  }
  // Whichever is smaller in magnitude; b if a is NaN.
  static batch nearer_zero(batch a, batch b) { return _mm512_range_ps(a, b, 0b0110); }
  static batch add_where(mask m, batch a, batch b) { return _mm512_mask_add_ps(a, m, a, b); }
  // Where m is set, a - b on the bits.
  static batch subtract_bits_where(mask m, batch a, batch b) {
    const __m512i bits = _mm512_castps_si512(a);
    return _mm512_castsi512_ps(_mm512_mask_sub_epi32(bits, m, bits, _mm512_castps_si512(b)));
  }
  // Whether sign, exponent or first mantissa bit of any lane is not that of `same`.
  template <std::size_t registers>
  static bool high_bits_differ(const batch (&v)[registers], batch same) {
    const auto bits = [](batch a) { return _mm512_castps_si512(a); };
    constexpr int unequal = 0x7e, unequal_or = 0xf6;  // a, b, c not all equal; a | (b ^ c)
    __m512i differ = _mm512_xor_si512(bits(v[0]), bits(same));
    if constexpr (registers == 4) {
      differ = _mm512_ternarylogic_epi64(bits(v[0]), bits(v[1]), bits(v[2]), unequal);
      differ = _mm512_ternarylogic_epi64(differ, bits(v[0]), bits(v[3]), unequal_or);
      differ = _mm512_ternarylogic_epi64(differ, bits(v[0]), bits(same), unequal_or);
    } else {
      for (std::size_t r = 1; r < registers; ++r) {
        differ = _mm512_ternarylogic_epi64(differ, bits(v[r]), bits(same), unequal_or);
      }
    }
    return _mm512_test_epi32_mask(differ, _mm512_set1_epi32(static_cast<int>(0xffc00000u))) != 0;
  }

  static float fold(batch v) {
    const __m256 h8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 h4 = _mm_add_ps(_mm256_castps256_ps128(h8), _mm256_extractf128_ps(h8, 1));
    const __m128 h2 = _mm_add_ps(h4, _mm_movehl_ps(h4, h4));
    return _mm_cvtss_f32(_mm_add_ss(h2, _mm_movehdup_ps(h2)));
  }
  // out[j] = scale * fold(vj)
  static void store_scaled_folds(float *out, float scale, batch v0, batch v1, batch v2, batch v3) {
    const __m512 a = _mm512_add_ps(_mm512_shuffle_f32x4(v0, v1, 0x44), _mm512_shuffle_f32x4(v0, v1, 0xee));
    const __m512 b = _mm512_add_ps(_mm512_shuffle_f32x4(v2, v3, 0x44), _mm512_shuffle_f32x4(v2, v3, 0xee));
    const __m512 h4 = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    const __m512 h2 = _mm512_add_ps(h4, _mm512_permute_ps(h4, 0x4e));
    const __m512 h1 = _mm512_add_ps(h2, _mm512_permute_ps(h2, 0xb1));
    const __m512i each = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
    const __m128 sums = _mm512_castps512_ps128(_mm512_permutexvar_ps(each, h1));
    _mm_storeu_ps(out, _mm_mul_ps(_mm_set1_ps(scale), sums));
  }
  // The lower halves of a and b.
  static constexpr bool joins_halves = true;
  static batch join_halves(batch a, batch b) { return _mm512_shuffle_f32x4(a, b, 0x44); }
  static batch upper_half(batch v) { return _mm512_shuffle_f32x4(v, v, 0xee); }
  // v with lane k and all after it 0 in its lower half, lane l and all after it in its upper half.
  static batch keep_first_of_halves(batch v, std::size_t k, std::size_t l) {
    return _mm512_maskz_mov_ps(static_cast<mask>(first(k) | first(l) << 8), v);
  }

  // Lane r becomes the fold of v[r] by op, as fold() has it by addition.
  template <class Op>
  static batch fold_each(const batch (&v)[width], Op op) {
    batch half[width / 2];
    for (std::size_t i = 0; i < 4; ++i) {
      half[i] = op(_mm512_shuffle_f32x4(v[i], v[i + 4], 0x44), _mm512_shuffle_f32x4(v[i], v[i + 4], 0xee));
      half[i + 4] = op(_mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0x44),
                       _mm512_shuffle_f32x4(v[i + 8], v[i + 12], 0xee));
    }
    return fold_each_half(half, op);
  }
  // The same of rows that are halves: v[i] has rows i and i + 4, v[i + 4] has rows i + 8 and i + 12, i < 4.
  template <class Op>
  static batch fold_each_half(const batch (&v)[width / 2], Op op) {
    const auto quarters = [&](batch a, batch b) {
      return op(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    };
    const auto pairs = [&](batch a, batch b) {
      return op(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    };
    const auto lanes = [&](batch a, batch b) {
      return op(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
    };
    const auto four = [&](std::size_t i) { return quarters(v[i], v[i + 4]); };
    return lanes(pairs(four(0), four(1)), pairs(four(2), four(3)));
  }
  static float fold_max(batch v) { return _mm512_reduce_max_ps(v); }
  // total[i] += v[i] in f64.
  static void add_to(double *total, batch v) {
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
    _mm512_storeu_pd(total, _mm512_add_pd(_mm512_loadu_pd(total), low));
    _mm512_storeu_pd(total + 8, _mm512_add_pd(_mm512_loadu_pd(total + 8), high));
  }
};

template <>
struct simd<double> {
  using batch = xsimd::batch<double, xsimd::avx512bw>;
  using mask = __mmask8;
  static constexpr std::size_t width = 8;
  static constexpr std::size_t panel_vectors = 4;      // of rows in a panel of attention
  static constexpr bool fetches_by_line = true;        // in a tile of scores, kernels/attention/panels.hpp
  static constexpr std::size_t dot_rows_together = 4;  // 4 accumulators a row
  static constexpr bool max_keeps_nan = false;
  static constexpr bool joins_halves = false;
  static constexpr bool masks_are_free = true;  // an operation can zero lanes by a mask
  static constexpr bool exp_keeps_nan = true;   // vscalefps passes a NaN on; an addition to its bits need not

  static mask first(std::size_t k) {
    return static_cast<mask>(_bzhi_u32(0xff, static_cast<unsigned>(k < 8 ? k : 8)));
  }
  // Element j into lane j of the last k lanes, the others 0 and not read; k is at least 1.
  static batch load_last(const double *p, std::size_t k) {
    return _mm512_maskz_loadu_pd(static_cast<mask>(~0u << (width - k)), p);
  }
  static batch load(const double *p) { return _mm512_loadu_pd(p); }
  // shifted(a, b, shift_by(k)): a and b as one, from lane k of a on.
  static constexpr bool aligns_dot = true;
  static constexpr bool shifts = true;
  static __m512i shift_by(std::size_t k) {
    const __m512i lanes = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_add_epi64(lanes, _mm512_set1_epi64(static_cast<long long>(k)));
  }
  static batch shifted(batch a, batch b, __m512i shift) { return _mm512_permutex2var_pd(a, shift, b); }
  static void store(double *p, batch v) { _mm512_storeu_pd(p, v); }
  // Past the caches; p is aligned. end_streaming() before others may look.
  static constexpr bool can_stream = true;
  static void stream(double *p, batch v) { _mm512_stream_pd(p, v); }
  static void end_streaming() { _mm_sfence(); }
  static batch load_first(const double *p, std::size_t k) { return _mm512_maskz_loadu_pd(first(k), p); }
  static void store_first(double *p, batch v, std::size_t k) { _mm512_mask_storeu_pd(p, first(k), v); }
  static mask load_flags(const std::uint8_t *p, std::size_t k) {
    const __m128i flags = _mm_maskz_loadu_epi8(first(k), p);
    return static_cast<mask>(_mm_test_epi8_mask(flags, flags));
  }

  static batch fma(batch a, batch b, batch c) { return _mm512_fmadd_pd(a, b, c); }
  static batch fnma(batch a, batch b, batch c) { return _mm512_fnmadd_pd(a, b, c); }
  static batch divide(batch a, batch b) { return _mm512_div_pd(a, b); }
  static batch max(batch a, batch b) { return _mm512_max_pd(a, b); }
  static batch min(batch a, batch b) { return _mm512_min_pd(a, b); }
  static batch max_number(batch a, batch b) { return _mm512_max_pd(a, b); }
  static batch abs(batch a) { return _mm512_abs_pd(a); }
  static mask less(batch a, batch b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
  static mask equal(batch a, batch b) { return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ); }
  static mask unordered(batch a, batch b) { return _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q); }
  static mask either(mask a, mask b) { return static_cast<mask>(a | b); }
  static mask negate(mask a) { return static_cast<mask>(~a); }
  static bool any(mask m) { return m != 0; }
  static batch select(mask m, batch yes, batch no) { return _mm512_mask_blend_pd(m, no, yes); }
  static batch zero_where(mask m, batch v) { return _mm512_maskz_mov_pd(negate(m), v); }
  // v with lane k and all after it 0.
  static batch keep_first(batch v, std::size_t k) { return _mm512_maskz_mov_pd(first(k), v); }
  // v with lane k and all after it `value`.
  static batch fill_after(batch v, std::size_t k, double value) {
    return _mm512_mask_mov_pd(_mm512_set1_pd(value), first(k), v);
  }

  static batch add_exponent(batch p, batch n) {
    return _mm512_castsi512_pd(
        _mm512_add_epi64(_mm512_castpd_si512(p), _mm512_slli_epi64(_mm512_castpd_si512(n), 52)));
  }

  // p * 2^n with one rounding, for any n.
  static constexpr bool has_scale_by_power = true;
  static batch scale_by_power(batch p, batch n) { return _mm512_scalef_pd(p, n); }
  // p * 2^n in the lanes where v is not at or below `cutoff`, 0 in the others; n is `shifted` less
  // round_magic.
  static batch scale_by_power_above(batch v, batch cutoff, batch p, batch n, batch) {
    return _mm512_maskz_scalef_pd(_mm512_cmp_pd_mask(v, cutoff, _CMP_NLE_UQ), p, n);
  }
  // Lane j of v[i] and lane i of v[j] change places.
  [[gnu::always_inline]] static void transpose(batch (&v)[width]) {
    batch pairs[width];
    unroll<4>([&](auto pair) __attribute__((always_inline)) {
      constexpr std::size_t i = 2 * pair;
      pairs[i] = _mm512_unpacklo_pd(v[i], v[i + 1]);
      pairs[i + 1] = _mm512_unpackhi_pd(v[i], v[i + 1]);
    });
    unroll<2>([&](auto i) __attribute__((always_inline)) {
      const __m512d a = _mm512_shuffle_f64x2(pairs[i], pairs[i + 2], 0x88);
      const __m512d b = _mm512_shuffle_f64x2(pairs[i], pairs[i + 2], 0xdd);
      const __m512d c = _mm512_shuffle_f64x2(pairs[i + 4], pairs[i + 6], 0x88);
      const __m512d d = _mm512_shuffle_f64x2(pairs[i + 4], pairs[i + 6], 0xdd);
      v[i] = _mm512_shuffle_f64x2(a, c, 0x88);
      v[i + 2] = _mm512_shuffle_f64x2(b, d, 0x88);
      v[i + 4] = _mm512_shuffle_f64x2(a, c, 0xdd);
      v[i + 6] = _mm512_shuffle_f64x2(b, d, 0xdd);
    });
  }
  // v[i] becomes element i of each of the rows.
  [[gnu::always_inline]] static void load_transposed(batch (&v)[width], const double *const *row,
                                                     std::size_t at) {
    unroll<4>([&](auto c) __attribute__((always_inline)) {
      __m512d quarters[2];
      unroll<2>([&](auto i) __attribute__((always_inline)) {
        const auto from = [&](std::size_t r) { return _mm_loadu_pd(row[r] + at + 2 * c); };
        __m512d rows = _mm512_castpd128_pd512(from(i));
        rows = _mm512_insertf64x2(rows, from(i + 2), 1);
        rows = _mm512_insertf64x2(rows, from(i + 4), 2);
        quarters[i] = _mm512_insertf64x2(rows, from(i + 6), 3);
      });
      v[2 * c] = _mm512_unpacklo_pd(quarters[0], quarters[1]);
      v[2 * c + 1] = _mm512_unpackhi_pd(quarters[0], quarters[1]);
    });
  }
  // Whichever is smaller in magnitude; b if a is NaN.
  static batch nearer_zero(batch a, batch b) { return _mm512_range_pd(a, b, 0b0110); }
  static batch add_where(mask m, batch a, batch b) { return _mm512_mask_add_pd(a, m, a, b); }
  static batch subtract_bits_where(mask m, batch a, batch b) {
    const __m512i bits = _mm512_castpd_si512(a);
    return _mm512_castsi512_pd(_mm512_mask_sub_epi64(bits, m, bits, _mm512_castpd_si512(b)));
  }
  // Whether sign, exponent or first mantissa bit of any lane is not that of `same`.
  template <std::size_t registers>
  static bool high_bits_differ(const batch (&v)[registers], batch same) {
    const auto bits = [](batch a) { return _mm512_castpd_si512(a); };
    constexpr int unequal = 0x7e, unequal_or = 0xf6;  // a, b, c not all equal; a | (b ^ c)
    __m512i differ = _mm512_xor_si512(bits(v[0]), bits(same));
    if constexpr (registers == 4) {
      differ = _mm512_ternarylogic_epi64(bits(v[0]), bits(v[1]), bits(v[2]), unequal);
      differ = _mm512_ternarylogic_epi64(differ, bits(v[0]), bits(v[3]), unequal_or);
      differ = _mm512_ternarylogic_epi64(differ, bits(v[0]), bits(same), unequal_or);
    } else {
      for (std::size_t r = 1; r < registers; ++r) {
        differ = _mm512_ternarylogic_epi64(differ, bits(v[r]), bits(same), unequal_or);
      }
    }
    return _mm512_test_epi64_mask(differ, _mm512_set1_epi64(static_cast<long long>(0xfff8000000000000u))) !=
           0;
  }

  static double fold(batch v) {
    const __m256d h4 = _mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1));
    const __m128d h2 = _mm_add_pd(_mm256_castpd256_pd128(h4), _mm256_extractf128_pd(h4, 1));
    return _mm_cvtsd_f64(_mm_add_sd(h2, _mm_unpackhi_pd(h2, h2)));
  }
  static void store_scaled_folds(double *out, double scale, batch v0, batch v1, batch v2, batch v3) {
    const __m512d a = _mm512_add_pd(_mm512_shuffle_f64x2(v0, v1, 0x44), _mm512_shuffle_f64x2(v0, v1, 0xee));
    const __m512d b = _mm512_add_pd(_mm512_shuffle_f64x2(v2, v3, 0x44), _mm512_shuffle_f64x2(v2, v3, 0xee));
    const __m512d h2 = _mm512_add_pd(_mm512_shuffle_f64x2(a, b, 0x88), _mm512_shuffle_f64x2(a, b, 0xdd));
    const __m512d h1 = _mm512_add_pd(h2, _mm512_permute_pd(h2, 0x55));
    const __m512i each = _mm512_set_epi64(0, 0, 0, 0, 6, 4, 2, 0);
    const __m256d sums = _mm512_castpd512_pd256(_mm512_permutexvar_pd(each, h1));
    _mm256_storeu_pd(out, _mm256_mul_pd(_mm256_set1_pd(scale), sums));
  }
  template <class Op>
  static batch fold_each(const batch (&v)[width], Op op) {
    const auto halves = [&](__m512d a, __m512d b) {
      return op(_mm512_shuffle_f64x2(a, b, 0x44), _mm512_shuffle_f64x2(a, b, 0xee));
    };
    const auto quarters = [&](batch a, batch b) {
      return op(_mm512_shuffle_f64x2(a, b, 0x88), _mm512_shuffle_f64x2(a, b, 0xdd));
    };
    const auto four = [&](std::size_t i) {
      return quarters(halves(v[i], v[i + 2]), halves(v[i + 4], v[i + 6]));
    };
    const batch even = four(0), odd = four(1);
    return op(_mm512_unpacklo_pd(even, odd), _mm512_unpackhi_pd(even, odd));
  }
  static double fold_max(batch v) { return _mm512_reduce_max_pd(v); }
};

}  // namespace
