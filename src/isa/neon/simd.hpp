// What the kernels need of NEON beside xsimd: partial vectors, folds, arithmetic on the bits.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <xsimd/xsimd.hpp>

#include "contract/exp.hpp"

namespace {

template <class T>
struct simd;

template <>
struct simd<float> {
  using batch = xsimd::batch<float, xsimd::neon64>;
  using mask = uint32x4_t;
  static constexpr std::size_t width = 4;
  static constexpr std::size_t panel_vectors = 4;      // of rows in a panel of attention
  static constexpr bool fetches_by_line = false;       // in a tile of scores, kernels/attention/panels.hpp
  static constexpr std::size_t dot_rows_together = 1;  // 16 accumulators (f64 too) a row
  static constexpr bool max_keeps_nan = true;          // FMAX returns NaN if either operand is one
  static constexpr bool joins_halves = false;
  static constexpr bool masks_are_free = false;
  static constexpr bool exp_keeps_nan = false;
  static constexpr bool has_scale_by_power = false;

  static mask after(std::size_t k) {
    static constexpr std::uint32_t lane_index[] = {0, 1, 2, 3};
    return vcgeq_u32(vld1q_u32(lane_index), vdupq_n_u32(k < 4 ? static_cast<std::uint32_t>(k) : 4));
  }
  static batch load(const float *p) { return vld1q_f32(p); }
  // Loads that cross a line are cheap on the cores there are, and there is no masked one to begin with.
  static constexpr bool aligns_dot = false;
  static void store(float *p, batch v) { vst1q_f32(p, v); }
  // STNP is a hint of little effect on the cores there are.
  static constexpr bool can_stream = false;
  static void stream(float *p, batch v) { store(p, v); }
  static void end_streaming() {}
  static batch load_first(const float *p, std::size_t k) {
    if (k >= 4) return vld1q_f32(p);
    float32x4_t v = vdupq_n_f32(0);
    if (k > 0) v = vld1q_lane_f32(p, v, 0);
    if (k > 1) v = vld1q_lane_f32(p + 1, v, 1);
    if (k > 2) v = vld1q_lane_f32(p + 2, v, 2);
    return v;
  }
  static void store_first(float *p, batch v, std::size_t k) {
    if (k >= 4) return vst1q_f32(p, v);
    if (k > 0) vst1q_lane_f32(p, v, 0);
    if (k > 1) vst1q_lane_f32(p + 1, v, 1);
    if (k > 2) vst1q_lane_f32(p + 2, v, 2);
  }
  static mask load_flags(const std::uint8_t *p, std::size_t k) {
    uint32x4_t flags = vdupq_n_u32(0);
    if (k > 0) flags = vsetq_lane_u32(p[0], flags, 0);
    if (k > 1) flags = vsetq_lane_u32(p[1], flags, 1);
    if (k > 2) flags = vsetq_lane_u32(p[2], flags, 2);
    if (k > 3) flags = vsetq_lane_u32(p[3], flags, 3);
    return vtstq_u32(flags, flags);
  }

