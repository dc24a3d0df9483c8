// Converts single halves. It uses integers, so no floating-point mode matters, and NaN keeps its payload: a
// scale that was unpacked can be packed again. Other bits are those of rapt_convert_f16_to_f32 and
// rapt_convert_f32_to_f16.
#pragma once

#include <bit>
#include <cstdint>

namespace rapt_ggml {

constexpr std::uint16_t half_infinity = 0x7c00, half_nan = 0x7e00;

// Blocks have halves at odd addresses. They are read byte by byte, which compilers make one load.
inline std::uint16_t load_half(const std::uint8_t *bytes) {
  return static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8);
}
inline void store_half(std::uint16_t half, std::uint8_t *bytes) {
  bytes[0] = static_cast<std::uint8_t>(half & 255);
  bytes[1] = static_cast<std::uint8_t>(half >> 8);
}

inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16, magnitude = half & 0x7fffU;
  if (magnitude >= half_infinity)
    return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13);
  if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + (112U << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;  // exact, and never subnormal in f32
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(subnormal));
}

// Rounds to nearest, ties to even.
inline std::uint16_t float_to_half(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x), magnitude = bits & 0x7fffffffU;
  const std::uint32_t sign = bits >> 16 & 0x8000U;
  std::uint32_t half;
  if (magnitude > 0x7f800000U) {
    const std::uint32_t payload = magnitude >> 13 & 0x3ffU;
    half = half_infinity | (payload ? payload : 0x200U);
  } else if (magnitude >= 0x477ff000U) {  // 65520 is halfway between the largest half and 2^16
    half = half_infinity;
  } else if (magnitude >= 113U << 23) {
    half = (magnitude - (112U << 23) + 0xfffU + (magnitude >> 13 & 1U)) >> 13;
  } else if (magnitude >= 102U << 23) {  // a subnormal half, a multiple of 2^-24
    const std::uint32_t shift = 126U - (magnitude >> 23), mantissa = (magnitude & 0x7fffffU) | 0x800000U;
    half = (mantissa + (1U << (shift - 1)) - 1U + (mantissa >> shift & 1U)) >> shift;
  } else {
    half = 0;
  }
  return static_cast<std::uint16_t>(sign | half);
}

inline float load_half_as_float(const std::uint8_t *bytes) { return half_to_float(load_half(bytes)); }

}  // namespace rapt_ggml
