// What the kernels need of AVX2 and FMA beside xsimd: masked tails, folds, arithmetic on the bits.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <xsimd/xsimd.hpp>

#include "contract/exp.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// A window that begins k elements before the middle has its first k lanes set.
alignas(64) constexpr std::int32_t tail_window[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
alignas(64) constexpr std::int64_t tail_window64[8] = {-1, -1, -1, -1, 0, 0, 0, 0};

// The first k of count bytes, the rest 0; no byte after them is read.
template <std::size_t count>
std::uint64_t load_bytes(const std::uint8_t *p, std::size_t k) {
  std::uint64_t bytes = 0;
  if (k >= count) {
    std::memcpy(&bytes, p, count);
  } else {
    for (std::size_t i = 0; i < k; ++i) bytes |= std::uint64_t{p[i]} << (8 * i);
  }
  return bytes;
}

template <class T>
struct simd;

template <>
struct simd<float> {
  using batch = xsimd::batch<float, xsimd::fma3<xsimd::avx2>>;
  using mask = __m256;
  static constexpr std::size_t width = 8;
  static constexpr std::size_t panel_vectors = 2;  // of rows in a panel of attention
  static constexpr bool fetches_by_line = false;   // in a tile of scores, kernels/attention/panels.hpp
  static constexpr std::size_t dot_rows_together =
      1;  // 8 accumulators a row fill the 16 registers with the operands
  static constexpr bool max_keeps_nan = false;
  static constexpr bool joins_halves = false;
  static constexpr bool masks_are_free = false;
  static constexpr bool exp_keeps_nan = false;
  static constexpr bool has_scale_by_power = false;

  static __m256i first(std::size_t k) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(tail_window + 8 - (k < 8 ? k : 8)));
  }
  // Element j into lane j of the last k lanes, the others 0 and not read; k is at least 1.
  static batch load_last(const float *p, std::size_t k) {
    return _mm256_maskload_ps(p, _mm256_xor_si256(first(width - k), _mm256_set1_epi32(-1)));
  }
  static batch load(const float *p) { return _mm256_loadu_ps(p); }
  static void store(float *p, batch v) { _mm256_storeu_ps(p, v); }
  static constexpr bool aligns_dot = true;
  static constexpr bool shifts = false;
  // Past the caches; p is aligned. end_streaming() before others may look.
  static constexpr bool can_stream = true;
  static void stream(float *p, batch v) { _mm256_stream_ps(p, v); }
  static void end_streaming() { _mm_sfence(); }
  static batch load_first(const float *p, std::size_t k) { return _mm256_maskload_ps(p, first(k)); }
  static void store_first(float *p, batch v, std::size_t k) { _mm256_maskstore_ps(p, first(k), v); }
  static mask load_flags(const std::uint8_t *p, std::size_t k) {
    const __m128i bytes = _mm_cvtsi64_si128(static_cast<long long>(load_bytes<8>(p, k)));
    const __m256i flags = _mm256_cvtepu8_epi32(bytes);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(flags, _mm256_setzero_si256()));
  }

  static batch fma(batch a, batch b, batch c) { return _mm256_fmadd_ps(a, b, c); }
  static batch fnma(batch a, batch b, batch c) { return _mm256_fnmadd_ps(a, b, c); }
  static batch divide(batch a, batch b) { return _mm256_div_ps(a, b); }
  static batch max(batch a, batch b) { return _mm256_max_ps(a, b); }
  // b where a is NaN; b is not.
  static batch max_number(batch a, batch b) { return _mm256_max_ps(a, b); }
  static batch min(batch a, batch b) { return _mm256_min_ps(a, b); }
  static batch abs(batch a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  static mask less(batch a, batch b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
  static mask equal(batch a, batch b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
  // |a| >= limit, or NaN: in the signs alone, which is what any() looks at. On the bits, as a comparison of
  // numbers would take one of the two ports that the polynomial fills: 8 % of exp.
  static mask magnitude_reaches(batch a, batch limit) {
    const __m256i magnitude = _mm256_castps_si256(abs(a));
    const __m256i below = _mm256_sub_epi32(_mm256_castps_si256(limit), _mm256_set1_epi32(1));
    return _mm256_castsi256_ps(_mm256_sub_epi32(below, magnitude));
  }
  static mask not_greater(batch a, batch b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
  static mask unordered(batch a, batch b) { return _mm256_cmp_ps(a, b, _CMP_UNORD_Q); }
  static mask either(mask a, mask b) { return _mm256_or_ps(a, b); }
  static mask negate(mask a) { return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1))); }
  static bool any(mask m) { return _mm256_movemask_ps(m) != 0; }
  static batch select(mask m, batch yes, batch no) { return _mm256_blendv_ps(no, yes, m); }
  static batch zero_where(mask m, batch v) { return _mm256_andnot_ps(m, v); }
  // v with lane k and all after it 0.
  static batch keep_first(batch v, std::size_t k) { return _mm256_and_ps(_mm256_castsi256_ps(first(k)), v); }
  // v with lane k and all after it `value`.
  static batch fill_after(batch v, std::size_t k, float value) {
    return _mm256_blendv_ps(_mm256_set1_ps(value), v, _mm256_castsi256_ps(first(k)));
  }

  static batch add_exponent(batch p, batch n) {
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(n), 23)));
  }
  static batch subtract_bits(batch a, batch b) {
    return _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }

  static batch add_where(mask m, batch a, batch b) { return _mm256_add_ps(a, _mm256_and_ps(m, b)); }
  static batch subtract_bits_where(mask m, batch a, batch b) { return subtract_bits(a, _mm256_and_ps(m, b)); }

  // p * 2^n in the lanes where v is not at or below `cutoff`, 0 in the others; n is `shifted` less
  // round_magic. By a product, which passes a NaN on.
  static batch scale_by_power_above(batch v, batch cutoff, batch p, batch, batch shifted) {
    const __m256 above = _mm256_cmp_ps(v, cutoff, _CMP_NLE_UQ);
    return _mm256_and_ps(above, _mm256_mul_ps(p, add_exponent(batch(1.0f), shifted)));
  }
  // Lane j of v[i] and lane i of v[j] change places.
  [[gnu::always_inline]] static void transpose(batch (&v)[width]) {
    batch pairs[width];
    unroll<2>([&](auto half) __attribute__((always_inline)) {
      constexpr std::size_t i = 4 * half;
      const __m256 a = _mm256_unpacklo_ps(v[i], v[i + 1]), b = _mm256_unpackhi_ps(v[i], v[i + 1]);
      const __m256 c = _mm256_unpacklo_ps(v[i + 2], v[i + 3]), d = _mm256_unpackhi_ps(v[i + 2], v[i + 3]);
      pairs[i] = _mm256_shuffle_ps(a, c, 0x44);
      pairs[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
      pairs[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
      pairs[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    });
    unroll<4>([&](auto i) __attribute__((always_inline)) {
      v[i] = _mm256_permute2f128_ps(pairs[i], pairs[i + 4], 0x20);
      v[i + 4] = _mm256_permute2f128_ps(pairs[i], pairs[i + 4], 0x31);
    });
  }
  // v[i] becomes element i of each of the rows. Joining halves of rows as they are loaded leaves two thirds
  // of the shuffles, which all go to one port.
  [[gnu::always_inline]] static void load_transposed(batch (&v)[width], const float *const *row,
                                                     std::size_t at) {
    unroll<2>([&](auto c) __attribute__((always_inline)) {
      __m256 halves[4];
      unroll<4>([&](auto i) __attribute__((always_inline)) {
        const auto from = [&](std::size_t r) { return _mm_loadu_ps(row[r] + at + 4 * c); };
        halves[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(from(i)), from(i + 4), 1);
      });
      const __m256 a = _mm256_unpacklo_ps(halves[0], halves[1]);
      const __m256 b = _mm256_unpackhi_ps(halves[0], halves[1]);
      const __m256 x = _mm256_unpacklo_ps(halves[2], halves[3]);
      const __m256 y = _mm256_unpackhi_ps(halves[2], halves[3]);
      v[4 * c] = _mm256_shuffle_ps(a, x, 0x44);
      v[4 * c + 1] = _mm256_shuffle_ps(a, x, 0xee);
      v[4 * c + 2] = _mm256_shuffle_ps(b, y, 0x44);
      v[4 * c + 3] = _mm256_shuffle_ps(b, y, 0xee);
    });
  }

  static float fold(batch v) {
    const __m128 h4 = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 h2 = _mm_add_ps(h4, _mm_movehl_ps(h4, h4));
    return _mm_cvtss_f32(_mm_add_ss(h2, _mm_movehdup_ps(h2)));
  }
  // out[j] = scale * fold(vj)
  static void store_scaled_folds(float *out, float scale, batch v0, batch v1, batch v2, batch v3) {
    const __m256 a =
        _mm256_add_ps(_mm256_permute2f128_ps(v0, v1, 0x20), _mm256_permute2f128_ps(v0, v1, 0x31));
    const __m256 b =
        _mm256_add_ps(_mm256_permute2f128_ps(v2, v3, 0x20), _mm256_permute2f128_ps(v2, v3, 0x31));
    const __m256 h2 = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
    // Now v0 v0 v2 v2 | v1 v1 v3 v3.
    const __m256 h1 = _mm256_add_ps(h2, _mm256_movehdup_ps(h2));
    const __m128 even = _mm256_castps256_ps128(h1), odd = _mm256_extractf128_ps(h1, 1);
    const __m128 sums = _mm_blend_ps(even, _mm_moveldup_ps(odd), 0xa);
    _mm_storeu_ps(out, _mm_mul_ps(_mm_set1_ps(scale), sums));
  }
  // Lane r becomes the fold of v[r] by op, as fold() has it by addition.
  template <class Op>
  static batch fold_each(const batch (&v)[width], Op op) {
    const auto halves = [&](std::size_t i) {
      return op(_mm256_permute2f128_ps(v[i], v[i + 4], 0x20), _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
    };
    const auto pairs = [&](batch a, batch b) {
      return op(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xee));
    };
    const batch a = pairs(halves(0), halves(1)), b = pairs(halves(2), halves(3));
    return op(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
  }
  static float fold_max(batch v) {
    const __m128 h4 = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 h2 = _mm_max_ps(h4, _mm_movehl_ps(h4, h4));
    return _mm_cvtss_f32(_mm_max_ss(h2, _mm_movehdup_ps(h2)));
  }
  static void add_to(double *total, batch v) {
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    _mm256_storeu_pd(total, _mm256_add_pd(_mm256_loadu_pd(total), low));
    _mm256_storeu_pd(total + 4, _mm256_add_pd(_mm256_loadu_pd(total + 4), high));
  }
};

template <>
struct simd<double> {
  using batch = xsimd::batch<double, xsimd::fma3<xsimd::avx2>>;
  using mask = __m256d;
  static constexpr std::size_t width = 4;
  static constexpr std::size_t panel_vectors = 2;  // of rows in a panel of attention
  static constexpr bool fetches_by_line = false;   // in a tile of scores, kernels/attention/panels.hpp
  static constexpr std::size_t dot_rows_together =
      1;  // 8 accumulators a row fill the 16 registers with the operands
  static constexpr bool max_keeps_nan = false;
  static constexpr bool joins_halves = false;
  static constexpr bool masks_are_free = false;
  static constexpr bool exp_keeps_nan = false;
  static constexpr bool has_scale_by_power = false;

  static __m256i first(std::size_t k) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(tail_window64 + 4 - (k < 4 ? k : 4)));
  }
  // Element j into lane j of the last k lanes, the others 0 and not read; k is at least 1.
  static batch load_last(const double *p, std::size_t k) {
    return _mm256_maskload_pd(p, _mm256_xor_si256(first(width - k), _mm256_set1_epi32(-1)));
  }
  static batch load(const double *p) { return _mm256_loadu_pd(p); }
  static void store(double *p, batch v) { _mm256_storeu_pd(p, v); }
  static constexpr bool aligns_dot = true;
  static constexpr bool shifts = false;
  // Past the caches; p is aligned. end_streaming() before others may look.
  static constexpr bool can_stream = true;
  static void stream(double *p, batch v) { _mm256_stream_pd(p, v); }
  static void end_streaming() { _mm_sfence(); }
  static batch load_first(const double *p, std::size_t k) { return _mm256_maskload_pd(p, first(k)); }
  static void store_first(double *p, batch v, std::size_t k) { _mm256_maskstore_pd(p, first(k), v); }
  static mask load_flags(const std::uint8_t *p, std::size_t k) {
    const __m256i flags =
        _mm256_cvtepu8_epi64(_mm_cvtsi64_si128(static_cast<long long>(load_bytes<4>(p, k))));
    return _mm256_castsi256_pd(_mm256_cmpgt_epi64(flags, _mm256_setzero_si256()));
  }

  static batch fma(batch a, batch b, batch c) { return _mm256_fmadd_pd(a, b, c); }
  static batch fnma(batch a, batch b, batch c) { return _mm256_fnmadd_pd(a, b, c); }
  static batch divide(batch a, batch b) { return _mm256_div_pd(a, b); }
  static batch max(batch a, batch b) { return _mm256_max_pd(a, b); }
  static batch max_number(batch a, batch b) { return _mm256_max_pd(a, b); }
  static batch min(batch a, batch b) { return _mm256_min_pd(a, b); }
  static batch abs(batch a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
  static mask less(batch a, batch b) { return _mm256_cmp_pd(a, b, _CMP_LT_OQ); }
  static mask equal(batch a, batch b) { return _mm256_cmp_pd(a, b, _CMP_EQ_OQ); }
  // |a| >= limit, or NaN: in the signs alone, which is what any() looks at. On the bits, as a comparison of
  // numbers would take one of the two ports that the polynomial fills: 8 % of exp.
  static mask magnitude_reaches(batch a, batch limit) {
    const __m256i magnitude = _mm256_castpd_si256(abs(a));
    const __m256i below = _mm256_sub_epi64(_mm256_castpd_si256(limit), _mm256_set1_epi64x(1));
    return _mm256_castsi256_pd(_mm256_sub_epi64(below, magnitude));
  }
  static mask not_greater(batch a, batch b) { return _mm256_cmp_pd(a, b, _CMP_LE_OQ); }
  static mask unordered(batch a, batch b) { return _mm256_cmp_pd(a, b, _CMP_UNORD_Q); }
  static mask either(mask a, mask b) { return _mm256_or_pd(a, b); }
  static mask negate(mask a) { return _mm256_xor_pd(a, _mm256_castsi256_pd(_mm256_set1_epi32(-1))); }
  static bool any(mask m) { return _mm256_movemask_pd(m) != 0; }
  static batch select(mask m, batch yes, batch no) { return _mm256_blendv_pd(no, yes, m); }
  static batch zero_where(mask m, batch v) { return _mm256_andnot_pd(m, v); }
  // v with lane k and all after it 0.
  static batch keep_first(batch v, std::size_t k) { return _mm256_and_pd(_mm256_castsi256_pd(first(k)), v); }
  // v with lane k and all after it `value`.
  static batch fill_after(batch v, std::size_t k, double value) {
    return _mm256_blendv_pd(_mm256_set1_pd(value), v, _mm256_castsi256_pd(first(k)));
  }

  static batch add_exponent(batch p, batch n) {
    return _mm256_castsi256_pd(
        _mm256_add_epi64(_mm256_castpd_si256(p), _mm256_slli_epi64(_mm256_castpd_si256(n), 52)));
  }
  static batch subtract_bits(batch a, batch b) {
    return _mm256_castsi256_pd(_mm256_sub_epi64(_mm256_castpd_si256(a), _mm256_castpd_si256(b)));
  }

  static batch add_where(mask m, batch a, batch b) { return _mm256_add_pd(a, _mm256_and_pd(m, b)); }
  static batch subtract_bits_where(mask m, batch a, batch b) { return subtract_bits(a, _mm256_and_pd(m, b)); }

  // p * 2^n in the lanes where v is not at or below `cutoff`, 0 in the others; n is `shifted` less
  // round_magic. By a product, which passes a NaN on.
  static batch scale_by_power_above(batch v, batch cutoff, batch p, batch, batch shifted) {
    const __m256d above = _mm256_cmp_pd(v, cutoff, _CMP_NLE_UQ);
    return _mm256_and_pd(above, _mm256_mul_pd(p, add_exponent(batch(1.0), shifted)));
  }
  // Lane j of v[i] and lane i of v[j] change places.
  [[gnu::always_inline]] static void transpose(batch (&v)[width]) {
    const __m256d a = _mm256_unpacklo_pd(v[0], v[1]), b = _mm256_unpackhi_pd(v[0], v[1]);
    const __m256d c = _mm256_unpacklo_pd(v[2], v[3]), d = _mm256_unpackhi_pd(v[2], v[3]);
    v[0] = _mm256_permute2f128_pd(a, c, 0x20);
    v[1] = _mm256_permute2f128_pd(b, d, 0x20);
    v[2] = _mm256_permute2f128_pd(a, c, 0x31);
    v[3] = _mm256_permute2f128_pd(b, d, 0x31);
  }
  // v[i] becomes element i of each of the rows.
  [[gnu::always_inline]] static void load_transposed(batch (&v)[width], const double *const *row,
                                                     std::size_t at) {
    unroll<2>([&](auto c) __attribute__((always_inline)) {
      const auto from = [&](std::size_t r) { return _mm_loadu_pd(row[r] + at + 2 * c); };
      const __m256d a = _mm256_insertf128_pd(_mm256_castpd128_pd256(from(0)), from(2), 1);
      const __m256d b = _mm256_insertf128_pd(_mm256_castpd128_pd256(from(1)), from(3), 1);
      v[2 * c] = _mm256_unpacklo_pd(a, b);
      v[2 * c + 1] = _mm256_unpackhi_pd(a, b);
    });
  }

  static double fold(batch v) {
    const __m128d h2 = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(h2, _mm_unpackhi_pd(h2, h2)));
  }
  static void store_scaled_folds(double *out, double scale, batch v0, batch v1, batch v2, batch v3) {
    const __m256d a =
        _mm256_add_pd(_mm256_permute2f128_pd(v0, v2, 0x20), _mm256_permute2f128_pd(v0, v2, 0x31));
    const __m256d b =
        _mm256_add_pd(_mm256_permute2f128_pd(v1, v3, 0x20), _mm256_permute2f128_pd(v1, v3, 0x31));
    const __m256d sums = _mm256_add_pd(_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
    _mm256_storeu_pd(out, _mm256_mul_pd(_mm256_set1_pd(scale), sums));
  }
  template <class Op>
  static batch fold_each(const batch (&v)[width], Op op) {
    const auto halves = [&](std::size_t i) {
      return op(_mm256_permute2f128_pd(v[i], v[i + 2], 0x20), _mm256_permute2f128_pd(v[i], v[i + 2], 0x31));
    };
    const batch even = halves(0), odd = halves(1);
    return op(_mm256_unpacklo_pd(even, odd), _mm256_unpackhi_pd(even, odd));
  }
  static double fold_max(batch v) {
    const __m128d h2 = _mm_max_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_max_sd(h2, _mm_unpackhi_pd(h2, h2)));
  }
};

}  // namespace
