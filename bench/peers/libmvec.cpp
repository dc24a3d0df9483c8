// Adds glibc's vector functions as a peer. With -ffast-math, the compiler calls them from a plain loop.
#include <gnu/libc-version.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "peer.hpp"

namespace {

template <class T>
void exp(const T *x, T *y, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) y[i] = std::exp(x[i]);
}

template <class T>
void softmax(const T *x, T *y, std::size_t rows, std::size_t cols, T scale) {
  if (cols == 0) return;
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols) {
    T max = scale * x[0];
#pragma omp simd reduction(max : max)
    for (std::size_t i = 0; i < cols; ++i) max = std::max(max, scale * x[i]);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t i = 0; i < cols; ++i) {
      const T e = std::exp(scale * x[i] - max);
      y[i] = e;
      sum += e;
    }
#pragma omp simd
    for (std::size_t i = 0; i < cols; ++i) y[i] /= sum;
  }
}

template <class T>
void fill(rapt::bench::PeerFunctions<T> &functions) {
  functions.exp = exp<T>;
  functions.softmax = softmax<T>;
}

}  // namespace

extern "C" const char *RAPT_PEER_ENTRY(rapt::bench::Peer &peer) {
  fill(peer.f32);
  fill(peer.f64);
  return gnu_get_libc_version();
}
