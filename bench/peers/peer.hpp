// Another library's functions behind the signatures of rapt's own, so that every benchmark of a kernel is one
// of the peers' too.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "attention.hpp"

namespace rapt::bench {

// A row of attention scores, in place: exp(s - max) of those from begin to end - 1, 0 of the other ones of
// `cols`. Returns the sum. Before it softcap * tanh(s / softcap), if softcap is not 0; a sink takes part in
// the maximum and the sum.
template <class T>
using AttentionWeights = T (*)(T *s, std::size_t begin, std::size_t end, std::size_t cols, T softcap,
                               const T *sink);

// Null where the library has no such function. A peer that chooses its instruction set itself appears once,
// with the set it chose; one that is compiled for a set appears once for each.
struct Peer {
  std::string name;     // "sleef": one word, the same for all its instruction sets
  std::string isa;      // "avx512": the level of rapt that it is compared with
  std::string version;  // "3.5.1", and how it was built where that matters

  float (*dot_f32)(const float *a, const float *b, std::size_t n) = nullptr;
  double (*dot_f64)(const double *a, const double *b, std::size_t n) = nullptr;
  // out[r] = scale * dot(query, row r), the rows dim elements apart.
  void (*dot_rows_f32)(const float *query, const float *rows, std::ptrdiff_t row_stride,
                       std::size_t row_count, std::size_t dim, float scale, float *out) = nullptr;
  void (*dot_rows_f64)(const double *query, const double *rows, std::ptrdiff_t row_stride,
                       std::size_t row_count, std::size_t dim, double scale, double *out) = nullptr;
  void (*scale_f32)(const float *x, float factor, float *y, std::size_t n) = nullptr;
  void (*scale_f64)(const double *x, double factor, double *y, std::size_t n) = nullptr;
  void (*exp_f32)(const float *x, float *y, std::size_t n) = nullptr;
  void (*exp_f64)(const double *x, double *y, std::size_t n) = nullptr;
  // Rows without gaps, softmax(scale * x). Whoever cannot scale does it by a pass of its own.
  void (*softmax_f32)(const float *x, float *y, std::size_t rows, std::size_t cols, float scale) = nullptr;
  void (*softmax_f64)(const double *x, double *y, std::size_t rows, std::size_t cols, double scale) = nullptr;
  void (*attention_f32)(const AttentionProblem<float> &problem) = nullptr;
  void (*attention_f64)(const AttentionProblem<double> &problem) = nullptr;
  void (*attention_backward_f32)(const AttentionGradientProblem<float> &problem) = nullptr;
  void (*attention_backward_f64)(const AttentionGradientProblem<double> &problem) = nullptr;

  // No benchmark of its own: the softmax for attention of the libraries that have matrix products alone.
  AttentionWeights<float> attention_weights_f32 = nullptr;
  AttentionWeights<double> attention_weights_f64 = nullptr;
};

// Those that this build has and this CPU can run; empty in a build without peers.
const std::vector<Peer> &peers();

}  // namespace rapt::bench
