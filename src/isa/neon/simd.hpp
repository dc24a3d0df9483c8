// Wraps the NEON instructions of AArch64 as overloads for both arithmetic types, and defines simd<A> with
// them.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <xsimd/xsimd.hpp>

#include "contract/exp.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/parts.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// In a mask, the bits of a lane are either all set or all clear. Integers are native vectors of gcc and
// clang, because xsimd 8 shifts slowly: it compares the count with each constant.
struct Neon {
  using arch = xsimd::neon64;
  using f32 = xsimd::batch<float, arch>;
  using f64 = xsimd::batch<double, arch>;
  using u32 = xsimd::batch<std::uint32_t, arch>;

  // FMLA overwrites its addend, so each polynomial needs a new copy of its constant addend. reload() gets the
  // copy from memory. A copy between registers would occupy the arithmetic pipelines.
  static f32 reload(const float *p) { return *reinterpret_cast<const volatile float32x4_t *>(p); }
  static f64 reload(const double *p) { return *reinterpret_cast<const volatile float64x2_t *>(p); }

  static f32 load(const float *p) { return vld1q_f32(p); }
  static f64 load(const double *p) { return vld1q_f64(p); }
  static u32 load_words(const std::uint8_t *p) {
    std::uint32_t bytes;
    std::memcpy(&bytes, p, sizeof bytes);
    const uint16x8_t words = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(bytes)));
    return vmovl_u16(vget_low_u16(words));
  }
  static uint32x4_t lanes_of_bits(std::uint32_t bits) {
    const uint32x4_t of_lanes = {1, 2, 4, 8};
    return vtstq_u32(vdupq_n_u32(bits), of_lanes);
  }
  static f32 load(const std::uint8_t *p) { return vcvtq_f32_u32(load_words(p)); }
  static f32 load(const std::int8_t *p) {
    std::uint32_t bytes;
    std::memcpy(&bytes, p, sizeof bytes);
    const int16x8_t words = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(bytes)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)));
  }
  template <int lane>
  static f32 load_lane(const float *p, f32 v) {
    return vld1q_lane_f32(p, v, lane);
  }
  template <int lane>
  static f64 load_lane(const double *p, f64 v) {
    return vld1q_lane_f64(p, v, lane);
  }
  static void store(float *p, f32 v) { vst1q_f32(p, v); }
  static void store(double *p, f64 v) { vst1q_f64(p, v); }
  template <int lane>
  static void store_lane(float *p, f32 v) {
    vst1q_lane_f32(p, v, lane);
  }
  template <int lane>
  static void store_lane(double *p, f64 v) {
    vst1q_lane_f64(p, v, lane);
  }

  static f32 floor(f32 v) { return vrndmq_f32(v); }
  // Makes gcc keep the value in a register. Otherwise gcc loads the value again for each use.
  static void keep_in_register(f32 &v) { __asm__("" : "+w"(v.data)); }
  // Widens the bf16 in the lower or the upper half of each lane.
  static f32 lower_bf16(f32 v) { return number(bits(v) << 16); }
  static f32 upper_bf16(f32 v) { return number(bits(v) & 0xffff0000); }
  // Reorders two vectors to a0 b0 a1 b1 and so on.
  static void interleave(f32 &a, f32 &b) {
    const f32 first = zip_low(a, b);
    b = zip_high(a, b);
    a = first;
  }
  static void interleave(f64 &a, f64 &b) {
    const f64 first = zip_low(a, b);
    b = zip_high(a, b);
    a = first;
  }
  static f32 evens_twice(f32 v) { return vtrn1q_f32(v, v); }
  static f64 evens_twice(f64 v) { return vtrn1q_f64(v, v); }
  static f32 odds_twice(f32 v) { return vtrn2q_f32(v, v); }
  static f64 odds_twice(f64 v) { return vtrn2q_f64(v, v); }
  static f64 select_where_odd(f64 shifted, f64 yes, f64 no) {
    return select(vtstq_u64(bits(shifted), vdupq_n_u64(1)), yes, no);
  }
  static f64 negate_where_second_bit(f64 shifted, f64 v) {
    return number(bits(v) ^ (bits(shifted) << 62 & std::uint64_t{1} << 63));
  }
  // An object flushes subnormal operands and results during its lifetime. The constructor expects the default
  // mode, and the destructor restores it.
  class Flushing {
   public:
    Flushing() : mode_(read_mode()), flags_(read_flags()) {
      write_mode(mode_ | 1u << 24);
      write_flags(flags_ & ~underflow);
    }
    ~Flushing() {
      write_mode(mode_);
      write_flags(flags_ | read_flags());
    }
    // Returns whether a result has been flushed since construction.
    bool has_flushed() const { return (read_flags() & underflow) != 0; }

   private:
    static constexpr std::uint64_t underflow = 8;
    static std::uint64_t read_mode() {
      std::uint64_t mode;
      asm volatile("mrs %0, fpcr" : "=r"(mode) : : "memory");
      return mode;
    }
    static void write_mode(std::uint64_t mode) { asm volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }
    static std::uint64_t read_flags() {
      std::uint64_t flags;
      asm volatile("mrs %0, fpsr" : "=r"(flags) : : "memory");
      return flags;
    }
    static void write_flags(std::uint64_t flags) { asm volatile("msr fpsr, %0" : : "r"(flags) : "memory"); }

    std::uint64_t mode_, flags_;
  };

  static f32 widened(uint16x4_t v, const rapt::F16 *) { return vcvt_f32_f16(vreinterpret_f16_u16(v)); }
  static f32 widened(uint16x4_t v, const rapt::BF16 *) { return number(vshll_n_u16(v, 15) << 1); }
  static uint16x4_t narrowed(f32 v, rapt::F16 *) { return vreinterpret_u16_f16(vcvt_f16_f32(v)); }
  static uint16x4_t narrowed(f32 v, rapt::BF16 *) {
    const uint32x4_t rounded = bits(v) + 0x7fff + (bits(v) >> 16 & 1), quiet = bits(v) | 0x400000;
    return vshrn_n_u32(vbslq_u32(vceqq_f32(v, v), rounded, quiet), 16);
  }
  static const std::uint16_t *halves(const void *p) { return static_cast<const std::uint16_t *>(p); }
  static std::uint16_t *halves(void *p) { return static_cast<std::uint16_t *>(p); }
  template <Half H>
  static f32 load(const H *p) {
    return widened(vld1_u16(halves(p)), p);
  }
  template <Half H>
  static void store(H *p, f32 v) {
    vst1_u16(halves(p), narrowed(v, p));
  }

  static f32 fma(f32 a, f32 b, f32 c) { return vfmaq_f32(c, a, b); }
  static f64 fma(f64 a, f64 b, f64 c) { return vfmaq_f64(c, a, b); }
  static f32 fnma(f32 a, f32 b, f32 c) { return vfmsq_f32(c, a, b); }
  static f64 fnma(f64 a, f64 b, f64 c) { return vfmsq_f64(c, a, b); }
  static f32 fms(f32 a, f32 b, f32 c) { return vfmaq_f32(vnegq_f32(c), a, b); }
  static f64 fms(f64 a, f64 b, f64 c) { return vfmaq_f64(vnegq_f64(c), a, b); }
  // vfmaq_laneq is not used, because gcc 12 broadcasts the lane if more than one basic block uses it.
  template <int i>
  static f32 fma_by_lane(float32x4_t factors, float32x4_t a, float32x4_t c) {
    asm("fmla %0.4s, %1.4s, %2.s[%3]" : "+w"(c) : "w"(a), "w"(factors), "i"(i));
    return c;
  }
  template <int i>
  static f64 fma_by_lane(float64x2_t factors, float64x2_t a, float64x2_t c) {
    asm("fmla %0.2d, %1.2d, %2.d[%3]" : "+w"(c) : "w"(a), "w"(factors), "i"(i));
    return c;
  }
  // xsimd 8 divides f32 with an estimate, which is not exact.
  static f32 divide(f32 a, f32 b) { return vdivq_f32(a, b); }
  static f64 divide(f64 a, f64 b) { return vdivq_f64(a, b); }
  static f32 max(f32 a, f32 b) { return vmaxq_f32(a, b); }
  static f64 max(f64 a, f64 b) { return vmaxq_f64(a, b); }
  static f32 max_number(f32 a, f32 b) { return vmaxnmq_f32(a, b); }
  static f64 max_number(f64 a, f64 b) { return vmaxnmq_f64(a, b); }
  static f32 min(f32 a, f32 b) { return vminq_f32(a, b); }
  static f64 min(f64 a, f64 b) { return vminq_f64(a, b); }
  // x, or the limit where x is beyond it. FMAX and FMIN would take +0 or -0 by its sign.
  static f32 at_least(f32 limit, f32 x) { return vbslq_f32(vcltq_f32(x, limit), limit, x); }
  static f64 at_least(f64 limit, f64 x) { return vbslq_f64(vcltq_f64(x, limit), limit, x); }
  static f32 at_most(f32 limit, f32 x) { return vbslq_f32(vcgtq_f32(x, limit), limit, x); }
  static f64 at_most(f64 limit, f64 x) { return vbslq_f64(vcgtq_f64(x, limit), limit, x); }
  static f32 abs(f32 a) { return vabsq_f32(a); }
  static f64 abs(f64 a) { return vabsq_f64(a); }
  static f32 with_sign(f32 a, f32 b) { return vbslq_f32(vdupq_n_u32(1u << 31), b, a); }
  static f64 with_sign(f64 a, f64 b) { return vbslq_f64(vdupq_n_u64(1ull << 63), b, a); }

  static uint32x4_t less(f32 a, f32 b) { return vcltq_f32(a, b); }
  static uint64x2_t less(f64 a, f64 b) { return vcltq_f64(a, b); }
  static uint32x4_t equal(f32 a, f32 b) { return vceqq_f32(a, b); }
  static uint64x2_t equal(f64 a, f64 b) { return vceqq_f64(a, b); }
  static uint32x4_t not_greater(f32 a, f32 b) { return vcleq_f32(a, b); }
  static uint64x2_t not_greater(f64 a, f64 b) { return vcleq_f64(a, b); }
  // Returns whether |a| < |b|. gcc would compile vcaltq to two instructions.
  static uint32x4_t magnitude_less(float32x4_t a, float32x4_t b) {
    uint32x4_t m;
    asm("facgt %0.4s, %1.4s, %2.4s" : "=w"(m) : "w"(b), "w"(a));
    return m;
  }
  static uint64x2_t magnitude_less(float64x2_t a, float64x2_t b) {
    uint64x2_t m;
    asm("facgt %0.2d, %1.2d, %2.2d" : "=w"(m) : "w"(b), "w"(a));
    return m;
  }
  static bool any(uint32x4_t m) { return vmaxvq_u32(m) != 0; }
  static bool any(uint64x2_t m) { return any(vreinterpretq_u32_u64(m)); }
  static f32 select(uint32x4_t m, f32 yes, f32 no) { return vbslq_f32(m, yes, no); }
  static f64 select(uint64x2_t m, f64 yes, f64 no) { return vbslq_f64(m, yes, no); }

  // xsimd's is an approximation.
  static f32 square_root(f32 a) { return vsqrtq_f32(a); }
  static f64 square_root(f64 a) { return vsqrtq_f64(a); }

  static uint32x4_t bits(f32 v) { return vreinterpretq_u32_f32(v); }
  static uint64x2_t bits(f64 v) { return vreinterpretq_u64_f64(v); }
  static f32 number(uint32x4_t v) { return vreinterpretq_f32_u32(v); }
  static f64 number(uint64x2_t v) { return vreinterpretq_f64_u64(v); }

  static f32 either_bits(f32 a, f32 b, f32 c) { return number(bits(a) | bits(b) | bits(c)); }
  static f64 either_bits(f64 a, f64 b, f64 c) { return number(bits(a) | bits(b) | bits(c)); }
  static bool any_common_bit(f32 a, f32 b) { return any(bits(a) & bits(b)); }
  static bool any_common_bit(f64 a, f64 b) { return any(bits(a) & bits(b)); }

  static f32 zip_low(f32 a, f32 b) { return vzip1q_f32(a, b); }
  static f64 zip_low(f64 a, f64 b) { return vzip1q_f64(a, b); }
  static f32 zip_high(f32 a, f32 b) { return vzip2q_f32(a, b); }
  static f64 zip_high(f64 a, f64 b) { return vzip2q_f64(a, b); }
  // vcombine is not used, because gcc needs up to three moves for it.
  static f32 low_pairs(f32 a, f32 b) {
    return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
  }
  static f32 high_pairs(f32 a, f32 b) {
    return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
  }
  static f32 evens(f32 a, f32 b) { return vuzp1q_f32(a, b); }
  static f32 odds(f32 a, f32 b) { return vuzp2q_f32(a, b); }

  static float fold(f32 v) {
    const float32x2_t h2 = vadd_f32(vget_low_f32(v), vget_high_f32(v));
    return vget_lane_f32(vpadd_f32(h2, h2), 0);
  }
  static double fold(f64 v) { return vgetq_lane_f64(v, 0) + vgetq_lane_f64(v, 1); }
  static float fold_max(f32 v) { return vmaxvq_f32(v); }
  static double fold_max(f64 v) { return vmaxvq_f64(v); }
  static void store_scaled_folds(float *out, float scale, f32 v0, f32 v1, f32 v2, f32 v3) {
    const f32 a = low_pairs(v0, v1) + high_pairs(v0, v1);
    const f32 b = low_pairs(v2, v3) + high_pairs(v2, v3);
    vst1q_f32(out, vmulq_n_f32(vpaddq_f32(a, b), scale));
  }
  static void store_scaled_folds(double *out, double scale, f64 v0, f64 v1, f64 v2, f64 v3) {
    vst1q_f64(out, vmulq_n_f64(vpaddq_f64(v0, v1), scale));
    vst1q_f64(out + 2, vmulq_n_f64(vpaddq_f64(v2, v3), scale));
  }
  template <int half>
  static f64 widened(f32 v) {
    return half == 0 ? vcvt_f64_f32(vget_low_f32(v)) : vcvt_high_f64_f32(v);
  }
  static f32 narrowed(f64 low, f64 high) { return vcvt_high_f32_f64(vcvt_f32_f64(low), high); }
};

