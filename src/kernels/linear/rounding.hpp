// Rounds contiguous numbers to integers (contract/integer_units.hpp).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <xsimd/xsimd.hpp>

#include "contract/integer_units.hpp"

namespace {

// Finds the units of `count` numbers.
template <class E>
rapt::IntegerUnits units_of(const E *x, std::size_t count, float largest) {
  using S = simd<float>;
  using words = xsimd::batch<std::uint32_t, typename S::batch::arch_type>;
  words most(0);
  const auto see = [&](typename S::batch v) {
    most = xsimd::max(most, words(S::bits(v)) & words(0x7fffffff));
  };
  std::size_t i = 0;
  for (; count - i >= S::width; i += S::width) see(S::load(x + i));
  if (i < count) see(S::load_first(x + i, count - i));
  std::uint32_t lanes[S::width], largest_of_lanes = 0;
  most.store_unaligned(lanes);
  for (const std::uint32_t lane : lanes) largest_of_lanes = lane > largest_of_lanes ? lane : largest_of_lanes;
  return {std::bit_cast<float>(largest_of_lanes), largest};
}

// Numbers that round_numbers() rounds in one call.
inline constexpr std::size_t rounded_at_once = 32;

// Sets `to` to integers of the first `count` of 32 numbers, and of zeros after them. No other number is read. If
// `inverse` is that of a NaN or an infinity, the integers may be anything.
template <class E>
void round_numbers(const E *x, std::size_t count, simd<float>::batch inverse, std::int8_t *to) {
  using S = simd<float>;
  using batch = typename S::batch;
  const batch magic(0x1.8p23f);  // sums with it have the integer in their low bits
  float sums[rounded_at_once];
  for (std::size_t j = 0; j < rounded_at_once; j += S::width) {
    const batch v = count >= rounded_at_once ? S::load(x + j)
                    : j < count              ? S::load_first(x + j, count - j)
                                             : batch(0);
    S::store(sums + j, v * inverse + magic);
  }
  for (std::size_t j = 0; j < rounded_at_once; ++j)
    to[j] = static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(sums[j]));
}

}  // namespace
