// The shared body of attention over int8 keys and values.
#pragma once

#include "kernels/attention/attention.hpp"
#include "kernels/attention/integer_products.hpp"

namespace {

template <>
struct WaysOf<std::int8_t> {
  using type = Int8Ways<IntegerProducts>;
};

}  // namespace

#define RAPT_FAMILY_attention(kernel) kernel
#include "kernels/part.hpp"