template <class A>
struct simd : Neon {
  using batch = xsimd::batch<A, arch>;
  using mask = decltype(less(batch(), batch()));
  using word = std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>;
  static constexpr std::size_t width = 16 / sizeof(A);
  static constexpr std::size_t registers = 32;
  static constexpr std::size_t panel_vectors = 4;
  static constexpr std::size_t exp_together = 4;
  static constexpr bool fetches_by_line = false;
  static constexpr std::size_t keys_in_lanes_rows = 8;
  static constexpr std::size_t rows_per_key = 8;
  static constexpr bool reads_groups_in_turn = false, leaves_prefetches_to_cpu = false;
  static constexpr std::size_t dot_rows_together = 1;  // each row needs 16 accumulators
  static constexpr std::size_t dot_rows_passes = 4;
  static constexpr bool aligns_dot = false;  // loads that cross a line are cheap on today's cores
  static constexpr bool can_stream = false;  // STNP is a hint of little effect on today's cores
  static constexpr bool masks_are_free = false;
  static constexpr bool max_keeps_nan = true;
  static constexpr bool exp_keeps_nan = false;

  template <class E>
  static batch load_first(const E *p, std::size_t k) {
    if (k >= width) return load(p);
    if constexpr (Half<E>) {
      uint16x4_t v = vdup_n_u16(0);
      unroll<width - 1>([&](auto lane) RAPT_INNER {
        if (k > lane) v = vld1_lane_u16(halves(p + lane), v, lane);
      });
      return widened(v, p);
    } else {
      batch v(A(0));
      unroll<width - 1>([&](auto lane) RAPT_INNER {
        if (k > lane) v = load_lane<lane>(p + lane, v);
      });
      return v;
    }
  }
  template <class E>
  static void store_first(E *p, batch v, std::size_t k) {
    if (k >= width) return store(p, v);
    if constexpr (Half<E>) {
      const uint16x4_t half = narrowed(v, p);
      unroll<width - 1>([&](auto lane) RAPT_INNER {
        if (k > lane) vst1_lane_u16(halves(p + lane), half, lane);
      });
      return;
    } else {
      unroll<width - 1>([&](auto lane) RAPT_INNER {
        if (k > lane) store_lane<lane>(p + lane, v);
      });
    }
  }
  template <class E>
  static void stream(E *p, batch v) {
    store(p, v);
  }
  static void end_streaming() {}
  static mask load_flags(const std::uint8_t *p, std::size_t k) {
    mask flags = {};
    unroll<width>([&](std::size_t lane) RAPT_INNER {
      if (k > lane) flags[lane] = p[lane];
    });
    return flags != 0;
  }
  static std::uint64_t flag_bits(const std::uint8_t *p, std::size_t k) {
    static constexpr std::uint8_t bit_of_byte[] = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x8_t bits = vld1_u8(bit_of_byte);
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < k; i += 8) {
      std::uint64_t bytes = 0;
      if (k - i >= 8) {
        __builtin_memcpy(&bytes, p + i, 8);
      } else {
        for (std::size_t j = i; j < k; ++j) bytes |= std::uint64_t{p[j]} << (8 * (j - i));
      }
      const uint8x8_t flags = vcreate_u8(bytes);
      all |= std::uint64_t{vaddv_u8(vand_u8(vtst_u8(flags, flags), bits))} << i;
    }
    return all;
  }
  static mask bit_set(const word *words, word bit) {
    mask v;
    __builtin_memcpy(&v, words, sizeof(v));
    return (v & bit) != 0;
  }

  static mask magnitude_reaches(batch a, batch limit) { return ~magnitude_less(a, limit); }
  static mask unordered(batch a, batch b) { return ~(equal(a, a) & equal(b, b)); }
  static mask either(mask a, mask b) { return a | b; }
  static mask negate(mask a) { return ~a; }
  static batch zero_where(mask m, batch v) { return number(bits(v) & ~m); }
  static batch keep_where(mask m, batch v) { return number(m & bits(v)); }
  static batch add_where(mask m, batch a, batch b) { return a + number(m & bits(b)); }
  static batch keep_first(batch v, std::size_t k) { return zero_where(after(k), v); }
  static batch fill_after(batch v, std::size_t k, A value) { return select(after(k), batch(value), v); }

  static batch add_exponent(batch p, batch n) {
    return number(bits(p) + (bits(n) << rapt::ExpContract<A>::mantissa_bits));
  }
  static batch subtract_bits_where(mask m, batch a, batch b) { return number(bits(a) - (m & bits(b))); }
  // A NaN in p is kept, because p is multiplied by the power.
  static batch scale_by_power_above(batch v, batch cutoff, batch p, batch, batch shifted) {
    return zero_where(not_greater(v, cutoff), p * add_exponent(batch(A(1)), shifted));
  }

  RAPT_INNER static void transpose(batch (&v)[width]) { transpose_in_parts<Neon>(v); }
  template <class Rows, class F>
  RAPT_INNER static void each_transposed(const Rows &row, std::size_t at, F f) {
    each_transposed_by_parts<simd, part_width<A>>(row, at, f);
  }
  template <class Rows>
  static batch load_parts(const Rows &row, std::size_t i, std::size_t at) {
    return load(row[i] + at);
  }
  template <class Op>
  static batch fold_each(const batch (&v)[width], Op op) {
    return fold_in_parts<Neon, width>([&](std::size_t i) { return v[i]; }, op);
  }

 private:
  // Returns a mask of lane k and all lanes after it.
  static mask after(std::size_t k) {
    k = k < width ? k : width;
    if constexpr (width == 4) {
      static constexpr std::uint32_t lane_index[] = {0, 1, 2, 3};
      return vcgeq_u32(vld1q_u32(lane_index), vdupq_n_u32(static_cast<std::uint32_t>(k)));
    } else {
      static constexpr std::uint64_t lane_index[] = {0, 1};
      return vcgeq_u64(vld1q_u64(lane_index), vdupq_n_u64(k));
    }
  }
};

static_assert(Simd<simd<float>> && Simd<simd<double>>);

}  // namespace
