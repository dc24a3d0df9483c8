// Defines function types that rapt's kernels and the peers' functions share.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "attention.hpp"
#include "rapt/rapt.h"

namespace rapt::bench {

template <class T>
using Dot = T (*)(const T *a, const T *b, std::size_t n);
// out[r] = scale * dot(query, row r); rows are row_stride elements apart.
template <class T, class Out = T, class Query = T>
using DotRows = void (*)(const Query *query, const T *rows, std::ptrdiff_t row_stride, std::size_t row_count,
                         std::size_t dim, Out scale, Out *out);
// Computes the same as DotRows in a library that packs the rows once for many queries.
template <class T, class Out = T>
struct PackedDotRows {
  std::size_t (*bytes)(std::size_t row_count, std::size_t dim) = nullptr;
  void (*pack)(const T *rows, std::size_t row_count, std::size_t dim, void *packed) = nullptr;
  void (*multiply)(const T *query, const void *packed, std::size_t row_count, std::size_t dim, Out scale,
                   Out *out) = nullptr;
};
// y = x w^T, where x is [rows][inputs], w is [outputs][inputs] and y is [rows][outputs]. All are contiguous.
struct LinearShape {
  std::size_t rows = 0, outputs = 0, inputs = 0;
  auto operator<=>(const LinearShape &) const = default;
};
// Holds a library's linear layer. A library that packs weights once for many calls has the last three members.
template <class E>
struct Linear {
  void (*plain)(const E *x, const E *w, E *y, const LinearShape &shape) = nullptr;
  std::size_t (*packed_bytes)(const LinearShape &shape) = nullptr;
  void (*pack)(const E *w, void *packed, const LinearShape &shape) = nullptr;
  void (*multiply)(const E *x, const void *packed, E *y, const LinearShape &shape) = nullptr;

  explicit operator bool() const { return plain || multiply; }
};
// Holds a library's linear layers with quantized weights. x, the weights that it packs, and y are f32.
struct QuantizedLinear {
  Linear<float> i8, i4;

  explicit operator bool() const { return i8 && i4; }
};
// A library's convolution takes contiguous arrays, and needs no workspace. It may prepare a shape and its weights in
// the first call.
using Convolve = decltype(&rapt_convolution);
template <class T>
using Scale = void (*)(const T *x, T factor, T *y, std::size_t n);
template <class T>
using Exp = void (*)(const T *x, T *y, std::size_t n);
template <class T>
using TwoToOne = void (*)(const T *a, const T *b, T *y, std::size_t n);  // elements of two arrays
// Returns a library's function for one of rapt_map's, or null. A function of one array does not look at b.
template <class T>
using MapOf = TwoToOne<T> (*)(rapt_map_function function);
constexpr bool map_reads_two(rapt_map_function function) {
  return function == RAPT_MAP_POW || function == RAPT_MAP_ATAN2 || function == RAPT_MAP_ADD;
}
template <class T>
using Argmax = std::size_t (*)(const T *x, std::size_t n);
template <class T>
using ExpSum = T (*)(const T *x, T scale, T shift, T *y, std::size_t n);
// x and y are [tokens][heads][head_dim]. cosines and sines are [tokens][head_dim / 2], of positions that
// count from first_position. with_sines says to compute them from the frequencies instead.
struct RopeShape {
  std::size_t tokens = 1, heads = 1, head_dim = 0;
  bool in_pairs = false, with_sines = false;
};
template <class T>
using RopeLoop = void (*)(const T *x, T *y, const RopeShape &shape, std::size_t first_position,
                          const double *frequencies, const T *cosines, const T *sines);
// Norms rows, which are contiguous, with eps = 2^-17. bias is null for rms_norm.
inline constexpr double norm_eps = 0x1p-17;
template <class T>
using Norm = void (*)(const T *x, const T *weight, const T *bias, T *y, std::size_t rows, std::size_t cols);
// Sums of the rows of a contiguous matrix, or of its columns.
template <class T>
using MatrixSums = void (*)(const T *x, T *y, std::size_t rows, std::size_t cols, bool of_columns);
// Sums of the rows of a contiguous table that the indices of each bag name. y is [bags][cols], and every index a row.
template <class T>
using BagSums = void (*)(const T *w, const std::int64_t *indices, const std::size_t *offsets, T *y,
                         std::size_t bags, std::size_t cols);
// Adds each row of a contiguous x to the row of a contiguous out that its index names.
template <class T>
using IndexAdd = void (*)(const T *x, const std::int64_t *indices, T *out, std::size_t rows,
                          std::size_t cols);
// The losses of contiguous rows of logits, and their log-sum-exps; then the gradient of x from these.
template <class T, class A = T>
using CrossEntropy = void (*)(const T *x, const std::int64_t *target, A *losses, A *lse, std::size_t rows,
                              std::size_t classes);
template <class T, class A = T>
using CrossEntropyBackward = void (*)(const T *x, const std::int64_t *target, const A *lse, T *dx,
                                      std::size_t rows, std::size_t classes);
// SiLU of the short convolution of one sequence: x and y are [tokens][channels], w is [taps][channels], and the state
// [taps - 1][channels] has the tokens before x, and gets the last ones.
struct CausalShape {
  std::size_t tokens = 1, channels = 1, taps = 4;
};
template <class T>
using CausalConvolution = void (*)(const T *x, const T *w, T *state, T *y, const CausalShape &shape);
// The gated delta rule with heads of 128 by 128 of one sequence: q, k, v and out are [heads][tokens][128], g and beta
// [heads][tokens], and the states [heads][128][128] are those before and after.
struct DeltaShape {
  std::size_t tokens = 1, heads = 1;
  bool columns_are_contiguous = false;
};
template <class T>
using DeltaRule = void (*)(const T *q, const T *k, const T *v, const float *g, const float *beta,
                           float *state, T *out, const DeltaShape &shape);
// Independent numbers of the standard normal distribution. They need not be the same in each library.
template <class T>
using NormalNumbers = void (*)(T *out, std::size_t n, std::uint64_t seed);
// Rows are contiguous, and the scale is the only option. logsumexp writes one value per row to y.
template <class T>
using RowsFunction = void (*)(const T *x, T *y, std::size_t rows, std::size_t cols, T scale);
template <class T>
using Backward = rapt_status (*)(const T *y, std::ptrdiff_t y_stride, const T *dy, std::ptrdiff_t dy_stride,
                                 T *dx, std::ptrdiff_t dx_stride, std::size_t rows, std::size_t cols,
                                 T scale);
template <class T>
using Attention = void (*)(const AttentionProblem<T> &problem);
using BlockAttention = void (*)(const BlockAttentionProblem &problem);
template <class T>
using AttentionBackward = void (*)(const AttentionGradientProblem<T> &problem);

// Computes the softmax between attention's two matrix products, in place on one row of `cols` scores. Scores
// from begin to end - 1 become exp(s - max), and the others become 0. Returns the sum of the exponentials. A
// softcap other than 0 first turns each score into softcap * tanh(s / softcap). A sink counts in the maximum
// and in the sum.
template <class T>
using AttentionWeights = T (*)(T *s, std::size_t begin, std::size_t end, std::size_t cols, T softcap,
                               const T *sink);

}  // namespace rapt::bench
