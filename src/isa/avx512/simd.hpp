// Wraps the instructions of AVX-512 as overloads for both arithmetic types, and defines simd<A> with them.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <xsimd/xsimd.hpp>

#include "contract/exp.hpp"
#include "isa/x86/simd.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/parts.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

struct Avx512 : X86<Avx512, xsimd::avx512bw> {
  using X86::load, X86::widened, X86::narrowed;

  static u32 load_words(const std::uint8_t *p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
  }
  static f32 load(const std::uint8_t *p) { return _mm512_cvtepi32_ps(load_words(p)); }
  static f32 load(const std::int8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p))));
  }
  static __mmask16 lanes_of_bits(std::uint32_t bits) { return static_cast<__mmask16>(bits); }
  static f32 load_where(__mmask16 m, const float *p) { return _mm512_maskz_loadu_ps(m, p); }
  static f64 load_where(__mmask8 m, const double *p) { return _mm512_maskz_loadu_pd(m, p); }
  static void store_where(float *p, __mmask16 m, f32 v) { _mm512_mask_storeu_ps(p, m, v); }
  static void store_where(double *p, __mmask8 m, f64 v) { _mm512_mask_storeu_pd(p, m, v); }

  static f32 floor(f32 v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
  // Reorders two vectors to a0 b0 a1 b1 and so on.
  static void interleave(f32 &a, f32 &b) {
    alignas(64) static constexpr std::int32_t low[] = {0, 16, 1, 17, 2, 18, 3, 19,
                                                       4, 20, 5, 21, 6, 22, 7, 23};
    const __m512i lower = _mm512_load_si512(low), upper = _mm512_add_epi32(lower, _mm512_set1_epi32(8));
    const f32 first = _mm512_permutex2var_ps(a, lower, b);
    b = _mm512_permutex2var_ps(a, upper, b);
    a = first;
  }
  static void interleave(f64 &a, f64 &b) {
    const __m512i lower = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0),
                  upper = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    const f64 first = _mm512_permutex2var_pd(a, lower, b);
    b = _mm512_permutex2var_pd(a, upper, b);
    a = first;
  }
  static f32 odds_twice(f32 v) { return _mm512_movehdup_ps(v); }
  static f64 odds_twice(f64 v) { return _mm512_permute_pd(v, 0xff); }
  static f64 select_where_odd(f64 shifted, f64 yes, f64 no) {
    return select(_mm512_test_epi64_mask(bits(shifted), _mm512_set1_epi64(1)), yes, no);
  }
  static f64 negate_where_second_bit(f64 shifted, f64 v) {
    constexpr int a_changed_by_b_and_c = 0x78;
    const u64 second = bits(shifted) << 62;
    return number(u64(_mm512_ternarylogic_epi64(bits(v), second, bits(f64(-0.0)), a_changed_by_b_and_c)));
  }

  static __m256i narrowed(f32 v, rapt::BF16 *) {
    const __m512i bits = _mm512_castps_si512(v), quiet = _mm512_set1_epi32(0x400000);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i upper = _mm512_mask_or_epi32(rounded_to_bf16(v), nan, bits, quiet);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(upper, 16));
  }
  // Rounds numbers other than NaN to bf16, ties to even. Each result is in the upper half of its lane.
  static __m512i rounded_to_bf16(f32 v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    return _mm512_mask_add_epi32(rounded, odd, bits, _mm512_set1_epi32(0x8000));
  }
  // Stores two vectors at once, because one instruction packs both.
  static void store_two(rapt::BF16 *p, f32 a, f32 b) {
    if (_mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) != 0) [[unlikely]] {
      store(p, a);
      return store(p + 16, b);
    }
    const __m512i first = _mm512_srli_epi32(rounded_to_bf16(a), 16),
                  second = _mm512_srli_epi32(rounded_to_bf16(b), 16);
    const __m512i parts = _mm512_packus_epi32(first, second);
    const __m512i order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    _mm512_storeu_si512(p, _mm512_permutexvar_epi64(order, parts));
  }
  template <Half H>
  static f32 load_where(__mmask16 m, const H *p) {
    return widened(_mm256_maskz_loadu_epi16(m, p), p);
  }
  template <Half H>
  static void store_where(H *p, __mmask16 m, f32 v) {
    _mm256_mask_storeu_epi16(p, m, narrowed(v, p));
  }
  template <Half H>
  static f32 load_halves(const H *a, const H *b) {
    const auto part = [](const H *p) { return _mm_loadu_si128(reinterpret_cast<const __m128i *>(p)); };
    return widened(_mm256_inserti128_si256(_mm256_castsi128_si256(part(a)), part(b), 1), a);
  }

  static f32 abs(f32 a) { return _mm512_abs_ps(a); }
  static f64 abs(f64 a) { return _mm512_abs_pd(a); }
  static f32 scale_by_power(f32 p, f32 n) { return _mm512_scalef_ps(p, n); }
  static f64 scale_by_power(f64 p, f64 n) { return _mm512_scalef_pd(p, n); }

  template <int predicate>
  static __mmask16 compare(f32 a, f32 b) {
    return _mm512_cmp_ps_mask(a, b, predicate);
  }
  template <int predicate>
  static __mmask8 compare(f64 a, f64 b) {
    return _mm512_cmp_pd_mask(a, b, predicate);
  }
  static f32 select(__mmask16 m, f32 yes, f32 no) { return _mm512_mask_blend_ps(m, no, yes); }
  static f64 select(__mmask8 m, f64 yes, f64 no) { return _mm512_mask_blend_pd(m, no, yes); }
  static f32 keep_where(__mmask16 m, f32 v) { return _mm512_maskz_mov_ps(m, v); }
  static f64 keep_where(__mmask8 m, f64 v) { return _mm512_maskz_mov_pd(m, v); }
  static f32 add_where(__mmask16 m, f32 a, f32 b) { return _mm512_mask_add_ps(a, m, a, b); }
  static f64 add_where(__mmask8 m, f64 a, f64 b) { return _mm512_mask_add_pd(a, m, a, b); }
  static f32 scale_where(__mmask16 m, f32 p, f32 n) { return _mm512_maskz_scalef_ps(m, p, n); }
  static f64 scale_where(__mmask8 m, f64 p, f64 n) { return _mm512_maskz_scalef_pd(m, p, n); }

  static f32 number(u32 v) { return _mm512_castsi512_ps(v); }
  static f64 number(u64 v) { return _mm512_castsi512_pd(v); }
  static f32 integer_bits_where(__mmask16 m, f32 a) {
    return number(u32(_mm512_mask_cvtps_epi32(bits(a), m, a)));
  }
  static f64 integer_bits_where(__mmask8 m, f64 a) {
    return number(u64(_mm512_mask_cvtpd_epi64(bits(a), m, a)));
  }
  static bool any_common_bit(u32 a, u32 b) { return _mm512_test_epi32_mask(a, b) != 0; }
  static bool any_common_bit(u64 a, u64 b) { return _mm512_test_epi64_mask(a, b) != 0; }

  static constexpr int a_or_b_and_c = 0xf8;
  static f32 with_sign(f32 a, f32 b) {
    return number(u32(_mm512_ternarylogic_epi32(bits(a), bits(b), bits(f32(-0.0f)), a_or_b_and_c)));
  }
  static f64 with_sign(f64 a, f64 b) {
    return number(u64(_mm512_ternarylogic_epi64(bits(a), bits(b), bits(f64(-0.0)), a_or_b_and_c)));
  }
  static f32 either_bits(f32 a, f32 b, f32 c) {
    return number(u32(_mm512_ternarylogic_epi32(bits(a), bits(b), bits(c), 0xfe)));
  }
  static f64 either_bits(f64 a, f64 b, f64 c) {
    return number(u64(_mm512_ternarylogic_epi64(bits(a), bits(b), bits(c), 0xfe)));
  }
  static void store_low_bytes(std::int8_t *p, f32 v) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm512_cvtepi32_epi8(_mm512_castps_si512(v)));
  }
  static bool any_common_bit(f32 a, f32 b) { return any_common_bit(bits(a), bits(b)); }
  static bool any_common_bit(f64 a, f64 b) { return any_common_bit(bits(a), bits(b)); }

  static f32 shifted(f32 a, f32 b, u32 shift) { return _mm512_permutex2var_ps(a, shift, b); }
  static f64 shifted(f64 a, f64 b, u64 shift) { return _mm512_permutex2var_pd(a, shift, b); }
  // Joins two quarters of a and two quarters of b. Two bits of `order` choose each quarter.
  template <int order>
  static f32 parts(f32 a, f32 b) {
    return _mm512_shuffle_f32x4(a, b, order);
  }
  template <int order>
  static f64 parts(f64 a, f64 b) {
    return _mm512_shuffle_f64x2(a, b, order);
  }
  static f32 load_halves(const float *a, const float *b) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(a)), _mm256_loadu_ps(b), 1);
  }
  static f64 load_halves(const double *a, const double *b) {
    return _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(a)), _mm256_loadu_pd(b), 1);
  }

  static float fold(f32 v) {
    const __m256 h8 = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 h4 = _mm_add_ps(_mm256_castps256_ps128(h8), _mm256_extractf128_ps(h8, 1));
    const __m128 h2 = _mm_add_ps(h4, _mm_movehl_ps(h4, h4));
    return _mm_cvtss_f32(_mm_add_ss(h2, _mm_movehdup_ps(h2)));
  }
  static double fold(f64 v) {
    const __m256d h4 = _mm256_add_pd(_mm512_castpd512_pd256(v), _mm512_extractf64x4_pd(v, 1));
    const __m128d h2 = _mm_add_pd(_mm256_castpd256_pd128(h4), _mm256_extractf128_pd(h4, 1));
    return _mm_cvtsd_f64(_mm_add_sd(h2, _mm_unpackhi_pd(h2, h2)));
  }
  static float fold_max(f32 v) { return _mm512_reduce_max_ps(v); }
  static double fold_max(f64 v) { return _mm512_reduce_max_pd(v); }
  template <int half>
  static f64 widened(f32 v) {
    return _mm512_cvtps_pd(half == 0 ? _mm512_castps512_ps256(v) : _mm512_extractf32x8_ps(v, 1));
  }
  static f32 narrowed(f64 low, f64 high) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
  }
};

