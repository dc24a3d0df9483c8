// y[i] = f(x[i]): the loop of functions that go through memory once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/vector/unroll.hpp"

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

// Such a loop in steps of four vectors, so that another may take turns with it. f(v) is the result of a
// vector, or changes an array of them to its results. `past_caches`: y is written so, which
// S::end_streaming() ends.
template <class T, class F>
class Map {
 public:
  using S = simd<T>;
  using batch = typename S::batch;
  static constexpr std::size_t registers = 4;
  static constexpr std::size_t block = registers * S::width;

  [[gnu::always_inline]] Map(const T *x, T *y, std::size_t n, const F &f, bool past_caches)
      : x_(x), y_(y), n_(n), f_(f) {
    // Stores that cross a line take two turns. Where loads do instead, scale at L1 takes 1.2 times as long as
    // with all aligned, not 2. (y that is not a multiple of its elements stays as it is.)
    constexpr std::size_t worthwhile = 2 * block;
    if (n >= worthwhile) {
      const std::size_t head = elements_to_alignment(y);
      if (head > 0) some(head);
    }
    streams_ = past_caches && reinterpret_cast<std::uintptr_t>(y + i_) % (S::width * sizeof(T)) == 0;
  }
  // False if there is no block left.
  [[gnu::always_inline]] bool step() {
    if (n_ - i_ < block) return false;
    batch v[registers];
    unroll<registers>([&](auto r) __attribute__((always_inline)) { v[r] = S::load(x_ + i_ + r * S::width); });
    apply(v);
    if (streams_) {
      unroll<registers>([&](auto r)
                            __attribute__((always_inline)) { S::stream(y_ + i_ + r * S::width, v[r]); });
    } else {
      unroll<registers>([&](auto r)
                            __attribute__((always_inline)) { S::store(y_ + i_ + r * S::width, v[r]); });
    }
    i_ += block;
    return true;
  }
  // With what is a little further on fetched ahead: an eighth faster in memory.
  [[gnu::always_inline]] void finish_in_memory() {
    constexpr std::size_t line = 64 / sizeof(T), ahead = 1024 / sizeof(T);
    do {
      for (std::size_t j = 0; j < block; j += line) __builtin_prefetch(x_ + i_ + ahead + j);
    } while (step());
    finish();
  }
  [[gnu::always_inline]] void finish() {
    while (step()) {
    }
    for (; n_ - i_ >= S::width; i_ += S::width) {
      batch v[1] = {S::load(x_ + i_)};
      apply(v);
      S::store(y_ + i_, v[0]);
    }
    if (i_ < n_) some(n_ - i_);
  }

 private:
  template <std::size_t count>
  [[gnu::always_inline]] void apply(batch (&v)[count]) const {
    if constexpr (requires { f_(v); }) {
      f_(v);
    } else {
      unroll<count>([&](auto r) __attribute__((always_inline)) { v[r] = f_(v[r]); });
    }
  }
  [[gnu::always_inline]] void some(std::size_t k) {
    batch v[1] = {S::load_first(x_ + i_, k)};
    apply(v);
    S::store_first(y_ + i_, v[0], k);
    i_ += k;
  }

  const T *x_;
  T *y_;
  std::size_t n_, i_ = 0;
  F f_;
  bool streams_;
};

template <class T, class F>
[[gnu::always_inline]] inline void map(const T *x, T *y, std::size_t n, const F &f) {
  if (goes_past_caches(x, y, n)) [[unlikely]] {
    Map<T, F>(x, y, n, f, true).finish_in_memory();
    simd<T>::end_streaming();
  } else {
    Map<T, F>(x, y, n, f, false).finish();
  }
}

}  // namespace
