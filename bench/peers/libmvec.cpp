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

template <class T>
T attention_weights(T *s, std::size_t begin, std::size_t end, std::size_t cols, T softcap, const T *sink) {
  if (softcap != 0) {
    const T factor = 2 / softcap, twice = 2 * softcap;
#pragma omp simd
    for (std::size_t i = begin; i < end; ++i) s[i] = softcap - twice / (std::exp(factor * s[i]) + 1);
  }
  T max = sink ? *sink : s[begin];
#pragma omp simd reduction(max : max)
  for (std::size_t i = begin; i < end; ++i) max = std::max(max, s[i]);
  T sum = sink ? std::exp(*sink - max) : 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = begin; i < end; ++i) {
    const T e = std::exp(s[i] - max);
    s[i] = e;
    sum += e;
  }
  std::fill_n(s, begin, T(0));
  std::fill(s + end, s + cols, T(0));
  return sum;
}

}  // namespace

extern "C" const char *RAPT_PEER_ENTRY(rapt::bench::Peer &peer) {
  peer.exp_f32 = exp<float>;
  peer.exp_f64 = exp<double>;
  peer.softmax_f32 = softmax<float>;
  peer.softmax_f64 = softmax<double>;
  peer.attention_weights_f32 = attention_weights<float>;
  peer.attention_weights_f64 = attention_weights<double>;
  return gnu_get_libc_version();
}