template <class A>
struct simd : Avx512 {
  using batch = xsimd::batch<A, arch>;
  using mask = decltype(compare<_CMP_LT_OQ>(batch(), batch()));
  using word = std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>;
  static constexpr std::size_t width = 64 / sizeof(A);
  static constexpr std::size_t registers = 32;
  static constexpr std::size_t panel_vectors = 4;
  static constexpr std::size_t exp_together = 8;
  static constexpr bool fetches_by_line = true;
  static constexpr std::size_t keys_in_lanes_rows = width == 16 ? 24 : 20;
  static constexpr std::size_t rows_per_key = 16;
  static constexpr bool reads_groups_in_turn = false;
  static constexpr bool leaves_prefetches_to_cpu = width == 16;
  static constexpr std::size_t dot_rows_together = 4;  // each row needs 4 accumulators
  static constexpr bool aligns_dot = true;
  static constexpr bool can_stream = true;
  static constexpr bool masks_are_free = true;
  static constexpr bool max_keeps_nan = false;
  static constexpr bool exp_keeps_nan = true;  // vscalefps passes a NaN on

  static mask first(std::size_t k) {
    constexpr mask all = static_cast<mask>(~0u);
    return static_cast<mask>(_bzhi_u32(all, static_cast<unsigned>(k < width ? k : width)));
  }
  template <class E>
  static batch load_first(const E *p, std::size_t k) {
    return load_where(first(k), p);
  }
  template <class E>
  static batch load_last(const E *p, std::size_t k) {
    return load_where(static_cast<mask>(~0u << (width - k)), p);
  }
  template <class E>
  static void store_first(E *p, batch v, std::size_t k) {
    store_where(p, first(k), v);
  }
  static mask load_flags(const std::uint8_t *p, std::size_t k) {
    const __m128i flags = _mm_maskz_loadu_epi8(first(k), p);
    return static_cast<mask>(_mm_test_epi8_mask(flags, flags));
  }
  static std::uint64_t flag_bits(const std::uint8_t *p, std::size_t k) {
    const __m512i flags = _mm512_maskz_loadu_epi8(_bzhi_u64(~std::uint64_t{0}, static_cast<unsigned>(k)), p);
    return _mm512_test_epi8_mask(flags, flags);
  }
  static mask bit_set(const word *words, word bit) {
    const __m512i v = _mm512_loadu_si512(words);
    if constexpr (width == 16) {
      return _mm512_test_epi32_mask(v, _mm512_set1_epi32(static_cast<int>(bit)));
    } else {
      return _mm512_test_epi64_mask(v, _mm512_set1_epi64(static_cast<long long>(bit)));
    }
  }

