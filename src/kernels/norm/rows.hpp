// Walks over the rows of a norm, adds the residual, and writes results.
#pragma once

#include <cstddef>

#include "call/norm_call.hpp"
#include "kernels/norm/parts.hpp"
#include "kernels/vector/alignment.hpp"
#include "kernels/vector/map.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Sets residual to x + residual.
template <class E>
[[gnu::flatten, gnu::noinline]] void add_to_residual(const E *x, E *residual, std::size_t n) {
  each_vector<rapt::Arithmetic<E>>(
      n, [&](auto part, std::size_t i) __attribute__((always_inline)) {
        part.store(residual + i, part.load(x + i) + part.load(residual + i));
      });
}

// Calls f(x, y) for each row. x is the row to normalise.
template <class E, class F>
[[gnu::always_inline]] inline void each_norm_row(const rapt::NormCall &call, const F &f) {
  const rapt_norm_options &o = call.options;
  const E *x = static_cast<const E *>(call.x);
  E *y = static_cast<E *>(call.y), *residual = static_cast<E *>(o.residual);
  for (std::size_t r = 0; r < o.rows; ++r, x += o.x_stride, y += o.y_stride) {
    if (residual) {
      add_to_residual(x, residual, o.cols);
      f(static_cast<const E *>(residual), y);
      residual += o.residual_stride;
    } else {
      f(x, y);
    }
  }
}

// Stores f(part, i) to y. A store that crosses a line takes two cycles, so a long row begins with a partial vector.
template <class E, class F>
[[gnu::always_inline]] inline void write_row(E *y, std::size_t n, const F &f) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  constexpr std::size_t worth_aligning_from = 64 * S::width;
  std::size_t begin = 0;
  if (n >= worth_aligning_from) {
    begin = elements_to_alignment(y);
    if (begin > 0) {
      const FirstOfVector part{begin};
      part.store(y, f(part, std::size_t{0}));
    }
  }
  const auto store = [&](auto part, std::size_t i) __attribute__((always_inline)) {
    part.store(y + i, f(part, i));
  };
  if constexpr (StoresTwo<S, E>) {
    for (; n - begin >= 2 * S::width; begin += 2 * S::width) {
      const auto first = f(WholeVector{}, begin), second = f(WholeVector{}, begin + S::width);
      S::store_two(y + begin, first, second);
    }
  }
  each_vector<A>(
      n - begin, [&](auto part, std::size_t i) __attribute__((always_inline)) { store(part, begin + i); });
}

}  // namespace
