// Defines ByteSimd and RowSimd for NEON with USDOT, which multiplies unsigned by signed bytes.
#pragma once

#include <arm_neon.h>

#include "isa/neon_dotprod/byte_parts.hpp"

namespace {

struct I8mm : DotprodBytes {
  // This is inline assembly, because gcc 12 and its assembler offer the instruction only for Armv8.2.
  // Compiling for Armv8.2 would require more features of the CPU.
  static Bytes add_products(Bytes s, Bytes f, Bytes b) {
    __asm__(".arch armv8.2-a+i8mm\n\tusdot %0.4s, %1.16b, %2.16b" : "+w"(s) : "w"(f), "w"(b));
    return s;
  }
};

template <>
struct ByteSimd<std::uint8_t> : DirectBytes<I8mm, std::uint8_t> {};
// USMMLA is not used. It multiplies two rows of factors, and one query would leave the second row idle.
template <>
struct RowSimd<std::uint8_t> : DirectBytes<I8mm, std::uint8_t>, FourByteRows {};

}  // namespace
