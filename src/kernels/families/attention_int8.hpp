// The shared body of attention over int8 keys and values.
#pragma once

#include "kernels/attention/attention.hpp"
#include "kernels/attention/integer_products.hpp"

namespace {

template <>
struct TileProducts<std::int8_t> {
  using Few = IntegerProducts;
};

}  // namespace

#define RAPT_FAMILY_attention(kernel) kernel
#include "kernels/part.hpp"
