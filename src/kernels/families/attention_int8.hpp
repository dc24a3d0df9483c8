// The shared body of attention over int8 keys and values.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/integer_products.hpp"
#include "kernels/attention/ways.hpp"
#include "kernels/part.hpp"

namespace {

// Rows is IntegerRows, or a level's own replacement such as DigitRows.
template <class Rows>
inline constexpr auto attention_of_int8 = attention<std::int8_t, Int8Ways<IntegerProducts<Rows>>>;

}  // namespace
