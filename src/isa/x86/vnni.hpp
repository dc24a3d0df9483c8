// Defines what AVX-VNNI and AVX512-VNNI have alike: one instruction multiplies four bytes or two 16-bit integers of
// each lane, and adds the products.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa/x86/width.hpp"

#ifdef __AVX512F__
#define RAPT_VNNI(operation) _mm512_##operation##_epi32
#else
#define RAPT_VNNI(operation) _mm256_##operation##_avx_epi32
#endif

namespace {

// Bytes for byte_products.hpp. VPDPBUSD multiplies unsigned by signed bytes.
struct VnniBytes {
  using Bytes = Register;
  static constexpr std::size_t width = sizeof(Register);

  static Bytes zero() { return RAPT_MM_SI(setzero)(); }
  static Bytes load(const void *p) { return RAPT_MM_SI(loadu)(static_cast<const Register *>(p)); }
  static Bytes load_once(const void *p) {
    Bytes v = load(p);
    __asm__("" : "+v"(v));
    return v;
  }
  static Bytes bias() { return RAPT_MM(set1_epi8)(-128); }
  static Bytes biased(Bytes b) { return RAPT_MM_SI(xor)(b, bias()); }
  static Bytes add_products(Bytes s, Bytes f, Bytes b) {
    s = RAPT_VNNI(dpbusd)(s, f, b);
    __asm__("" : "+v"(s));  // otherwise gcc 12 copies every accumulator in every iteration
    return s;
  }
  static Bytes add_biased_products(Bytes s, Bytes f, Bytes b) { return add_products(s, b, f); }
  static Bytes join(Bytes a, Bytes b) { return RAPT_MM(add_epi32)(a, b); }
  static Bytes less(Bytes a, Bytes b) { return RAPT_MM(sub_epi32)(a, b); }
};

// Codes is the CodeSimd of the level below.
template <class Codes>
struct VnniCodes : Codes {
  using Sums = typename Codes::Sums;
  using X = std::int8_t;
  template <std::size_t rows>
  using Quad = const X *;
  using Weights = Register;
  static constexpr std::size_t place(std::size_t j) { return j; }
  static constexpr std::size_t most_rows = 6;

  static Weights weights(Register words) { return words; }
  template <std::size_t r>
  static Sums add(Sums s, Weights w, Quad<0> quad) {
    return Sums(RAPT_VNNI(dpbusd)(Register(s), w, Codes::every_lane(quad + 4 * r)));
  }
};

// Integers is the IntegerSimd of the level below.
template <class Integers>
struct VnniIntegers : Integers {
  using Sums = typename Integers::Sums;
  using Wide = typename Integers::Wide;

  static Sums add_products(Sums s, Wide a, Wide b) { return RAPT_VNNI(dpwssd)(s, a, b); }
  static void add_columns(Sums (&s)[2], const typename Integers::Columns &c, Wide pair) {
    s[0] = add_products(s[0], c.low, pair);
    s[1] = add_products(s[1], c.high, pair);
  }
};

}  // namespace
