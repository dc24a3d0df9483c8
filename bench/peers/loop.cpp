// Adds plain loops as peers, compiled for every level with -ffast-math ("loop-fast") and without ("loop").
// Without -ffast-math, the compiler vectorises no sum and calls exp for each element.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

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
void scans(const T *x, T *y, std::size_t rows, std::size_t cols, bool of_columns) {
  for (std::size_t r = 0; r < rows; ++r, x += cols, y += cols) {
    if (of_columns) {
      for (std::size_t i = 0; i < cols; ++i) y[i] = r == 0 ? x[i] : (y - cols)[i] + x[i];
      continue;
    }
    T sum = 0;
    for (std::size_t i = 0; i < cols; ++i) y[i] = sum += x[i];
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
void bag_sums(const T *w, const std::int64_t *indices, const std::size_t *offsets, T *y, std::size_t bags,
              std::size_t cols) {
  for (std::size_t b = 0; b < bags; ++b, y += cols) {
    for (std::size_t i = 0; i < cols; ++i) y[i] = 0;
    for (std::size_t j = offsets[b]; j < offsets[b + 1]; ++j) {
      const T *const row = w + static_cast<std::size_t>(indices[j]) * cols;
      for (std::size_t i = 0; i < cols; ++i) y[i] += row[i];
    }
  }
}

template <class T>
void index_add(const T *x, const std::int64_t *indices, T *out, std::size_t rows, std::size_t cols) {
  for (std::size_t r = 0; r < rows; ++r, x += cols) {
    T *const to = out + static_cast<std::size_t>(indices[r]) * cols;
    for (std::size_t i = 0; i < cols; ++i) to[i] += x[i];
  }
}

template <class T>
void cross_entropy(const T *x, const std::int64_t *target, T *losses, T *lse, std::size_t rows,
                   std::size_t classes) {
  for (std::size_t r = 0; r < rows; ++r, x += classes) {
    T max = x[0], sum = 0;
    for (std::size_t i = 0; i < classes; ++i) max = std::max(max, x[i]);
    for (std::size_t i = 0; i < classes; ++i) sum += std::exp(x[i] - max);
    lse[r] = max + std::log(sum);
    losses[r] = lse[r] - x[target[r]];
  }
}

template <class T>
void cross_entropy_backward(const T *x, const std::int64_t *target, const T *lse, T *dx, std::size_t rows,
                            std::size_t classes) {
  for (std::size_t r = 0; r < rows; ++r, x += classes, dx += classes) {
    for (std::size_t i = 0; i < classes; ++i) dx[i] = std::exp(x[i] - lse[r]);
    dx[target[r]] -= 1;
  }
}

template <class T>
void causal_convolution(const T *x, const T *w, T *state, T *y, const rapt::bench::CausalShape &shape) {
  const auto [tokens, channels, taps] = shape;
  const std::size_t before = taps - 1;
  const auto row = [=](std::size_t at) {
    return at < before ? state + at * channels : x + (at - before) * channels;
  };
  for (std::size_t t = 0; t < tokens; ++t, y += channels) {
    for (std::size_t c = 0; c < channels; ++c) y[c] = 0;
    for (std::size_t k = 0; k < taps; ++k) {
      const T *const from = row(t + k), *const weights = w + k * channels;
      for (std::size_t c = 0; c < channels; ++c) y[c] += weights[c] * from[c];
    }
    for (std::size_t c = 0; c < channels; ++c) y[c] = y[c] / (1 + std::exp(-y[c]));
  }
  for (std::size_t k = 0; k < before; ++k) {
    const T *const from = row(tokens + k);
    for (std::size_t c = 0; c < channels; ++c) state[k * channels + c] = from[c];
  }
}

// Four passes over the state for each token. Contiguous columns are what the compiler can add up.
template <class T>
void delta_rule(const T *q, const T *k, const T *v, const float *g, const float *beta, float *state, T *out,
                const rapt::bench::DeltaShape &shape) {
  constexpr std::size_t dim = 128;
  const float scale = 1 / std::sqrt(static_cast<float>(dim));
  for (std::size_t h = 0; h < shape.heads; ++h, state += dim * dim) {
    for (std::size_t t = 0; t < shape.tokens; ++t, q += dim, k += dim, v += dim, out += dim) {
      const float decay = std::exp(g[h * shape.tokens + t]), of_delta = beta[h * shape.tokens + t];
      float sums[dim] = {};
      if (shape.columns_are_contiguous) {
        for (std::size_t j = 0; j < dim; ++j) {
          float *const column = state + j * dim;
          float r = 0, o = 0;
          for (std::size_t i = 0; i < dim; ++i) column[i] *= decay;
          for (std::size_t i = 0; i < dim; ++i) r += column[i] * static_cast<float>(k[i]);
          const float u = of_delta * (static_cast<float>(v[j]) - r);
          for (std::size_t i = 0; i < dim; ++i) column[i] += static_cast<float>(k[i]) * u;
          for (std::size_t i = 0; i < dim; ++i) o += column[i] * static_cast<float>(q[i]);
          out[j] = static_cast<T>(scale * o);
        }
        continue;
      }
      for (std::size_t i = 0; i < dim * dim; ++i) state[i] *= decay;
      for (std::size_t i = 0; i < dim; ++i) {
        for (std::size_t j = 0; j < dim; ++j) sums[j] += static_cast<float>(k[i]) * state[i * dim + j];
      }
      for (std::size_t j = 0; j < dim; ++j) sums[j] = of_delta * (static_cast<float>(v[j]) - sums[j]);
      for (std::size_t i = 0; i < dim; ++i) {
        for (std::size_t j = 0; j < dim; ++j) state[i * dim + j] += static_cast<float>(k[i]) * sums[j];
      }
      for (std::size_t j = 0; j < dim; ++j) sums[j] = 0;
      for (std::size_t i = 0; i < dim; ++i) {
        for (std::size_t j = 0; j < dim; ++j) sums[j] += static_cast<float>(q[i]) * state[i * dim + j];
      }
      for (std::size_t j = 0; j < dim; ++j) out[j] = static_cast<T>(scale * sums[j]);
    }
  }
}

// By Box and Muller, of the numbers of splitmix64.
template <class T>
void normal_numbers(T *out, std::size_t n, std::uint64_t seed) {
  constexpr T turn = T(6.283185307179586);
  const auto uniform = [=](std::uint64_t i) {
    std::uint64_t z = seed + i * 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<T>(static_cast<std::int32_t>((z ^ (z >> 31)) >> 40)) * T(0x1p-24);
  };
  for (std::size_t i = 0; i + 1 < n; i += 2) {
    const T radius = std::sqrt(-2 * std::log(1 - uniform(i))), angle = turn * uniform(i + 1);
    out[i] = radius * std::cos(angle);
    out[i + 1] = radius * std::sin(angle);
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
  functions.scans = scans<T>;
  functions.softmax = softmax<T>;
  functions.bag_sums = bag_sums<T>;
  functions.index_add = index_add<T>;
  functions.cross_entropy = cross_entropy<T>;
  functions.cross_entropy_backward = cross_entropy_backward<T>;
  functions.causal_convolution = causal_convolution<T>;
  functions.delta_rule = delta_rule<T>;
  functions.normal_numbers = normal_numbers<T>;
}

}  // namespace

extern "C" const char *RAPT_PEER_ENTRY(rapt::bench::Peer &peer) {
  fill(peer.f32);
  fill(peer.f64);
  return RAPT_PEER_COMPILER " " RAPT_PEER_FLAGS;
}
