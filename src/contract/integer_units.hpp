// Turns numbers into integers of at most a given magnitude, and back.
//
// n numbers of f32, whose largest magnitude is m, become n integers x and one step:
//   m finite, at least lowest:   x = rint(number * (largest / m)),  step = m / largest
//   m below lowest, 0 included:  x = 0,  step = 0
//   m infinite, or any NaN:      x = 0,  step = NaN
// Every operation rounds to f32, to nearest even. |x| <= largest, because the product errs by less than one
// half.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace rapt {

// A number times `inverse` is rounded to an integer, and the integer times `step` is about the number.
struct IntegerUnits {
  // This limit keeps largest / m finite and the step normal.
  static constexpr float lowest = 0x1p-100f;

  float inverse = 0, step = 0;

  // `magnitude` is that of a NaN if any number is a NaN.
  IntegerUnits(float magnitude, float largest) {
    if (!(magnitude <= std::numeric_limits<float>::max())) {
      step = std::numeric_limits<float>::quiet_NaN();
    } else if (magnitude >= lowest) {
      inverse = largest / magnitude;
      step = magnitude / largest;
    }
  }

  // Measures count numbers number(i).
  template <class Number>
  static IntegerUnits of(std::size_t count, float largest, Number number) {
    // As integers, the bits of magnitudes have the order of the numbers, and NaNs are the largest.
    std::uint32_t most = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(number(i)) & 0x7fffffff;
      if (magnitude > most) most = magnitude;
    }
    return {std::bit_cast<float>(most), largest};
  }

  std::int32_t integer(float number) const {
    if (inverse == 0) return 0;
    constexpr float magic = 0x1.8p23f;  // a sum with it has no bits below 1
    return static_cast<std::int32_t>((number * inverse + magic) - magic);
  }
};

}  // namespace rapt
