// Computes exp of each element of an array.
#pragma once

#include <cstddef>

#include "kernels/vector/exp.hpp"
#include "kernels/vector/map_with_constants.hpp"

namespace {

template <class E>
[[gnu::flatten]] void exp(const E *x, E *y, std::size_t n) {
  map_with_constants<Exp<rapt::Arithmetic<E>>>(x, y, n);
}

}  // namespace
