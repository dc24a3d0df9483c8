// glibc's vector functions, which the compiler calls from a loop under -ffast-math.
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

}  // namespace

extern "C" const char *RAPT_PEER_ENTRY(rapt::bench::Peer &peer) {
  peer.exp_f32 = exp<float>;
  peer.exp_f64 = exp<double>;
  peer.softmax_f32 = softmax<float>;
  peer.softmax_f64 = softmax<double>;
  return gnu_get_libc_version();
}
