// Computes y[i] = f(x[i]) for an f that has many constants, such as a polynomial's.
//
// Map (map.hpp) has a copy of f for each place where it maps a vector. Such an f is large, so here one copy maps
// steps of four vectors, and one maps the vectors before and after them. Up to two vectors have a path of
// their own, which keeps constants in memory: setting them up would cost a short array time and registers.
#pragma once

#include <cstddef>

#include "contract/types.hpp"
#include "kernels/vector/alignment.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/map.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// f(v) replaces an array of vectors by their results. An f of two arrays, f(v, i, k), also gets the index of the
// first of the k elements in v.
template <class F, class batch, std::size_t count>
RAPT_INNER inline void apply(const F &f, batch (&v)[count], std::size_t i, std::size_t k) {
  if constexpr (requires { f(v, i, k); }) {
    f(v, i, k);
  } else {
    f(v);
  }
}

// For an f of two arrays: vector i / width of the k elements from p on.
template <class S, class E>
RAPT_INNER inline typename S::batch load_of(const E *p, std::size_t i, std::size_t k) {
  return k - i < S::width ? S::load_first(p + i, k - i) : S::load(p + i);
}

// Maps the elements [i, i + k), which fill a vector or a part of one.
template <class In, class Out, class F>
RAPT_INNER inline void map_vector(const In *x, Out *y, std::size_t i, std::size_t k, const F &f) {
  using S = simd<rapt::Arithmetic<Out>>;
  const bool whole = k == S::width;
  typename S::batch v[1];
  if (whole) {
    v[0] = S::load(x + i);
  } else {
    v[0] = S::load_first(x + i, k);
  }
  apply(f, v, i, k);
  if (whole) {
    S::store(y + i, v[0]);
  } else {
    S::store_first(y + i, v[0], k);
  }
}

// The first vector is a partial one, so that the stores are aligned. In memory, prefetching 2 KB ahead makes exp
// an eighth faster, even if y is x.
template <class F, class In, class Out, class... Arguments>
[[gnu::flatten, gnu::noinline]] void map_long(const In *x, Out *y, std::size_t n, Arguments... arguments) {
  using S = simd<rapt::Arithmetic<Out>>;
  constexpr std::size_t registers = 4, step = registers * S::width, worthwhile = 2 * step;
  constexpr std::size_t line = 64 / sizeof(In), ahead = 2048 / sizeof(In);
  const F f(arguments...);
  const bool in_memory = n >= past_caches_from<Out>;
  std::size_t head = n >= worthwhile ? elements_to_alignment(y) : 0;
  const bool streams = in_memory && goes_past_caches(x, y, n) && is_aligned(y + head);
  for (std::size_t i = 0; i < n;) {
    if (head == 0) {
      for (; n - i >= step; i += step) {
        if (in_memory) {
          for (std::size_t j = 0; j < step; j += line) __builtin_prefetch(x + i + ahead + j);
        }
        typename S::batch v[registers];
        unroll<registers>([&](std::size_t r) RAPT_INNER { v[r] = S::load(x + i + r * S::width); });
        apply(f, v, i, step);
        if (streams) {
          unroll<registers>([&](std::size_t r) RAPT_INNER { S::stream(y + i + r * S::width, v[r]); });
        } else if constexpr (StoresTwo<S, Out>) {
          unroll<registers / 2>([&](std::size_t r) RAPT_INNER {
            S::store_two(y + i + 2 * r * S::width, v[2 * r], v[2 * r + 1]);
          });
        } else {
          unroll<registers>([&](std::size_t r) RAPT_INNER { S::store(y + i + r * S::width, v[r]); });
        }
      }
      if (i == n) break;
    }
    const std::size_t left = n - i, k = head > 0 ? head : left < S::width ? left : S::width;
    head = 0;
    map_vector(x, y, i, k, f);
    i += k;
  }
  if (in_memory) S::end_streaming();
}

template <class F, class In, class Out, class... Arguments>
RAPT_INNER inline void map_with_constants(const In *x, Out *y, std::size_t n, Arguments... arguments) {
  using S = simd<rapt::Arithmetic<Out>>;
  if (n > 2 * S::width) return map_long<F>(x, y, n, arguments...);
  if (n == 0) return;  // x and y may be invalid, and an emulator may access memory even under an empty mask
  const F f(arguments...);
  if (n <= S::width) return map_vector(x, y, 0, n, f);
  typename S::batch v[2] = {S::load(x), S::load_first(x + S::width, n - S::width)};
  apply(f, v, 0, n);
  S::store(y, v[0]);
  S::store_first(y + S::width, v[1], n - S::width);
}

}  // namespace
