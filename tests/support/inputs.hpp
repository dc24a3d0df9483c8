// Makes the inputs of the tests. A seed gives the same values on every platform.
#pragma once

#include <span>

#include "support/names.hpp"
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
  odd_rows,          // sigma 2, but one row in eight is odd (inputs.cpp)

  // These are only for directed cases. Random cases hardly ever reach the code that these classes test.
  losing,        // one large exponential, then terms of which a plain sum loses a large part
  far_scores,    // attention, like the rest: weights near their cutoff, and large values
  tiny_rows,     // queries, keys and dout of a few ulps of 0: products underflow
  bad_values,    // one value of each head is not finite in one dimension; the seed chooses it
  bad_keys,      // like bad_values, but one key
  bad_queries,   // like bad_values, but one query
  bad_dout,      // like bad_values, but the dout of one query
  periodic,      // sigma 2, repeated after 2039 elements, so that millions are made fast
  nans,          // periodic, and one to three NaNs of any payload
  largest,       // the largest number, also for bytes
  tiny_queries,  // attention: subnormal queries and keys near the largest number
  rising,        // periodic, and larger by a tenth after each period: a running maximum moves on
};

inline constexpr InputClass all_input_classes[] = {
    InputClass::uniform,        InputClass::gaussian,  InputClass::gaussian_wide,
    InputClass::denormals,      InputClass::huge,      InputClass::signed_zeros,
    InputClass::wide_exponents, InputClass::exp_range, InputClass::minus_infinities,
    InputClass::specials,       InputClass::odd_rows,
};

template <>
inline constexpr auto names_of<InputClass> = std::to_array<const char *>(
    {"uniform",        "gaussian",  "gaussian_wide",    "denormals",    "huge",        "signed_zeros",
     "wide_exponents", "exp_range", "minus_infinities", "specials",     "odd_rows",    "losing",
     "far_scores",     "tiny_rows", "bad_values",       "bad_keys",     "bad_queries", "bad_dout",
     "periodic",       "nans",      "largest",          "tiny_queries", "rising"});
static_assert(std::size(names_of<InputClass>) == static_cast<std::size_t>(InputClass::rising) + 1);

// Defined for all element types.
template <class T>
void fill(InputClass input, Random &random, std::span<T> values);

// Fills like a row of softmax's results: numbers in [0, 2 / size), an eighth of them exactly 0.
template <class T>
void fill_probabilities(Random &random, std::span<T> values);

}  // namespace rapt::test
