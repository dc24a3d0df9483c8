// exp of each element.
#pragma once

#include <cstddef>

#include "kernels/vector/exp.hpp"
#include "kernels/vector/map.hpp"

namespace {

template <class E>
[[gnu::flatten]] void exp(const E *x, E *y, std::size_t n) {
  map(x, y, n, Exp<rapt::Arithmetic<E>>());
}

}  // namespace
