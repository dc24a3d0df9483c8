// AVX-VNNI: one instruction multiplies 16-bit integers and adds the products.
#pragma once

#include <immintrin.h>

#include "isa/avx2/integer_simd.hpp"

namespace {

struct VnniIntegers : Avx2Integers {
  static Sums add_products(Sums s, Wide a, Wide b) { return _mm256_dpwssd_avx_epi32(s, a, b); }
};

}  // namespace
