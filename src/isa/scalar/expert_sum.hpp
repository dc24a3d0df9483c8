// Adds up the rows of a token's experts as rapt.h says.
#pragma once

#include <cstddef>

#include "contract/fused.hpp"
#include "contract/types.hpp"

namespace {

template <class E>
void expert_sum(const E *x, std::ptrdiff_t x_stride, std::size_t top_k, const rapt::Arithmetic<E> *weights,
                const E *add, E *y, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  for (std::size_t i = 0; i < n; ++i) {
    A t = rapt::widened(x[i]);
    if (weights) t = weights[0] * t;
    for (std::size_t slot = 1; slot < top_k; ++slot) {
      const A value =
          rapt::widened(x[static_cast<std::ptrdiff_t>(slot) * x_stride + static_cast<std::ptrdiff_t>(i)]);
      t = weights ? fused(weights[slot], value, t) : t + value;
    }
    if (add) t = t + rapt::widened(add[i]);
    y[i] = rapt::narrowed<E>(t);
  }
}

}  // namespace
