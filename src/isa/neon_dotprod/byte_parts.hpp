// Defines vectors of bytes for NEON instructions that add four products to a lane of 32 bits.
#pragma once

#include <arm_neon.h>

#include "isa/neon/byte_parts.hpp"
#include "kernels/byte_products.hpp"

namespace {

struct DotprodBytes {
  using Bytes = int32x4_t;
  static constexpr std::size_t width = 16, together = 4;

  static Bytes zero() { return vdupq_n_s32(0); }
  static Bytes load(const void *p) {
    return vreinterpretq_s32_u8(vld1q_u8(static_cast<const std::uint8_t *>(p)));
  }
  static Bytes load_once(const void *p) { return load(p); }
  static Bytes load_first(const void *p, std::size_t k) { return vreinterpretq_s32_u8(load_first_16(p, k)); }
  static Bytes join(Bytes a, Bytes b) { return vaddq_s32(a, b); }
  static std::int64_t sum(Bytes s) { return vaddlvq_s32(s); }
};

}  // namespace
