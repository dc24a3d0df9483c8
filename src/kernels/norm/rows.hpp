// Walks over the rows of a norm, adds the residual, and writes results.
#pragma once

#include <cstddef>

#include "call/norm_call.hpp"
#include "kernels/norm/whole_or_first.hpp"
#include "kernels/vector/alignment.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/map.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Sets residual to x + residual.
template <class E>
[[gnu::flatten, gnu::noinline]] void add_to_residual(const E *x, E *residual, std::size_t n) {
  each_vector<rapt::Arithmetic<E>>(n, [&](auto part, std::size_t i) RAPT_INNER {
    part.store(residual + i, part.load(x + i) + part.load(residual + i));
  });
}

// Says how rows are written: whether past the caches, and which elements the next rows will read.
template <class E>
struct Writing {
  bool streams;
  const E *ahead;
};

// Calls write(x, y, writing, measure(x)) for each row. x is the row to normalise. While a row is written past the
// caches, a later row is fetched. Short rows look further ahead.
template <class E, class Measure, class Write>
RAPT_INNER inline void each_norm_row(const rapt::NormCall &call, const Measure &measure, const Write &write) {
  const rapt_norm_options &o = call.options;
  if (o.rows == 0) return;
  const E *x = static_cast<const E *>(call.x);
  E *y = static_cast<E *>(call.y), *residual = static_cast<E *>(o.residual);
  const bool streams = goes_past_caches(x, y, o.rows * o.cols);
  const std::size_t rows_ahead = 1 + 1024 / sizeof(E) / o.cols;
  const std::ptrdiff_t step =
      static_cast<std::ptrdiff_t>(rows_ahead) * (residual ? o.residual_stride : o.x_stride);
  const auto next_row = [&]() RAPT_INNER {
    const E *row = x;
    if (residual) {
      add_to_residual(x, residual, o.cols);
      row = residual;
      residual += o.residual_stride;
    }
    x += o.x_stride;
    return row;
  };
  // A short row is measured before the row before it is written, so that no product waits for a root: rms_norm of 128
  // columns takes .93 of the time on AVX-512 and .85 on AVX2, of 768 columns .82 and .83 (Zen 5).
  const bool early = o.cols <= 1024;
  const E *row = next_row();
  auto measured = measure(row);
  for (std::size_t r = 0;;) {
    const Writing<E> writing{streams, r + rows_ahead < o.rows ? row + step : row};
    const bool last = ++r == o.rows;
    const E *next = row;
    auto of_next = measured;
    if (early && !last) {
      next = next_row();
      of_next = measure(next);
    }
    write(row, y, writing, measured);
    if (last) break;
    if (!early) {
      next = next_row();
      of_next = measure(next);
    }
    row = next;
    measured = of_next;
    y += o.y_stride;
  }
  if (streams) simd<rapt::Arithmetic<E>>::end_streaming();
}

// Stores f(part, i) to y. A store that crosses a line takes two cycles, so a long row begins with a partial vector.
//
//   4096 rows of 8192 columns, ns per element | rms_norm: AVX2, AVX-512 | layer_norm
//   ordinary stores                           | .50, .52                | .58, .60
//   non-temporal, the next row to L1          | .41, .41                | .48, .45
//   non-temporal, the next row to L2          | .36, .32                | .36, .35
//
// Where everything is in L2 or L3, such fetches make both norms slower, by up to an eighth.
template <class E, class F>
RAPT_INNER inline void write_row(E *y, std::size_t n, const Writing<E> &writing, const F &f) {
  using S = simd<rapt::Arithmetic<E>>;
  constexpr std::size_t step = 4 * S::width, line = 64 / sizeof(E);
  std::size_t i = 0;
  if (n >= 64 * S::width) {
    i = elements_to_alignment(y);
    if (i > 0) {
      const FirstOfVector part{i};
      part.store(y, f(part, std::size_t{0}));
    }
  }
  const bool streams = writing.streams && is_aligned(y + i);
  for (; n - i >= step; i += step) {
    typename S::batch v[4];
    unroll<4>([&](std::size_t r) RAPT_INNER { v[r] = f(WholeVector{}, i + r * S::width); });
    if (streams) {
      for (std::size_t j = 0; j < step; j += line) __builtin_prefetch(writing.ahead + i + j, 0, 2);
      unroll<4>([&](std::size_t r) RAPT_INNER { S::stream(y + i + r * S::width, v[r]); });
    } else if constexpr (StoresTwo<S, E>) {
      S::store_two(y + i, v[0], v[1]);
      S::store_two(y + i + 2 * S::width, v[2], v[3]);
    } else {
      unroll<4>([&](std::size_t r) RAPT_INNER { S::store(y + i + r * S::width, v[r]); });
    }
  }
  for (; n - i >= S::width; i += S::width) S::store(y + i, f(WholeVector{}, i));
  if (i < n) {
    const FirstOfVector part{n - i};
    part.store(y + i, f(part, i));
  }
}

}  // namespace
