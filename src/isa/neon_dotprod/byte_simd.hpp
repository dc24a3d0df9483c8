// Defines ByteSimd and RowSimd for NEON with SDOT, which multiplies signed bytes, and UDOT, which multiplies
// unsigned bytes.
#pragma once

#include <arm_neon.h>

#include "isa/neon_dotprod/byte_parts.hpp"

namespace {

struct Dotprod : DotprodBytes {
  static Bytes bias() { return vreinterpretq_s32_u8(vdupq_n_u8(128)); }
  static Bytes biased(Bytes b) { return veorq_s32(b, bias()); }
  // This is inline assembly, because gcc 12 and its assembler offer the instructions only for Armv8.2.
  // Compiling for Armv8.2 would require more features of the CPU.
  static Bytes add_products(Bytes s, Bytes f, Bytes b) {
    __asm__(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(s) : "w"(f), "w"(b));
    return s;
  }
  static Bytes add_biased_products(Bytes s, Bytes f, Bytes b) {
    __asm__(".arch armv8.2-a+dotprod\n\tudot %0.4s, %1.16b, %2.16b" : "+w"(s) : "w"(f), "w"(b));
    return s;
  }
  static Bytes less(Bytes a, Bytes b) { return vsubq_s32(a, b); }
};

template <>
struct ByteSimd<std::int8_t> : DirectBytes<Dotprod, std::int8_t> {};
template <>
struct ByteSimd<std::uint8_t> : BiasedBytes<Dotprod, std::uint8_t> {};
template <>
struct RowSimd<std::int8_t> : DirectBytes<Dotprod, std::int8_t>, FourByteRows {};
template <>
struct RowSimd<std::uint8_t> : BiasedRows<Dotprod, std::uint8_t>, FourByteRows {};

}  // namespace
