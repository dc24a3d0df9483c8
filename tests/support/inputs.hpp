// Makes the inputs of the tests. A seed gives the same values on every platform.
#pragma once

#include <span>

#include "support/names.hpp"
#include "support/random.hpp"

namespace rapt::test {

enum class InputClass {
  uniform,           // [-1, 1)
  gaussian,          // sigma 2
  gaussian_wide,     // sigma 40: most exponentials of a row are negligible
  denormals,         // subnormal numbers and zeros
  huge,              // only the 8 largest exponents
  signed_zeros,      // zeros of both signs, one in 16 is +-1
  wide_exponents,    // random finite bit patterns
  exp_range,         // from inputs where exp is 0 to inputs where it is infinite
  minus_infinities,  // sigma 2, one in 8 is -inf
  specials,          // sigma 2, one to three of NaN, +-inf, -0, the largest, the smallest
  odd_rows,          // sigma 2, one row in eight is special (OddRow in inputs.cpp)

  // The classes below are for directed cases, because random cases hardly ever reach the code that they test.
  losing,        // one term of 1, then tiny terms that a plain sum rounds wrongly
  far_scores,    // attention: weights near the cutoff below which they are 0, and large values
  tiny_rows,     // attention: queries, keys and dout of a few ulps of 0, so products underflow
  bad_values,    // attention: one value row of each head has a NaN or infinity; the seed chooses it
  bad_keys,      // like bad_values, but one key row
  bad_queries,   // like bad_values, but one query row
  bad_dout,      // like bad_values, but one row of dout
  periodic,      // sigma 2, with period 2039, so that millions of elements are made fast
  nans,          // like periodic, with one to three NaNs of random payload
  largest,       // every element is the largest finite number, also for bytes
  tiny_queries,  // attention: subnormal queries and keys near the largest number
  rising,        // like periodic, but larger by 0.1 after each period, so a running maximum keeps rising
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

// Fills with numbers like a row of softmax results: in [0, 2 / size), one in eight exactly 0.
template <class T>
void fill_probabilities(Random &random, std::span<T> values);

}  // namespace rapt::test