  static batch fma(batch a, batch b, batch c) { return vfmaq_f32(c, a, b); }
  static batch fnma(batch a, batch b, batch c) { return vfmsq_f32(c, a, b); }
  // xsimd 8 divides f32 on NEON by an estimate.
  static batch divide(batch a, batch b) { return vdivq_f32(a, b); }
  static batch max(batch a, batch b) { return vmaxq_f32(a, b); }
  // b where a is NaN; b is not.
  static batch max_number(batch a, batch b) { return vmaxnmq_f32(a, b); }
  static batch min(batch a, batch b) { return vminq_f32(a, b); }
  static batch abs(batch a) { return vabsq_f32(a); }
  static mask less(batch a, batch b) { return vcltq_f32(a, b); }
  static mask equal(batch a, batch b) { return vceqq_f32(a, b); }
  static mask magnitude_reaches(batch a, batch limit) { return negate(less(abs(a), limit)); }
  static mask not_greater(batch a, batch b) { return vcleq_f32(a, b); }
  static mask unordered(batch a, batch b) { return vmvnq_u32(vandq_u32(vceqq_f32(a, a), vceqq_f32(b, b))); }
  static mask either(mask a, mask b) { return vorrq_u32(a, b); }
  static mask negate(mask a) { return vmvnq_u32(a); }
  static bool any(mask m) { return vmaxvq_u32(m) != 0; }
  static batch select(mask m, batch yes, batch no) { return vbslq_f32(m, yes, no); }
  static batch zero_where(mask m, batch v) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), m));
  }
  // v with lane k and all after it 0.
  static batch keep_first(batch v, std::size_t k) { return zero_where(after(k), v); }
  // v with lane k and all after it `value`.
  static batch fill_after(batch v, std::size_t k, float value) {
    return vbslq_f32(after(k), vdupq_n_f32(value), v);
  }

  static batch add_exponent(batch p, batch n) {
    return vreinterpretq_f32_u32(
        vaddq_u32(vreinterpretq_u32_f32(p), vshlq_n_u32(vreinterpretq_u32_f32(n), 23)));
  }
  static batch subtract_bits(batch a, batch b) {
    return vreinterpretq_f32_u32(vsubq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)));
  }

  static batch where(mask m, batch v) {
    return vreinterpretq_f32_u32(vandq_u32(m, vreinterpretq_u32_f32(v)));
  }
  static batch add_where(mask m, batch a, batch b) { return vaddq_f32(a, where(m, b)); }
  static batch subtract_bits_where(mask m, batch a, batch b) { return subtract_bits(a, where(m, b)); }

  // p * 2^n in the lanes where v is not at or below `cutoff`, 0 in the others; n is `shifted` less
  // round_magic. By a product, which passes a NaN on.
  static batch scale_by_power_above(batch v, batch cutoff, batch p, batch, batch shifted) {
    return zero_where(vcleq_f32(v, cutoff), vmulq_f32(p, add_exponent(batch(1.0f), shifted)));
  }
  // Lane j of v[i] and lane i of v[j] change places.
  [[gnu::always_inline]] static void transpose(batch (&v)[width]) {
    const float32x4_t a = vtrn1q_f32(v[0], v[1]), b = vtrn2q_f32(v[0], v[1]);
    const float32x4_t c = vtrn1q_f32(v[2], v[3]), d = vtrn2q_f32(v[2], v[3]);
    v[0] = low_halves(a, c);
    v[1] = low_halves(b, d);
    v[2] = high_halves(a, c);
    v[3] = high_halves(b, d);
  }
  // v[i] becomes element i of each of the rows.
  static void load_transposed(batch (&v)[width], const float *const *row, std::size_t at) {
    for (std::size_t r = 0; r < width; ++r) v[r] = load(row[r] + at);
    transpose(v);
  }

  static float fold(batch v) {
    const float32x2_t h2 = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(vpadd_f32(h2, h2), 0);
  }
  // out[j] = scale * fold(vj)
  static void store_scaled_folds(float *out, float scale, batch v0, batch v1, batch v2, batch v3) {
    const float32x4_t a = vaddq_f32(low_halves(v0, v1), high_halves(v0, v1));
    const float32x4_t b = vaddq_f32(low_halves(v2, v3), high_halves(v2, v3));
    vst1q_f32(out, vmulq_n_f32(vpaddq_f32(a, b), scale));
  }
  static float32x4_t low_halves(float32x4_t a, float32x4_t b) {
    return vcombine_f32(vget_low_f32(a), vget_low_f32(b));
  }
  static float32x4_t high_halves(float32x4_t a, float32x4_t b) {
    return vcombine_f32(vget_high_f32(a), vget_high_f32(b));
  }
  // Lane r becomes the fold of v[r] by op, as fold() has it by addition.
  template <class Op>
  static batch fold_each(const batch (&v)[width], Op op) {
    const auto halves = [&](std::size_t i) {
      return op(low_halves(v[i], v[i + 1]), high_halves(v[i], v[i + 1]));
    };
    const batch a = halves(0), b = halves(2);
    return op(vuzp1q_f32(a, b), vuzp2q_f32(a, b));
  }
  static float fold_max(batch v) { return vmaxvq_f32(v); }
  static void add_to(double *total, batch v) {
    vst1q_f64(total, vaddq_f64(vld1q_f64(total), vcvt_f64_f32(vget_low_f32(v))));
    vst1q_f64(total + 2, vaddq_f64(vld1q_f64(total + 2), vcvt_high_f64_f32(v)));
  }
};

template <>
struct simd<double> {
  using batch = xsimd::batch<double, xsimd::neon64>;
  using mask = uint64x2_t;
  static constexpr std::size_t width = 2;
  static constexpr std::size_t panel_vectors = 4;      // of rows in a panel of attention
  static constexpr bool fetches_by_line = false;       // in a tile of scores, kernels/attention/panels.hpp
  static constexpr std::size_t dot_rows_together = 1;  // 16 accumulators (f64 too) a row
  static constexpr bool max_keeps_nan = true;
  static constexpr bool joins_halves = false;
  static constexpr bool masks_are_free = false;
  static constexpr bool exp_keeps_nan = false;
  static constexpr bool has_scale_by_power = false;

  static mask after(std::size_t k) {
    static constexpr std::uint64_t lane_index[] = {0, 1};
    return vcgeq_u64(vld1q_u64(lane_index), vdupq_n_u64(k < 2 ? k : 2));
  }
  static batch load(const double *p) { return vld1q_f64(p); }
  // Loads that cross a line are cheap on the cores there are, and there is no masked one to begin with.
  static constexpr bool aligns_dot = false;
  static void store(double *p, batch v) { vst1q_f64(p, v); }
  // STNP is a hint of little effect on the cores there are.
  static constexpr bool can_stream = false;
  static void stream(double *p, batch v) { store(p, v); }
  static void end_streaming() {}
  static batch load_first(const double *p, std::size_t k) {
    if (k >= 2) return vld1q_f64(p);
    const float64x2_t zero = vdupq_n_f64(0);
    return k > 0 ? vld1q_lane_f64(p, zero, 0) : zero;
  }
  static void store_first(double *p, batch v, std::size_t k) {
    if (k >= 2) return vst1q_f64(p, v);
    if (k > 0) vst1q_lane_f64(p, v, 0);
  }
  static mask load_flags(const std::uint8_t *p, std::size_t k) {
    uint64x2_t flags = vdupq_n_u64(0);
    if (k > 0) flags = vsetq_lane_u64(p[0], flags, 0);
    if (k > 1) flags = vsetq_lane_u64(p[1], flags, 1);
    return vtstq_u64(flags, flags);
  }

