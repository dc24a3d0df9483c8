// Wraps the instructions of AVX2 and FMA as overloads for both arithmetic types, and defines simd<A> with
// them.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <xsimd/xsimd.hpp>

#include "contract/exp.hpp"
#include "isa/x86/simd.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/parts.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Eight integers loaded from k places before the middle are a mask whose first k lanes are set.
alignas(64) constexpr std::int32_t tail_window[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

// Loads the first k of `count` bytes. The other bytes are not read, and are 0 in the result.
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

// Copies an even number of bytes, fewer than 16.
inline void copy_some(unsigned char *to, const unsigned char *from, std::size_t bytes) {
  if (bytes & 8) std::memcpy(to, from, 8);
  const std::size_t after_8 = bytes & 8;
  if (bytes & 4) std::memcpy(to + after_8, from + after_8, 4);
  const std::size_t after_4 = bytes & 12;
  if (bytes & 2) std::memcpy(to + after_4, from + after_4, 2);
}

// In a mask, the bits of a lane are either all set or all clear.
struct Avx2 : X86<Avx2, xsimd::fma3<xsimd::avx2>> {
  using X86::load, X86::widened, X86::narrowed;

  static u32 load_words(const std::uint8_t *p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p)));
  }
  static f32 lanes_of_bits(std::uint32_t bits) {
    const __m256i of_lanes = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i found = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), of_lanes);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(found, of_lanes));
  }
  static f32 load(const std::uint8_t *p) { return _mm256_cvtepi32_ps(load_words(p)); }
  static f32 load(const std::int8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i *>(p))));
  }
  static f32 load_where(__m256i m, const float *p) { return _mm256_maskload_ps(p, m); }
  static f64 load_where(__m256i m, const double *p) { return _mm256_maskload_pd(p, m); }
  static void store_where(float *p, __m256i m, f32 v) { _mm256_maskstore_ps(p, m, v); }
  static void store_where(double *p, __m256i m, f64 v) { _mm256_maskstore_pd(p, m, v); }

  static f32 floor(f32 v) { return _mm256_floor_ps(v); }
  // Reorders two vectors to a0 b0 a1 b1 and so on.
  static void interleave(f32 &a, f32 &b) {
    const __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    a = _mm256_permute2f128_ps(low, high, 0x20);
    b = _mm256_permute2f128_ps(low, high, 0x31);
  }
  static void interleave(f64 &a, f64 &b) {
    const __m256d low = _mm256_unpacklo_pd(a, b), high = _mm256_unpackhi_pd(a, b);
    a = _mm256_permute2f128_pd(low, high, 0x20);
    b = _mm256_permute2f128_pd(low, high, 0x31);
  }
  static f32 odds_twice(f32 v) { return _mm256_movehdup_ps(v); }
  static f64 odds_twice(f64 v) { return _mm256_permute_pd(v, 0xf); }
  // select() looks at a lane's sign bit alone.
  static f64 select_where_odd(f64 shifted, f64 yes, f64 no) {
    return select(number(bits(shifted) << 63), yes, no);
  }
  static f64 negate_where_second_bit(f64 shifted, f64 v) {
    return v ^ (number(bits(shifted) << 62) & f64(-0.0));
  }

  static __m128i narrowed(f32 v, rapt::BF16 *) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded_to_bf16(v), quiet, nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(upper), _mm256_extracti128_si256(upper, 1));
  }
  // Rounds numbers other than NaN to bf16, ties to even. Each result is in the upper half of its lane.
  static __m256i rounded_to_bf16(f32 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(bits, _mm256_add_epi32(last, _mm256_set1_epi32(0x7fff)));
  }
  // Stores two vectors at once, because one instruction packs both.
  static void store_two(rapt::BF16 *p, f32 a, f32 b) {
    if (_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q)) != 0) [[unlikely]] {
      store(p, a);
      return store(p + 8, b);
    }
    const __m256i first = _mm256_srli_epi32(rounded_to_bf16(a), 16),
                  second = _mm256_srli_epi32(rounded_to_bf16(b), 16);
    const __m256i parts = _mm256_packus_epi32(first, second);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm256_permute4x64_epi64(parts, 0xd8));
  }
  // Loads four elements from a and four from b.
  template <Half H>
  static f32 load_halves(const H *a, const H *b) {
    const auto part = [](const H *p) { return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(p)); };
    return widened(_mm_unpacklo_epi64(part(a), part(b)), a);
  }
  // load_some() and store_some() access the first k < 8 elements, in parts of 8, 4 and 2 bytes.
  template <Half H>
  static f32 load_some(const H *p, std::size_t k) {
    std::uint64_t words[2] = {};
    copy_some(reinterpret_cast<unsigned char *>(words), reinterpret_cast<const unsigned char *>(p), 2 * k);
    return load(reinterpret_cast<const H *>(words));
  }
  template <Half H>
  static void store_some(H *p, f32 v, std::size_t k) {
    alignas(16) unsigned char bytes[16];
    _mm_store_si128(reinterpret_cast<__m128i *>(bytes), narrowed(v, p));
    copy_some(reinterpret_cast<unsigned char *>(p), bytes, 2 * k);
  }

  template <int predicate>
  static f32 compare(f32 a, f32 b) {
    return _mm256_cmp_ps(a, b, predicate);
  }
  template <int predicate>
  static f64 compare(f64 a, f64 b) {
    return _mm256_cmp_pd(a, b, predicate);
  }
  static bool any(f32 m) { return _mm256_movemask_ps(m) != 0; }
  static bool any(f64 m) { return _mm256_movemask_pd(m) != 0; }
  static f32 select(f32 m, f32 yes, f32 no) { return _mm256_blendv_ps(no, yes, m); }
  static f64 select(f64 m, f64 yes, f64 no) { return _mm256_blendv_pd(no, yes, m); }
  static f32 zero_where(f32 m, f32 v) { return _mm256_andnot_ps(m, v); }
  static f64 zero_where(f64 m, f64 v) { return _mm256_andnot_pd(m, v); }

  static f32 number(u32 v) { return _mm256_castsi256_ps(v); }
  static f64 number(u64 v) { return _mm256_castsi256_pd(v); }

  static f32 either_bits(f32 a, f32 b, f32 c) { return a | b | c; }
  static f64 either_bits(f64 a, f64 b, f64 c) { return a | b | c; }
  static bool any_common_bit(f32 a, f32 b) { return !_mm256_testz_si256(bits(a), bits(b)); }
  static bool any_common_bit(f64 a, f64 b) { return !_mm256_testz_si256(bits(a), bits(b)); }

  // Joins the lower (or the upper) halves of a and b.
  static f32 low_halves(f32 a, f32 b) { return _mm256_permute2f128_ps(a, b, 0x20); }
  static f64 low_halves(f64 a, f64 b) { return _mm256_permute2f128_pd(a, b, 0x20); }
  static f32 high_halves(f32 a, f32 b) { return _mm256_permute2f128_ps(a, b, 0x31); }
  static f64 high_halves(f64 a, f64 b) { return _mm256_permute2f128_pd(a, b, 0x31); }
  static f32 load_halves(const float *a, const float *b) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(a)), _mm_loadu_ps(b), 1);
  }
  static f64 load_halves(const double *a, const double *b) {
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(a)), _mm_loadu_pd(b), 1);
  }

  static float fold(f32 v) {
    const __m128 h4 = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 h2 = _mm_add_ps(h4, _mm_movehl_ps(h4, h4));
    return _mm_cvtss_f32(_mm_add_ss(h2, _mm_movehdup_ps(h2)));
  }
  static double fold(f64 v) {
    const __m128d h2 = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(h2, _mm_unpackhi_pd(h2, h2)));
  }
  static float fold_max(f32 v) {
    const __m128 h4 = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 h2 = _mm_max_ps(h4, _mm_movehl_ps(h4, h4));
    return _mm_cvtss_f32(_mm_max_ss(h2, _mm_movehdup_ps(h2)));
  }
  static double fold_max(f64 v) {
    const __m128d h2 = _mm_max_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_max_sd(h2, _mm_unpackhi_pd(h2, h2)));
  }
  template <int half>
  static f64 widened(f32 v) {
    return _mm256_cvtps_pd(half == 0 ? _mm256_castps256_ps128(v) : _mm256_extractf128_ps(v, 1));
  }
  static f32 narrowed(f64 low, f64 high) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(low)), _mm256_cvtpd_ps(high), 1);
  }
};

