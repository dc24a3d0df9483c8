// Defines the numbers of silu, gelu and gelu_tanh and of their gradients that every instruction-set level must agree
// on, and the order of operations. Every operation rounds once; fma(a, b, c) is fused.
//
//   sigmoid(v)     e = exp(-|v|), d = 1 + e;  (v < 0 ? e : 1) / d
//   silu(x)        x * sigmoid(x)
//   gelu_tanh(x)   z = x * x, v = x * fma(z, cubic, linear);  x * sigmoid(v)
//   gelu(x)        a = min(|x|, tail_end), h = a * a, l = fma(a, a, -h)
//                  e = exp(-h / 2), e = fma(e, -l / 2, e)
//                  r = 1 / (a + 4), u = fma(-8, r, 1), p = p[0] + u * p[1] + ..., by fma from the last coefficient on
//                  q = e * (r * p);  x * (x < 0 ? q : 1 - q)
//
// Gradients, with the names from above and b = min(|x|, tail_end or sigmoid_end) with the sign of x, which keeps the limits
// at infinite x:
//
//   silu         dy * (sigmoid(x) * fma(b, sigmoid(-x), 1))
//   gelu_tanh    dy * (sigmoid(v) * fma(b * fma(b * b, slope, linear), sigmoid(-v), 1))
//   gelu         dy * fma(b, e * density, x < 0 ? q : 1 - q)
//
// sigmoid(-v) has the e and d of sigmoid(v).
//
// With sigmoid, a tail keeps its accuracy: 1 + tanh and x / (1 + exp(-x)) lose it below -3 and -88. gelu_tanh is
// x / 2 * (1 + tanh(v / 2)), which equals x * sigmoid(v). gelu is x times the normal distribution, whose tail q is
// exp(-a^2 / 2) times a smooth function. l is the rounding error of a * a, without which q would err by 50 ULP.
#pragma once

#include <cstddef>

namespace rapt {
namespace {

template <class A>
struct ActivationContract;

// Sollya 8.0 computes p, 4 times the factor of the tail, for a up to `tail_end`, where q rounds to 0 (for f64: 39,
// degree 22, and D... in place of SG...):
//   a = 4*(1+x)/(1-x);
//   fpminimax(0.5*erfc(a/sqrt(2))*exp(a^2/2)*(1+a/4), 9, [|SG...|], [-1; (14.5-4)/(14.5+4)], relative);
template <>
struct ActivationContract<float> {
  static constexpr float linear = 0x1.988454p0f;    // 2 * sqrt(2 / pi)
  static constexpr float cubic = 0x1.2444f2p-4f;    // 0.044715 times that
  static constexpr float slope = 0x1.b6676cp-3f;    // 3 * cubic
  static constexpr float density = 0x1.988454p-2f;  // 1 / sqrt(2 * pi)
  static constexpr float tail_end = 14.5f;
  static constexpr float sigmoid_end = 104;  // where e rounds to 0
  static constexpr std::size_t coefficient_count = 10;
  static constexpr float p[coefficient_count] = {
      0x1.82b4bcp-1f,  -0x1.373e3ap-1f, 0x1.8c6d8cp-2f,  -0x1.7dffaep-3f, 0x1.eed91ap-5f,
      -0x1.ed553ep-8f, -0x1.cd973p-9f,  0x1.9bb068p-10f, 0x1.91808cp-13f, -0x1.0743ep-13f};
};

template <>
struct ActivationContract<double> {
  static constexpr double linear = 0x1.9884533d43651p0;
  static constexpr double cubic = 0x1.2444f2a4d8b4bp-4;
  static constexpr double slope = 0x1.b6676bf7450fp-3;
  static constexpr double density = 0x1.9884533d43651p-2;
  static constexpr double tail_end = 39.0;
  static constexpr double sigmoid_end = 746;
  static constexpr std::size_t coefficient_count = 23;
  static constexpr double p[coefficient_count] = {
      0x1.82b4bb8c94dcep-1,  -0x1.373e3a893c28ap-1,  0x1.8c6dbf2cfc2c5p-2,   -0x1.7dff2bff6842fp-3,
      0x1.eec4cc3e48142p-5,  -0x1.ee2761044a3efp-8,  -0x1.c81719cca078ep-9,  0x1.ab825fb349ad9p-10,
      0x1.17a4a7839ae5dp-13, -0x1.e4a4221a17964p-13, -0x1.0012c89328d9fp-19, 0x1.26d06683ec827p-15,
      0x1.7fede811c2754p-21, -0x1.8d48f49d5e7f9p-18, -0x1.4fd09664a6f47p-21, 0x1.124ac20b39c8p-20,
      0x1.1bf9e935b8c47p-22, -0x1.501bec16c005ep-23, -0x1.4c889c2f3f48ap-24, 0x1.12dd2fc608b28p-26,
      0x1.f8a009f4327fdp-27, -0x1.5a4e6e5c53071p-32, -0x1.4a12981bf9a8cp-30};
};

}  // namespace
}  // namespace rapt