  static batch divide(batch a, batch b) { return a / b; }
  static batch max_number(batch a, batch b) { return max(a, b); }
  static mask less(batch a, batch b) { return compare<_CMP_LT_OQ>(a, b); }
  static mask equal(batch a, batch b) { return compare<_CMP_EQ_OQ>(a, b); }
  static mask unordered(batch a, batch b) { return compare<_CMP_UNORD_Q>(a, b); }
  static mask either(mask a, mask b) { return static_cast<mask>(a | b); }
  static mask negate(mask a) { return static_cast<mask>(~a); }
  static bool any(mask m) { return m != 0; }
  static batch zero_where(mask m, batch v) { return keep_where(negate(m), v); }
  static batch keep_first(batch v, std::size_t k) { return keep_where(first(k), v); }
  static batch fill_after(batch v, std::size_t k, A value) { return select(first(k), v, batch(value)); }

  static batch add_exponent(batch p, batch n) {
    return number(bits(p) + (bits(n) << rapt::ExpContract<A>::mantissa_bits));
  }
  static batch scale_by_power_above(batch v, batch cutoff, batch p, batch n, batch) {
    return scale_where(compare<_CMP_NLE_UQ>(v, cutoff), p, n);
  }
  template <std::size_t registers>
  static batch bits_of_any(const batch (&v)[registers]) {
    constexpr int any_of_three = 0xfe;
    __m512i all = bits(v[0]);
    unroll<(registers - 1) / 2>([&](std::size_t i) RAPT_INNER {
      all = _mm512_ternarylogic_epi64(all, bits(v[2 * i + 1]), bits(v[2 * i + 2]), any_of_three);
    });
    if constexpr (registers % 2 == 0) all = _mm512_or_si512(all, bits(v[registers - 1]));
    return number(decltype(bits(v[0]))(all));
  }
  static bool has_bits(batch v, typename rapt::ExpContract<A>::Bits which) {
    return any_common_bit(bits(v), decltype(bits(v))(which));
  }