template <class A>
struct simd : Avx2 {
  using batch = xsimd::batch<A, arch>;
  using mask = batch;
  using word = std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>;
  static constexpr std::size_t width = 32 / sizeof(A);
  static constexpr std::size_t registers = 16;
  static constexpr std::size_t panel_vectors = 2;
  static constexpr std::size_t exp_together = 4;
  static constexpr bool fetches_by_line = false;
  static constexpr std::size_t keys_in_lanes_rows = 10;
  static constexpr std::size_t rows_per_key = 10;
  static constexpr bool reads_groups_in_turn = true;
  static constexpr bool leaves_prefetches_to_cpu = false;
  static constexpr std::size_t dot_rows_together = 1;  // each row needs 8 of the 16 registers
  static constexpr std::size_t dot_rows_passes = 2;
  static constexpr bool aligns_dot = true;
  static constexpr bool can_stream = true;
  static constexpr bool masks_are_free = false;
  static constexpr bool max_keeps_nan = false;
  static constexpr bool exp_keeps_nan = false;

  static __m256i first(std::size_t k) {
    constexpr std::size_t each = sizeof(A) / sizeof(std::int32_t);
    return _mm256_loadu_si256(
        reinterpret_cast<const __m256i *>(tail_window + 8 - each * (k < width ? k : width)));
  }
  template <class E>
  static batch load_first(const E *p, std::size_t k) {
    if constexpr (Half<E>) {
      return k < width ? load_some(p, k) : load(p);
    } else {
      return load_where(first(k), p);
    }
  }
  template <class E>
  static batch load_last(const E *p, std::size_t k) {
    return load_where(_mm256_xor_si256(first(width - k), _mm256_set1_epi32(-1)), p);
  }
  template <class E>
  static void store_first(E *p, batch v, std::size_t k) {
    if constexpr (Half<E>) {
      k < width ? store_some(p, v, k) : store(p, v);
    } else {
      store_where(p, first(k), v);
    }
  }
  static mask load_flags(const std::uint8_t *p, std::size_t k) {
    const __m128i bytes = _mm_cvtsi64_si128(static_cast<long long>(load_bytes<width>(p, k)));
    if constexpr (width == 8) {
      return number(u32(_mm256_cmpgt_epi32(_mm256_cvtepu8_epi32(bytes), _mm256_setzero_si256())));
    } else {
      return number(u64(_mm256_cmpgt_epi64(_mm256_cvtepu8_epi64(bytes), _mm256_setzero_si256())));
    }
  }

