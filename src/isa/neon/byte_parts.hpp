// Loads a part of a vector of bytes on NEON, and adds up sums of rows. The sums are in lanes of 32 bits.
#pragma once

#include <arm_neon.h>

#include <cstddef>

#include "kernels/vector/first_bytes.hpp"

namespace {

inline uint8x16_t load_first_16(const void *p, std::size_t k) {
  const SixteenBytes bytes = first_bytes(p, k);
  return vcombine_u8(vcreate_u8(bytes.low), vcreate_u8(bytes.high));
}

struct FourByteRows {
  using Four = int32x4_t;
  static constexpr std::size_t fours = 1;

  static Four four(const int32x4_t (&s)[4]) {
    return vpaddq_s32(vpaddq_s32(s[0], s[1]), vpaddq_s32(s[2], s[3]));
  }
  static void store(const Four (&four)[fours], float scale, float *out, std::size_t count) {
    const float32x4_t scaled = vmulq_n_f32(vcvtq_f32_s32(four[0]), scale);
    if (count == 4) {
      vst1q_f32(out, scaled);
    } else {
      float sum[4];
      vst1q_f32(sum, scaled);
      for (std::size_t r = 0; r < count; ++r) out[r] = sum[r];
    }
  }
};

}  // namespace