  static auto shift_by(std::size_t k) {
    if constexpr (width == 16) {
      const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
      return u32(lanes) + u32(static_cast<std::uint32_t>(k));
    } else {
      return u64(_mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0)) + u64(k);
    }
  }
  static batch join_halves(batch a, batch b) requires(width == 16) { return parts<0x44>(a, b); }
  static batch upper_half(batch v) { return parts<0xee>(v, v); }
  static batch keep_first_of_halves(batch v, std::size_t k, std::size_t l) {
    return keep_where(static_cast<mask>(first(k) | first(l) << width / 2), v);
  }

  RAPT_INNER static void transpose(batch (&v)[width]) {
    constexpr std::size_t n = part_width<A>;
    batch rows[4][n];
    unroll<4>([&](std::size_t q) RAPT_INNER {
      unroll<n>([&](std::size_t i) RAPT_INNER { rows[q][i] = v[n * q + i]; });
      transpose_in_parts<Avx512>(rows[q]);
    });
    unroll<n>([&](std::size_t i) RAPT_INNER {
      const batch a = parts<0x88>(rows[0][i], rows[1][i]), b = parts<0xdd>(rows[0][i], rows[1][i]);
      const batch c = parts<0x88>(rows[2][i], rows[3][i]), d = parts<0xdd>(rows[2][i], rows[3][i]);
      v[i] = parts<0x88>(a, c);
      v[i + n] = parts<0x88>(b, d);
      v[i + 2 * n] = parts<0xdd>(a, c);
      v[i + 3 * n] = parts<0xdd>(b, d);
    });
  }
  // Loads half a register at a time, which needs 16 insertions and saves 16 shuffles.
  //
  //   16 x 16 f32 in     | loads | inserts | shuffles | cycles
  //   whole registers    | 16    | 0       | 64       | 64
  //   quarters           | 64    | 48      | 32       | 70-89
  //   halves             | 32    | 16      | 48       | 56-69
  template <class Rows, class F>
  RAPT_INNER static void each_transposed(const Rows &row, std::size_t at, F f) {
    constexpr std::size_t n = part_width<A>;
    unroll<2>([&](auto h) RAPT_INNER {
      batch even[n], odd[n];
      unroll<n>([&](std::size_t i) RAPT_INNER {
        const auto half = [&](std::size_t r) { return row[i + r] + at + h * (width / 2); };
        const batch a = load_halves(half(0), half(n)), b = load_halves(half(2 * n), half(3 * n));
        even[i] = parts<0x88>(a, b);
        odd[i] = parts<0xdd>(a, b);
      });
      const auto finish = [&](auto from, batch(&part)[n]) RAPT_INNER {
        transpose_in_parts<Avx512>(part);
        unroll<n>([&](auto i) RAPT_INNER { f(std::integral_constant<std::size_t, from + i>{}, part[i]); });
      };
      finish(std::integral_constant<std::size_t, 2 * n * h>{}, even);
      finish(std::integral_constant<std::size_t, 2 * n * h + n>{}, odd);
    });
  }

  // Quarters 0 and 1 of the result are op of the two quarters in each half of a. Quarters 2 and 3 are op of
  // the two quarters in each half of b.
  template <class Op>
  static batch fold_halves(batch a, batch b, Op op) {
    return op(parts<0x88>(a, b), parts<0xdd>(a, b));
  }
  // Quarter j of the result is the reduction by op of the four quarters of vj.
  template <class Op>
  static batch fold_parts(batch v0, batch v1, batch v2, batch v3, Op op) {
    return fold_halves(op(parts<0x44>(v0, v1), parts<0xee>(v0, v1)),
                       op(parts<0x44>(v2, v3), parts<0xee>(v2, v3)), op);
  }
  template <class Op>
  static batch fold_each(const batch (&v)[width], Op op) {
    constexpr std::size_t n = part_width<A>;
    const auto of = [&](std::size_t i) { return fold_parts(v[i], v[i + n], v[i + 2 * n], v[i + 3 * n], op); };
    return fold_in_parts<Avx512, n>(of, op);
  }
  template <class Op>
  static batch fold_each_half(const batch (&v)[width / 2], Op op) {
    return fold_in_parts<Avx512, 4>([&](std::size_t i) { return fold_halves(v[i], v[i + 4], op); }, op);
  }
  static void store_scaled_folds(A *out, A scale, batch v0, batch v1, batch v2, batch v3) {
    batch sum = fold_parts(v0, v1, v2, v3, [](batch a, batch b) { return a + b; });
    if constexpr (width == 16) {
      sum = sum + batch(_mm512_permute_ps(sum, 0x4e));
      sum = sum + batch(_mm512_permute_ps(sum, 0xb1));
      const __m512i each = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
      const __m128 sums = _mm512_castps512_ps128(_mm512_permutexvar_ps(each, sum));
      _mm_storeu_ps(out, _mm_mul_ps(_mm_set1_ps(scale), sums));
    } else {
      sum = sum + batch(_mm512_permute_pd(sum, 0x55));
      const __m512i each = _mm512_set_epi64(0, 0, 0, 0, 6, 4, 2, 0);
      const __m256d sums = _mm512_castpd512_pd256(_mm512_permutexvar_pd(each, sum));
      _mm256_storeu_pd(out, _mm256_mul_pd(_mm256_set1_pd(scale), sums));
    }
  }
};

static_assert(Simd<simd<float>> && ScalesByPower<simd<float>> && ShiftsLanes<simd<float>> &&
              JoinsHalves<simd<float>>);
static_assert(Simd<simd<double>> && ScalesByPower<simd<double>> && ShiftsLanes<simd<double>>);

}  // namespace