  static std::uint64_t flag_bits(const std::uint8_t *p, std::size_t k) {
    alignas(32) std::uint64_t first_flags[8] = {};
    if (k < 64) {
      for (std::size_t i = 0; i < k; i += 8) first_flags[i / 8] = load_bytes<8>(p + i, k - i);
      p = reinterpret_cast<const std::uint8_t *>(first_flags);
    }
    const auto clear = [&](std::size_t i) {
      const __m256i flags = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p + i));
      return static_cast<std::uint32_t>(
          _mm256_movemask_epi8(_mm256_cmpeq_epi8(flags, _mm256_setzero_si256())));
    };
    return ~(std::uint64_t{clear(32)} << 32 | clear(0));
  }
  static mask bit_set(const word *words, word bit) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(words)), b = integers(bit);
    if constexpr (width == 8)
      return number(u32(_mm256_cmpeq_epi32(_mm256_and_si256(v, b), b)));
    else
      return number(u64(_mm256_cmpeq_epi64(_mm256_and_si256(v, b), b)));
  }

  static batch divide(batch a, batch b) { return a / b; }
  static batch max_number(batch a, batch b) { return max(a, b); }
  static batch abs(batch a) { return zero_where(batch(A(-0.0)), a); }
  static batch with_sign(batch a, batch b) { return a | (b & batch(A(-0.0))); }
  static mask less(batch a, batch b) { return compare<_CMP_LT_OQ>(a, b); }
  static mask equal(batch a, batch b) { return compare<_CMP_EQ_OQ>(a, b); }
  static mask not_greater(batch a, batch b) { return compare<_CMP_LE_OQ>(a, b); }
  static mask unordered(batch a, batch b) { return compare<_CMP_UNORD_Q>(a, b); }
  // Only the sign bits of the result are valid; any() reads them. A floating-point comparison would occupy a
  // port that exp's polynomial needs, and cost 8 % of exp's time.
  static mask magnitude_reaches(batch a, batch limit) {
    return number(bits(limit) - integers(1) - bits(abs(a)));
  }
  static mask either(mask a, mask b) { return a | b; }
  static mask negate(mask a) { return ~a; }
  static batch add_where(mask m, batch a, batch b) { return a + (m & b); }
  static batch keep_first(batch v, std::size_t k) { return first_lanes(k) & v; }
  static batch fill_after(batch v, std::size_t k, A value) { return select(first_lanes(k), v, batch(value)); }

  static batch add_exponent(batch p, batch n) {
    return number(bits(p) + (bits(n) << rapt::ExpContract<A>::mantissa_bits));
  }
  static batch keep_where(mask m, batch v) { return m & v; }
  static batch subtract_bits_where(mask m, batch a, batch b) { return number(bits(a) - bits(m & b)); }
  // A NaN in p is kept, because p is multiplied by the power.
  static batch scale_by_power_above(batch v, batch cutoff, batch p, batch, batch shifted) {
    return compare<_CMP_NLE_UQ>(v, cutoff) & (p * add_exponent(batch(A(1)), shifted));
  }

  RAPT_INNER static void transpose(batch (&v)[width]) {
    constexpr std::size_t n = part_width<A>;
    batch lower[n], upper[n];
    unroll<n>([&](std::size_t i) RAPT_INNER {
      lower[i] = v[i];
      upper[i] = v[i + n];
    });
    transpose_in_parts<Avx2>(lower);
    transpose_in_parts<Avx2>(upper);
    unroll<n>([&](std::size_t i) RAPT_INNER {
      v[i] = low_halves(lower[i], upper[i]);
      v[i + n] = high_halves(lower[i], upper[i]);
    });
  }
  // For f32, loading halves saves a third of the shuffles that transpose() needs for whole vectors.
  template <class Rows, class F>
  RAPT_INNER static void each_transposed(const Rows &row, std::size_t at, F f) {
    each_transposed_by_parts<simd, part_width<A>>(row, at, f);
  }
  template <class Rows>
  static batch load_parts(const Rows &row, std::size_t i, std::size_t at) {
    return load_halves(row[i] + at, row[i + part_width<A>] + at);
  }

  // The lower half of the result is op of the two halves of a. The upper half is op of the two halves of b.
  template <class Op>
  static batch fold_halves(batch a, batch b, Op op) {
    return op(low_halves(a, b), high_halves(a, b));
  }
  template <class Op>
  static batch fold_each(const batch (&v)[width], Op op) {
    constexpr std::size_t n = part_width<A>;
    const auto of = [&](std::size_t i) { return fold_halves(v[i], v[i + n], op); };
    return fold_in_parts<Avx2, n>(of, op);
  }
  static void store_scaled_folds(A *out, A scale, batch v0, batch v1, batch v2, batch v3) {
    const auto add = [](batch a, batch b) { return a + b; };
    if constexpr (width == 8) {
      const f32 a = fold_halves(v0, v1, add), b = fold_halves(v2, v3, add);
      const f32 h2 = low_pairs(a, b) + high_pairs(a, b);  // v0 v0 v2 v2 | v1 v1 v3 v3
      const f32 h1 = h2 + f32(_mm256_movehdup_ps(h2));
      const __m128 even = _mm256_castps256_ps128(h1), odd = _mm256_extractf128_ps(h1, 1);
      const __m128 sums = _mm_blend_ps(even, _mm_moveldup_ps(odd), 0xa);
      _mm_storeu_ps(out, _mm_mul_ps(_mm_set1_ps(scale), sums));
    } else {
      store(out, batch(scale) * fold_each({v0, v1, v2, v3}, add));
    }
  }

 private:
  using integers = decltype(bits(batch()));
  static mask first_lanes(std::size_t k) { return number(integers(first(k))); }
};

static_assert(Simd<simd<float>> && Simd<simd<double>>);

}  // namespace
