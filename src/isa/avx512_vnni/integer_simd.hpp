// Defines the integer vectors of AVX512-VNNI for attention over int8. One instruction multiplies 16-bit
// integers and adds the products.
#pragma once

#include <immintrin.h>

#include "isa/avx512/integer_simd.hpp"

namespace {

struct VnniIntegers : IntegerSimd {
  static Sums add_products(Sums s, Wide a, Wide b) { return _mm512_dpwssd_epi32(s, a, b); }
  static void add_columns(Sums (&s)[2], const Columns &c, Wide pair) {
    s[0] = add_products(s[0], c.low, pair);
    s[1] = add_products(s[1], c.high, pair);
  }
};

}  // namespace
