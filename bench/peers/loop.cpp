// Adds plain loops as peers, compiled for every level with -ffast-math ("loop-fast") and without ("loop").
// Without -ffast-math, the compiler vectorises no sum and calls exp for each element.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "compiler.hpp"
#include "peer.hpp"

namespace {

template <class T>
T dot(const T *a, const T *b, std::size_t n) {
  T sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

template <class T>
void dot_rows(const T *query, const T *rows, std::ptrdiff_t row_stride, std::size_t row_count,
              std::size_t dim, T scale, T *out) {
  for (std::size_t r = 0; r < row_count; ++r) {
    out[r] = scale * dot(query, rows + static_cast<std::ptrdiff_t>(r) * row_stride, dim);
  }
}

template <class T>
void scale(const T *x, T factor, T *y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

template <class T>
void exp(const T *x, T *y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = std::exp(x[i]);
}

template <class T>
void silu(const T *x, T *y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] / (1 + std::exp(-x[i]));
}
template <class T>
void gated(const T *gate, const T *up, T *y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
}
template <class T>
std::size_t argmax(const T *x, std::size_t n) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < n; ++i) {
    if (x[i] > x[best]) best = i;
  }
  return best;
}
template <class T>
void gelu(const T *x, T *y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = T(0.5) * x[i] * (1 + std::erf(x[i] * T(0.7071067811865476)));
}
template <class T>
void gelu_tanh(const T *x, T *y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const T v = T(0.7978845608028654) * (x[i] + T(0.044715) * x[i] * x[i] * x[i]);
    y[i] = T(0.5) * x[i] * (1 + std::tanh(v));
  }
}

// Sines and cosines are those of the tables, or are computed for each token.
template <class T>
void rope(const T *x, T *y, const rapt::bench::RopeShape &shape, std::size_t first_position,
          const double *frequencies, const T *cosines, const T *sines) {
  const std::size_t pairs = shape.head_dim / 2, row = shape.heads * shape.head_dim;
  constexpr std::size_t most_pairs = 1024;
  T c_of_token[most_pairs], s_of_token[most_pairs];
  for (std::size_t t = 0; t < shape.tokens; ++t) {
    const T *c = cosines + t * pairs, *s = sines + t * pairs;
    if (shape.with_sines) {
      for (std::size_t i = 0; i < pairs; ++i) {
        const T angle = static_cast<T>(first_position + t) * static_cast<T>(frequencies[i]);
        c_of_token[i] = std::cos(angle);
        s_of_token[i] = std::sin(angle);
      }
      c = c_of_token;
      s = s_of_token;
    }
    for (std::size_t h = 0; h < shape.heads; ++h) {
      const T *const __restrict from = x + t * row + h * shape.head_dim;
      T *const __restrict to = y + t * row + h * shape.head_dim;
      if (shape.in_pairs) {
        for (std::size_t i = 0; i < pairs; ++i) {
          to[2 * i] = from[2 * i] * c[i] - from[2 * i + 1] * s[i];
          to[2 * i + 1] = from[2 * i] * s[i] + from[2 * i + 1] * c[i];
        }
      } else {
        for (std::size_t i = 0; i < pairs; ++i) {
          to[i] = from[i] * c[i] - from[pairs + i] * s[i];
          to[pairs + i] = from[i] * s[i] + from[pairs + i] * c[i];
        }
      }
    }
  }
}

template <class T>
void rms_norm(const T *x, const T *weight, const T *, T *y, std::size_t rows, std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols) {
    T squares = 0;
    for (std::size_t i = 0; i < cols; ++i) squares += x[i] * x[i];
    const T root = 1 / std::sqrt(squares / static_cast<T>(cols) + static_cast<T>(rapt::bench::norm_eps));
    for (std::size_t i = 0; i < cols; ++i) y[i] = x[i] * root * weight[i];
  }
}

template <class T>
void layer_norm(const T *x, const T *weight, const T *bias, T *y, std::size_t rows, std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols) {
    T sum = 0, squares = 0;
    for (std::size_t i = 0; i < cols; ++i) sum += x[i];
    const T mean = sum / static_cast<T>(cols);
    for (std::size_t i = 0; i < cols; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const T root = 1 / std::sqrt(squares / static_cast<T>(cols) + static_cast<T>(rapt::bench::norm_eps));
    for (std::size_t i = 0; i < cols; ++i) y[i] = (x[i] - mean) * root * weight[i] + bias[i];
  }
}

template <class T>
void softmax(const T *x, T *y, std::size_t rows, std::size_t cols, T scale) {
  if (cols == 0) return;
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols) {
    T max = scale * x[0];
    for (std::size_t i = 0; i < cols; ++i) max = std::max(max, scale * x[i]);
    T sum = 0;
    for (std::size_t i = 0; i < cols; ++i) {
      y[i] = std::exp(scale * x[i] - max);
      sum += y[i];
    }
    for (std::size_t i = 0; i < cols; ++i) y[i] /= sum;
  }
}

template <class T>
void fill(rapt::bench::PeerFunctions<T> &functions) {
  functions.dot = dot<T>;
  functions.dot_rows = dot_rows<T>;
  functions.scale = scale<T>;
  functions.exp = exp<T>;
  functions.silu = silu<T>;
  functions.gated = gated<T>;
  functions.argmax = argmax<T>;
  functions.gelu = gelu<T>;
  functions.gelu_tanh = gelu_tanh<T>;
  functions.rope = rope<T>;
  functions.rms_norm = rms_norm<T>;
  functions.layer_norm = layer_norm<T>;
  functions.softmax = softmax<T>;
}

}  // namespace

extern "C" const char *RAPT_PEER_ENTRY(rapt::bench::Peer &peer) {
  fill(peer.f32);
  fill(peer.f64);
  return RAPT_PEER_COMPILER " " RAPT_PEER_FLAGS;
}
