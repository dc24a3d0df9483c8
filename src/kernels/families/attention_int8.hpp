// Defines the attention kernel over int8 keys and values, for all instruction-set levels.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/integer_products.hpp"
#include "kernels/attention/ways.hpp"
#include "kernels/part.hpp"

namespace {

// Rows is the class that multiplies rows of int8: IntegerRows, or a level's replacement such as DigitRows.
template <class Rows>
inline constexpr auto attention_of_int8 = attention<std::int8_t, Int8Ways<IntegerProducts<Rows>>>;

}  // namespace
