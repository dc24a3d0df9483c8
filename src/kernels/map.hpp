// y[i] = f(x[i]): the loop of functions that go through memory once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/unroll.hpp"

namespace {

// From so many bytes of output on, it is written past the caches: what leaves them anyway costs a read of
// each line before the write, a third of the traffic (scale at 64M elements: 0.58 -> 0.38 ns an element;
// within L2 it would be twice as slow). What is written in place is in the caches already.
template <class T>
[[gnu::always_inline]] inline bool goes_past_caches(const T *x, const T *y, std::size_t n) {
  constexpr std::size_t from = (std::size_t{16} << 20) / sizeof(T);
  return simd<T>::can_stream && x != y && n >= from;
}

// Elements before y[…] is where a vector may be streamed to.
template <class T>
[[gnu::always_inline]] inline std::size_t elements_to_alignment(const T *y) {
  constexpr std::size_t bytes = simd<T>::width * sizeof(T);
  return (std::size_t{0} - reinterpret_cast<std::uintptr_t>(y)) % bytes / sizeof(T);
}

// f(v) changes an array of vectors to its results.
template <class T, class F>
[[gnu::always_inline]] inline void map(const T *x, T *y, std::size_t n, const F &f) {
  using S = simd<T>;
  using batch = typename S::batch;
  constexpr std::size_t registers = 4;
  constexpr std::size_t block = registers * S::width;
  const auto some = [&](std::size_t i, std::size_t k) __attribute__((always_inline)) {
    batch v[1] = {S::load_first(x + i, k)};
    f(v);
    S::store_first(y + i, v[0], k);
  };
  std::size_t i = 0;
  // Stores that cross a line take two turns: with y 20 bytes past one, scale at L1 took 2.4 times as long. (y
  // that is not a multiple of its elements stays as it is.)
  constexpr std::size_t worthwhile = 2 * block;
  if (n >= worthwhile) {
    i = elements_to_alignment(y);
    if (i > 0) some(0, i);
  }
  const auto blocks = [&](auto load, auto store) __attribute__((always_inline)) {
    for (; n - i >= block; i += block) {
      batch v[registers];
      unroll<registers>([&](auto r) __attribute__((always_inline)) { v[r] = load(x + i + r * S::width); });
      f(v);
      unroll<registers>([&](auto r) __attribute__((always_inline)) { store(y + i + r * S::width, v[r]); });
    }
  };
  const auto load = [](const T *p) __attribute__((always_inline)) { return S::load(p); };
  if (goes_past_caches(x, y, n) && reinterpret_cast<std::uintptr_t>(y) % sizeof(T) == 0) {
    constexpr std::size_t ahead = 1024 / sizeof(T);
    blocks(
        [](const T *p) __attribute__((always_inline)) {
          __builtin_prefetch(p + ahead);
          return S::load(p);
        },
        [](T * p, batch v) __attribute__((always_inline)) { S::stream(p, v); });
    S::end_streaming();
  } else {
    blocks(
        load, [](T * p, batch v) __attribute__((always_inline)) { S::store(p, v); });
  }
  for (; n - i >= S::width; i += S::width) {
    batch v[1] = {S::load(x + i)};
    f(v);
    S::store(y + i, v[0]);
  }
  if (i < n) some(i, n - i);
}

}  // namespace