  static batch fma(batch a, batch b, batch c) { return vfmaq_f64(c, a, b); }
  static batch fnma(batch a, batch b, batch c) { return vfmsq_f64(c, a, b); }
  static batch divide(batch a, batch b) { return vdivq_f64(a, b); }
  static batch max(batch a, batch b) { return vmaxq_f64(a, b); }
  static batch max_number(batch a, batch b) { return vmaxnmq_f64(a, b); }
  static batch min(batch a, batch b) { return vminq_f64(a, b); }
  static batch abs(batch a) { return vabsq_f64(a); }
  static mask less(batch a, batch b) { return vcltq_f64(a, b); }
  static mask equal(batch a, batch b) { return vceqq_f64(a, b); }
  static mask magnitude_reaches(batch a, batch limit) { return negate(less(abs(a), limit)); }
  static mask not_greater(batch a, batch b) { return vcleq_f64(a, b); }
  static mask unordered(batch a, batch b) { return negate(vandq_u64(vceqq_f64(a, a), vceqq_f64(b, b))); }
  static mask either(mask a, mask b) { return vorrq_u64(a, b); }
  static mask negate(mask a) { return vreinterpretq_u64_u32(vmvnq_u32(vreinterpretq_u32_u64(a))); }
  static bool any(mask m) { return vmaxvq_u32(vreinterpretq_u32_u64(m)) != 0; }
  static batch select(mask m, batch yes, batch no) { return vbslq_f64(m, yes, no); }
  static batch zero_where(mask m, batch v) {
    return vreinterpretq_f64_u64(vbicq_u64(vreinterpretq_u64_f64(v), m));
  }
  // v with lane k and all after it 0.
  static batch keep_first(batch v, std::size_t k) { return zero_where(after(k), v); }
  // v with lane k and all after it `value`.
  static batch fill_after(batch v, std::size_t k, double value) {
    return vbslq_f64(after(k), vdupq_n_f64(value), v);
  }

  static batch add_exponent(batch p, batch n) {
    return vreinterpretq_f64_u64(
        vaddq_u64(vreinterpretq_u64_f64(p), vshlq_n_u64(vreinterpretq_u64_f64(n), 52)));
  }
  static batch subtract_bits(batch a, batch b) {
    return vreinterpretq_f64_u64(vsubq_u64(vreinterpretq_u64_f64(a), vreinterpretq_u64_f64(b)));
  }

  static batch where(mask m, batch v) {
    return vreinterpretq_f64_u64(vandq_u64(m, vreinterpretq_u64_f64(v)));
  }
  static batch add_where(mask m, batch a, batch b) { return vaddq_f64(a, where(m, b)); }
  static batch subtract_bits_where(mask m, batch a, batch b) { return subtract_bits(a, where(m, b)); }

  // p * 2^n in the lanes where v is not at or below `cutoff`, 0 in the others; n is `shifted` less
  // round_magic. By a product, which passes a NaN on.
  static batch scale_by_power_above(batch v, batch cutoff, batch p, batch, batch shifted) {
    return zero_where(vcleq_f64(v, cutoff), vmulq_f64(p, add_exponent(batch(1.0), shifted)));
  }
  // Lane j of v[i] and lane i of v[j] change places.
  [[gnu::always_inline]] static void transpose(batch (&v)[width]) {
    const float64x2_t low = vzip1q_f64(v[0], v[1]);
    v[1] = vzip2q_f64(v[0], v[1]);
    v[0] = low;
  }
  // v[i] becomes element i of each of the rows.
  static void load_transposed(batch (&v)[width], const double *const *row, std::size_t at) {
    for (std::size_t r = 0; r < width; ++r) v[r] = load(row[r] + at);
    transpose(v);
  }

  static double fold(batch v) { return vgetq_lane_f64(v, 0) + vgetq_lane_f64(v, 1); }
  static void store_scaled_folds(double *out, double scale, batch v0, batch v1, batch v2, batch v3) {
    vst1q_f64(out, vmulq_n_f64(vpaddq_f64(v0, v1), scale));
    vst1q_f64(out + 2, vmulq_n_f64(vpaddq_f64(v2, v3), scale));
  }
  template <class Op>
  static batch fold_each(const batch (&v)[width], Op op) {
    return op(vzip1q_f64(v[0], v[1]), vzip2q_f64(v[0], v[1]));
  }
  static double fold_max(batch v) { return vmaxvq_f64(v); }
};

}  // namespace
