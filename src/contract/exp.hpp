// Defines the numbers of exp and tanh that every instruction-set level must agree on. The namespace is
// unnamed, because every level compiles this file, and would otherwise define the same symbols for its
// arrays.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rapt {
namespace {

template <class A>
struct ExpContract;

// exp(x) = 2^n * exp(r),  n = round(x / ln 2),  r = x - n * ln2_hi - n * ln2_lo,  exp(r) = 1 + r + r^2 *
// (c[0] + c[1] r + …).
//
// n comes from adding `round_magic`, which leaves n in the low bits of the sum. ln2_hi has the full precision
// of A: with a fused multiply-add, x - n * ln2_hi is exact. The polynomial's degree (6 in f32, 11 in f64) is
// the lowest with an error below 1 ULP: degree 5 gives 2.2 ULP in f32. A 16-entry table with a cubic needs
// one operation less on AVX-512, but loses 18 % on AVX2 and has no cheap form on NEON.
//
// This command of Sollya 8.0 computes the coefficients for f32 (for f64: with degrees 2 to 11, and D... in
// place of SG...):
//   fpminimax(exp(x), [|2,3,4,5,6|], [|SG...|], [-1.002*log(2)/2; 1.002*log(2)/2], 1+x, relative);
template <>
struct ExpContract<float> {
  using Bits = std::uint32_t;
  static constexpr int mantissa_bits = 23;
  static constexpr float log2_e = 0x1.715476p0f;
  static constexpr float ln2_hi = 0x1.62e43p-1f;
  static constexpr float ln2_lo = -0x1.05c61p-29f;
  static constexpr float round_magic = 0x1.8p23f;
  static constexpr std::size_t coefficient_count = 5;
  static constexpr float c[coefficient_count] = {0x1.fffffcp-2f, 0x1.55549p-3f, 0x1.5558a6p-5f,
                                                 0x1.123aecp-7f, 0x1.6a5a54p-10f};

  // Above `exp_overflow` the result is +inf. At `exp_underflow` and below the result rounds to +0. Between
  // -exp_plain and exp_plain every exponent is normal, so that adding n to the exponent is exact.
  static constexpr float exp_overflow = 0x1.62e42ep6f;
  static constexpr float exp_underflow = -104.0f;
  static constexpr float exp_plain = 87.0f;
  static constexpr float exp_normal_from = -0x1.5d589ep6f;  // from here on exp is a normal number
  static constexpr float integer_unit = 0x1p23f;            // adding it rounds to an integer
  static constexpr int subnormal_exponent = 149;            // the smallest subnormal number is 2^-149
  static constexpr int lowest_n = -125;                     // from this n on 2^n * exp(r) is a normal number

  static constexpr float tanh_saturates = 10.0f;
};

template <>
struct ExpContract<double> {
  using Bits = std::uint64_t;
  static constexpr int mantissa_bits = 52;
  static constexpr double log2_e = 0x1.71547652b82fep0;
  static constexpr double ln2_hi = 0x1.62e42fefa39efp-1;
  static constexpr double ln2_lo = 0x1.abc9e3b39803fp-56;
  static constexpr double round_magic = 0x1.8p52;
  static constexpr std::size_t coefficient_count = 10;
  static constexpr double c[coefficient_count] = {
      0x1.000000000000ap-1,  0x1.55555555554fbp-3,  0x1.555555555065p-5,   0x1.11111111275e4p-7,
      0x1.6c16c1849c672p-10, 0x1.a01a012ccfa85p-13, 0x1.a01998dfe769ep-16, 0x1.71df1ebf3dc9fp-19,
      0x1.28ae84427d79bp-22, 0x1.ad8b98778660dp-26};

  static constexpr double exp_overflow = 0x1.62e42fefa39efp9;
  static constexpr double exp_underflow = -746.0;
  static constexpr double exp_plain = 708.0;
  static constexpr double exp_normal_from = -0x1.6232bdd7abcd2p9;
  static constexpr double integer_unit = 0x1p52;
  static constexpr int subnormal_exponent = 1074;
  static constexpr int lowest_n = -1021;

  static constexpr double tanh_saturates = 20.0;
};

// 2^x has another reduction and another range; the steps are those of exp.
//
//   fpminimax(2^x, [|1,...,6|], [|SG...|], [-0.501; 0.501], 1, relative);   (for f64: 1 to 11, D...)
template <class A>
struct Exp2Contract;

template <>
struct Exp2Contract<float> : ExpContract<float> {
  static constexpr float linear = 0x1.62e43p-1f;
  static constexpr float c[coefficient_count] = {0x1.ebfbd8p-3f, 0x1.c6af72p-5f, 0x1.3b309p-7f,
                                                 0x1.5f0e12p-10f, 0x1.3fb5f2p-13f};
  static constexpr float exp_overflow = 0x1.fffffep6f;
  static constexpr float exp_underflow = -150.0f;
  static constexpr float exp_plain = 125.0f;
  static constexpr float exp_normal_from = -126.0f;
};

template <>
struct Exp2Contract<double> : ExpContract<double> {
  static constexpr double linear = 0x1.62e42fefa39efp-1;
  static constexpr double c[coefficient_count] = {
      0x1.ebfbdff82c5a6p-3,  0x1.c6b08d704a128p-5,  0x1.3b2ab6fb9fd4bp-7,  0x1.5d87fe789f8c1p-10,
      0x1.4309130f8b404p-13, 0x1.ffcbfc61b2e73p-17, 0x1.62bfc5f526e95p-20, 0x1.b5252c940fc5p-24,
      0x1.e61e117ea7f08p-28, 0x1.e9650ee6e54fap-32};
  static constexpr double exp_overflow = 0x1.fffffffffffffp9;
  static constexpr double exp_underflow = -1075.0;
  static constexpr double exp_plain = 1021.0;
  static constexpr double exp_normal_from = -1022.0;
};

}  // namespace
}  // namespace rapt
