// What tests feed to kernels: the same values on every platform for the same seed.
#pragma once

#include <span>

#include "support/random.hpp"

namespace rapt::test {

enum class InputClass {
  uniform,           // [-1, 1)
  gaussian,          // sigma 2
  gaussian_wide,     // sigma 40: most of a row's exponentials vanish
  denormals,         // subnormal numbers and zeros
  huge,              // magnitudes in the uppermost 2^8
  signed_zeros,      // zeros of both signs, now and then +-1
  wide_exponents,    // any finite bits
  exp_range,         // from where exp is 0 to where it is infinite
  minus_infinities,  // sigma 2, and -inf here and there
  specials,          // sigma 2, and one to three of NaN, +-inf, +-0, the largest, the smallest
};

inline constexpr InputClass all_input_classes[] = {
    InputClass::uniform,        InputClass::gaussian,  InputClass::gaussian_wide,
    InputClass::denormals,      InputClass::huge,      InputClass::signed_zeros,
    InputClass::wide_exponents, InputClass::exp_range, InputClass::minus_infinities,
    InputClass::specials,
};

const char *name_of(InputClass input);

// Defined for float and double.
template <class T>
void fill(InputClass input, Random &random, std::span<T> values);

// As a row of softmax gives them: in [0, 2 / size), an eighth of them exactly 0.
template <class T>
void fill_probabilities(Random &random, std::span<T> values);

}  // namespace rapt::test
