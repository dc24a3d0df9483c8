// SPDX-License-Identifier: Apache-2.0
/// \file
/// Wraps the functions of rapt.h for C++20. std::span replaces pointers and lengths. rapt.h documents every
/// function.
///
/// ~~~
///   std::vector<float> x(rows * cols), y(rows * cols);
///   rapt_softmax_options options = rapt::softmax_options();
///   options.scale = 0.125f;
///   rapt_status status = rapt::softmax<float>({x, cols}, {y, cols}, &options);
/// ~~~
///
/// Lengths of spans that must agree are checked. Functions that return no status check them by assert.
#ifndef RAPT_RAPT_HPP
#define RAPT_RAPT_HPP

#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) < 202002L
#error "rapt.hpp needs C++20; rapt.h serves every older C++"
#else

#include <cassert>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <ranges>
#include <span>
#include <type_traits>

#include "rapt/rapt.h"

namespace rapt {

namespace detail {

struct Binary16;
struct Bfloat16;

// Holds the bits of a 16-bit element. Two elements are equal if their bits are equal.
template <class Format>
class Bits16 {
 public:
  Bits16() = default;
  static constexpr Bits16 from_bits(std::uint16_t bits) {
    Bits16 element{};
    element.bits_ = bits;
    return element;
  }
  static constexpr Bits16 from_bits(std::floating_point auto) = delete;
  constexpr std::uint16_t bits() const { return bits_; }
  friend constexpr bool operator==(Bits16, Bits16) = default;

 private:
  std::uint16_t bits_;
};

}  // namespace detail

/// \defgroup cpp_elements Elements, rows and options
/// \{

/// f16 and bf16 are elements of 16 bits. In rapt.h, both are uint16_t. No number converts to f16 or bf16,
/// because the number could mean the value or the bits. f16::from_bits(0x3c00) and bf16::from_bits(0x3f80)
/// are 1, and convert() rounds.
using f16 = detail::Bits16<detail::Binary16>;
using bf16 = detail::Bits16<detail::Bfloat16>;  ///< like f16, with the upper half of a binary32

namespace detail {

template <class T, class... Types>
concept OneOf = (std::same_as<T, Types> || ...);

template <class T>
using Arithmetic = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Return the elements as rapt.h's type.
inline rapt_f16 *bits(f16 *elements) { return reinterpret_cast<rapt_f16 *>(elements); }
inline const rapt_f16 *bits(const f16 *elements) { return reinterpret_cast<const rapt_f16 *>(elements); }
inline rapt_bf16 *bits(bf16 *elements) { return reinterpret_cast<rapt_bf16 *>(elements); }
inline const rapt_bf16 *bits(const bf16 *elements) { return reinterpret_cast<const rapt_bf16 *>(elements); }

}  // namespace detail

/// Returns RAPT_SOFTMAX_OPTIONS_INIT: plain softmax.
inline rapt_softmax_options softmax_options() { return RAPT_SOFTMAX_OPTIONS_INIT; }

/// Rows is a matrix whose rows are contiguous, and `stride` elements apart.
template <class T>
struct Rows {
  /// The first element of the first row.
  T *data = nullptr;
  /// The number of rows.
  std::size_t rows = 0;
  /// The number of elements of a row.
  std::size_t cols = 0;
  /// The elements from one row to the next.
  std::ptrdiff_t stride = 0;

  /// Makes a matrix without rows.
  constexpr Rows() = default;
  /// Makes a matrix of rows that are `row_stride` elements apart.
  constexpr Rows(T *first, std::size_t row_count, std::size_t col_count, std::ptrdiff_t row_stride)
      : data(first), rows(row_count), cols(col_count), stride(row_stride) {}
  /// Makes a matrix of all whole rows of `col_count` elements in the span.
  constexpr Rows(std::span<T> elements, std::size_t col_count)
      : Rows(elements.data(), col_count == 0 ? 0 : elements.size() / col_count, col_count,
             static_cast<std::ptrdiff_t>(col_count)) {}
  /// Converts to a matrix that is only read.
  constexpr operator Rows<const T>() const requires(!std::is_const_v<T>) {
    return {data, rows, cols, stride};
  }
};

/// \}

// ---- vectors
/// \defgroup cpp_vectors Vectors
/// \{

/// Returns the sum of a[i] * b[i], as rapt_dot_f32() does. Elements are float, double, f16 or bf16. For
/// std::int8_t, or std::uint8_t times std::int8_t, the result is an exact std::int64_t.
inline float dot(std::span<const float> a, std::span<const float> b) {
  assert(a.size() == b.size());
  return rapt_dot_f32(a.data(), b.data(), a.size());
}
inline double dot(std::span<const double> a, std::span<const double> b) {
  assert(a.size() == b.size());
  return rapt_dot_f64(a.data(), b.data(), a.size());
}
inline float dot(std::span<const f16> a, std::span<const f16> b) {
  assert(a.size() == b.size());
  return rapt_dot_f16(detail::bits(a.data()), detail::bits(b.data()), a.size());
}
inline float dot(std::span<const bf16> a, std::span<const bf16> b) {
  assert(a.size() == b.size());
  return rapt_dot_bf16(detail::bits(a.data()), detail::bits(b.data()), a.size());
}

inline std::int64_t dot(std::span<const std::int8_t> a, std::span<const std::int8_t> b) {
  assert(a.size() == b.size());
  return rapt_dot_i8(a.data(), b.data(), a.size());
}
inline std::int64_t dot(std::span<const std::uint8_t> a, std::span<const std::int8_t> b) {
  assert(a.size() == b.size());
  return rapt_dot_u8i8(a.data(), b.data(), a.size());
}

/// out[r] = scale * dot(query, row r), as rapt_dot_rows_f32(). The types are those of dot().
inline void dot_rows(std::span<const float> query, Rows<const float> keys, float scale,
                     std::span<float> out) {
  assert(query.size() == keys.cols && out.size() >= keys.rows);
  rapt_dot_rows_f32(query.data(), keys.data, keys.stride, keys.rows, keys.cols, scale, out.data());
}
inline void dot_rows(std::span<const double> query, Rows<const double> keys, double scale,
                     std::span<double> out) {
  assert(query.size() == keys.cols && out.size() >= keys.rows);
  rapt_dot_rows_f64(query.data(), keys.data, keys.stride, keys.rows, keys.cols, scale, out.data());
}
inline void dot_rows(std::span<const f16> query, Rows<const f16> keys, float scale, std::span<float> out) {
  assert(query.size() == keys.cols && out.size() >= keys.rows);
  rapt_dot_rows_f16(detail::bits(query.data()), detail::bits(keys.data), keys.stride, keys.rows, keys.cols,
                    scale, out.data());
}
inline void dot_rows(std::span<const bf16> query, Rows<const bf16> keys, float scale, std::span<float> out) {
  assert(query.size() == keys.cols && out.size() >= keys.rows);
  rapt_dot_rows_bf16(detail::bits(query.data()), detail::bits(keys.data), keys.stride, keys.rows, keys.cols,
                     scale, out.data());
}

inline void dot_rows(std::span<const std::int8_t> query, Rows<const std::int8_t> keys, float scale,
                     std::span<float> out) {
  assert(query.size() == keys.cols && out.size() >= keys.rows);
  rapt_dot_rows_i8(query.data(), keys.data, keys.stride, keys.rows, keys.cols, scale, out.data());
}
inline void dot_rows(std::span<const std::uint8_t> query, Rows<const std::int8_t> keys, float scale,
                     std::span<float> out) {
  assert(query.size() == keys.cols && out.size() >= keys.rows);
  rapt_dot_rows_u8i8(query.data(), keys.data, keys.stride, keys.rows, keys.cols, scale, out.data());
}

/// y[i] = x[i] * factor, as rapt_scale_f32(). Elements are float, double, f16 or bf16.
inline void scale(std::span<const float> x, float factor, std::span<float> y) {
  assert(y.size() >= x.size());
  rapt_scale_f32(x.data(), factor, y.data(), x.size());
}
inline void scale(std::span<const double> x, double factor, std::span<double> y) {
  assert(y.size() >= x.size());
  rapt_scale_f64(x.data(), factor, y.data(), x.size());
}
inline void scale(std::span<const f16> x, float factor, std::span<f16> y) {
  assert(y.size() >= x.size());
  rapt_scale_f16(detail::bits(x.data()), factor, detail::bits(y.data()), x.size());
}
inline void scale(std::span<const bf16> x, float factor, std::span<bf16> y) {
  assert(y.size() >= x.size());
  rapt_scale_bf16(detail::bits(x.data()), factor, detail::bits(y.data()), x.size());
}

/// y[i] = x[i], as rapt_convert_f16_to_f32(): from f16 or bf16 to float, or from float to f16 or bf16.
inline void convert(std::span<const f16> x, std::span<float> y) {
  assert(y.size() >= x.size());
  rapt_convert_f16_to_f32(detail::bits(x.data()), y.data(), x.size());
}
inline void convert(std::span<const bf16> x, std::span<float> y) {
  assert(y.size() >= x.size());
  rapt_convert_bf16_to_f32(detail::bits(x.data()), y.data(), x.size());
}
inline void convert(std::span<const float> x, std::span<f16> y) {
  assert(y.size() >= x.size());
  rapt_convert_f32_to_f16(x.data(), detail::bits(y.data()), x.size());
}
inline void convert(std::span<const float> x, std::span<bf16> y) {
  assert(y.size() >= x.size());
  rapt_convert_f32_to_bf16(x.data(), detail::bits(y.data()), x.size());
}

/// y[i] = exp(x[i]), as rapt_exp_f32(), for float and double.
inline void exp(std::span<const float> x, std::span<float> y) {
  assert(y.size() >= x.size());
  rapt_exp_f32(x.data(), y.data(), x.size());
}
inline void exp(std::span<const double> x, std::span<double> y) {
  assert(y.size() >= x.size());
  rapt_exp_f64(x.data(), y.data(), x.size());
}

/// y[i] = exp(scale * x[i] - shift). Returns the sum of y, as rapt_exp_sum_f32(), for float and double.
inline float exp_sum(std::span<const float> x, float scale, float shift, std::span<float> y) {
  assert(y.size() >= x.size());
  return rapt_exp_sum_f32(x.data(), scale, shift, y.data(), x.size());
}
inline double exp_sum(std::span<const double> x, double scale, double shift, std::span<double> y) {
  assert(y.size() >= x.size());
  return rapt_exp_sum_f64(x.data(), scale, shift, y.data(), x.size());
}

/// y[i] = x / (1 + exp(-x)), as rapt_silu_f32(). Elements are float, double, f16 or bf16.
inline void silu(std::span<const float> x, std::span<float> y) {
  assert(y.size() >= x.size());
  rapt_silu_f32(x.data(), y.data(), x.size());
}
inline void silu(std::span<const double> x, std::span<double> y) {
  assert(y.size() >= x.size());
  rapt_silu_f64(x.data(), y.data(), x.size());
}
inline void silu(std::span<const f16> x, std::span<f16> y) {
  assert(y.size() >= x.size());
  rapt_silu_f16(detail::bits(x.data()), detail::bits(y.data()), x.size());
}
inline void silu(std::span<const bf16> x, std::span<bf16> y) {
  assert(y.size() >= x.size());
  rapt_silu_bf16(detail::bits(x.data()), detail::bits(y.data()), x.size());
}

/// y[i] = x / 2 * (1 + erf(x / sqrt(2))), as rapt_gelu_f32(). The types are those of silu().
inline void gelu(std::span<const float> x, std::span<float> y) {
  assert(y.size() >= x.size());
  rapt_gelu_f32(x.data(), y.data(), x.size());
}
inline void gelu(std::span<const double> x, std::span<double> y) {
  assert(y.size() >= x.size());
  rapt_gelu_f64(x.data(), y.data(), x.size());
}
inline void gelu(std::span<const f16> x, std::span<f16> y) {
  assert(y.size() >= x.size());
  rapt_gelu_f16(detail::bits(x.data()), detail::bits(y.data()), x.size());
}
inline void gelu(std::span<const bf16> x, std::span<bf16> y) {
  assert(y.size() >= x.size());
  rapt_gelu_bf16(detail::bits(x.data()), detail::bits(y.data()), x.size());
}

/// The approximation of gelu() by tanh, as rapt_gelu_tanh_f32(). The types are those of silu().
inline void gelu_tanh(std::span<const float> x, std::span<float> y) {
  assert(y.size() >= x.size());
  rapt_gelu_tanh_f32(x.data(), y.data(), x.size());
}
inline void gelu_tanh(std::span<const double> x, std::span<double> y) {
  assert(y.size() >= x.size());
  rapt_gelu_tanh_f64(x.data(), y.data(), x.size());
}
inline void gelu_tanh(std::span<const f16> x, std::span<f16> y) {
  assert(y.size() >= x.size());
  rapt_gelu_tanh_f16(detail::bits(x.data()), detail::bits(y.data()), x.size());
}
inline void gelu_tanh(std::span<const bf16> x, std::span<bf16> y) {
  assert(y.size() >= x.size());
  rapt_gelu_tanh_bf16(detail::bits(x.data()), detail::bits(y.data()), x.size());
}

/// dx[i] = dy[i] * silu'(x[i]), as rapt_silu_backward_f32(), for float, double, f16 and bf16.
inline void silu_backward(std::span<const float> x, std::span<const float> dy, std::span<float> dx) {
  assert(dy.size() == x.size() && dx.size() >= x.size());
  rapt_silu_backward_f32(x.data(), dy.data(), dx.data(), x.size());
}
inline void silu_backward(std::span<const double> x, std::span<const double> dy, std::span<double> dx) {
  assert(dy.size() == x.size() && dx.size() >= x.size());
  rapt_silu_backward_f64(x.data(), dy.data(), dx.data(), x.size());
}
inline void silu_backward(std::span<const f16> x, std::span<const f16> dy, std::span<f16> dx) {
  assert(dy.size() == x.size() && dx.size() >= x.size());
  rapt_silu_backward_f16(detail::bits(x.data()), detail::bits(dy.data()), detail::bits(dx.data()), x.size());
}
inline void silu_backward(std::span<const bf16> x, std::span<const bf16> dy, std::span<bf16> dx) {
  assert(dy.size() == x.size() && dx.size() >= x.size());
  rapt_silu_backward_bf16(detail::bits(x.data()), detail::bits(dy.data()), detail::bits(dx.data()), x.size());
}

/// dx[i] = dy[i] * gelu'(x[i]), as rapt_gelu_backward_f32(), for float, double, f16 and bf16.
inline void gelu_backward(std::span<const float> x, std::span<const float> dy, std::span<float> dx) {
  assert(dy.size() == x.size() && dx.size() >= x.size());
  rapt_gelu_backward_f32(x.data(), dy.data(), dx.data(), x.size());
}
inline void gelu_backward(std::span<const double> x, std::span<const double> dy, std::span<double> dx) {
  assert(dy.size() == x.size() && dx.size() >= x.size());
  rapt_gelu_backward_f64(x.data(), dy.data(), dx.data(), x.size());
}
inline void gelu_backward(std::span<const f16> x, std::span<const f16> dy, std::span<f16> dx) {
  assert(dy.size() == x.size() && dx.size() >= x.size());
  rapt_gelu_backward_f16(detail::bits(x.data()), detail::bits(dy.data()), detail::bits(dx.data()), x.size());
}
inline void gelu_backward(std::span<const bf16> x, std::span<const bf16> dy, std::span<bf16> dx) {
  assert(dy.size() == x.size() && dx.size() >= x.size());
  rapt_gelu_backward_bf16(detail::bits(x.data()), detail::bits(dy.data()), detail::bits(dx.data()), x.size());
}

/// dx[i] = dy[i] * gelu_tanh'(x[i]), as rapt_gelu_tanh_backward_f32(), for float, double, f16 and bf16.
inline void gelu_tanh_backward(std::span<const float> x, std::span<const float> dy, std::span<float> dx) {
  assert(dy.size() == x.size() && dx.size() >= x.size());
  rapt_gelu_tanh_backward_f32(x.data(), dy.data(), dx.data(), x.size());
}
inline void gelu_tanh_backward(std::span<const double> x, std::span<const double> dy, std::span<double> dx) {
  assert(dy.size() == x.size() && dx.size() >= x.size());
  rapt_gelu_tanh_backward_f64(x.data(), dy.data(), dx.data(), x.size());
}
inline void gelu_tanh_backward(std::span<const f16> x, std::span<const f16> dy, std::span<f16> dx) {
  assert(dy.size() == x.size() && dx.size() >= x.size());
  rapt_gelu_tanh_backward_f16(detail::bits(x.data()), detail::bits(dy.data()), detail::bits(dx.data()),
                              x.size());
}
inline void gelu_tanh_backward(std::span<const bf16> x, std::span<const bf16> dy, std::span<bf16> dx) {
  assert(dy.size() == x.size() && dx.size() >= x.size());
  rapt_gelu_tanh_backward_bf16(detail::bits(x.data()), detail::bits(dy.data()), detail::bits(dx.data()),
                               x.size());
}

/// Returns the index of the first of the largest elements, as rapt_argmax_f32(). Elements are float, double,
/// f16 or bf16.
inline std::size_t argmax(std::span<const float> x) { return rapt_argmax_f32(x.data(), x.size()); }
inline std::size_t argmax(std::span<const double> x) { return rapt_argmax_f64(x.data(), x.size()); }
inline std::size_t argmax(std::span<const f16> x) {
  return rapt_argmax_f16(detail::bits(x.data()), x.size());
}
inline std::size_t argmax(std::span<const bf16> x) {
  return rapt_argmax_bf16(detail::bits(x.data()), x.size());
}

/// \}

// ---- rows
/// \defgroup cpp_rows Rows
/// These return RAPT_BAD_SIZE if the output's shape differs from the input's.
/// \{

/// y = the softmax of the rows of x, as rapt_softmax_f32(). Name T in the call: rapt::softmax<float>(...).
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status softmax(Rows<const std::type_identity_t<T> > x, Rows<std::type_identity_t<T> > y,
                    const rapt_softmax_options *options = nullptr) {
  if (x.rows != y.rows || x.cols != y.cols) return RAPT_BAD_SIZE;
  if constexpr (std::is_same_v<T, float>) {
    return rapt_softmax_f32(x.data, x.stride, y.data, y.stride, x.rows, x.cols, options);
  } else if constexpr (std::is_same_v<T, double>) {
    return rapt_softmax_f64(x.data, x.stride, y.data, y.stride, x.rows, x.cols, options);
  } else if constexpr (std::is_same_v<T, f16>) {
    return rapt_softmax_f16(detail::bits(x.data), x.stride, detail::bits(y.data), y.stride, x.rows, x.cols,
                            options);
  } else {
    return rapt_softmax_bf16(detail::bits(x.data), x.stride, detail::bits(y.data), y.stride, x.rows, x.cols,
                             options);
  }
}

/// y = the logarithm of softmax(), as rapt_log_softmax_f32(), with softmax()'s types and options.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status log_softmax(Rows<const std::type_identity_t<T> > x, Rows<std::type_identity_t<T> > y,
                        const rapt_softmax_options *options = nullptr) {
  if (x.rows != y.rows || x.cols != y.cols) return RAPT_BAD_SIZE;
  if constexpr (std::is_same_v<T, float>) {
    return rapt_log_softmax_f32(x.data, x.stride, y.data, y.stride, x.rows, x.cols, options);
  } else if constexpr (std::is_same_v<T, double>) {
    return rapt_log_softmax_f64(x.data, x.stride, y.data, y.stride, x.rows, x.cols, options);
  } else if constexpr (std::is_same_v<T, f16>) {
    return rapt_log_softmax_f16(detail::bits(x.data), x.stride, detail::bits(y.data), y.stride, x.rows,
                                x.cols, options);
  } else {
    return rapt_log_softmax_bf16(detail::bits(x.data), x.stride, detail::bits(y.data), y.stride, x.rows,
                                 x.cols, options);
  }
}

/// out[r] = the log-sum-exp of row r, as rapt_logsumexp_f32(), for float and double.
template <detail::OneOf<float, double> T>
rapt_status logsumexp(Rows<const std::type_identity_t<T> > x, std::span<std::type_identity_t<T> > out,
                      const rapt_softmax_options *options = nullptr) {
  if (out.size() < x.rows) return RAPT_BAD_SIZE;
  if constexpr (std::is_same_v<T, float>) {
    return rapt_logsumexp_f32(x.data, x.stride, out.data(), x.rows, x.cols, options);
  } else {
    return rapt_logsumexp_f64(x.data, x.stride, out.data(), x.rows, x.cols, options);
  }
}

/// dx = the gradient of softmax(scale * x) from its output y, as rapt_softmax_backward_f32(), for float, double, f16
/// and bf16.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status softmax_backward(Rows<const std::type_identity_t<T> > y, Rows<const std::type_identity_t<T> > dy,
                             Rows<std::type_identity_t<T> > dx, detail::Arithmetic<T> scale = 1) {
  if (y.rows != dx.rows || y.cols != dx.cols || dy.rows != dx.rows || dy.cols != dx.cols)
    return RAPT_BAD_SIZE;
  if constexpr (std::is_same_v<T, float>) {
    return rapt_softmax_backward_f32(y.data, y.stride, dy.data, dy.stride, dx.data, dx.stride, y.rows, y.cols,
                                     scale);
  } else if constexpr (std::is_same_v<T, double>) {
    return rapt_softmax_backward_f64(y.data, y.stride, dy.data, dy.stride, dx.data, dx.stride, y.rows, y.cols,
                                     scale);
  } else if constexpr (std::is_same_v<T, f16>) {
    return rapt_softmax_backward_f16(detail::bits(y.data), y.stride, detail::bits(dy.data), dy.stride,
                                     detail::bits(dx.data), dx.stride, y.rows, y.cols, scale);
  } else {
    return rapt_softmax_backward_bf16(detail::bits(y.data), y.stride, detail::bits(dy.data), dy.stride,
                                      detail::bits(dx.data), dx.stride, y.rows, y.cols, scale);
  }
}

/// dx = the gradient of log_softmax(scale * x) from its output y, as rapt_log_softmax_backward_f32(), for float,
/// double, f16 and bf16.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status log_softmax_backward(Rows<const std::type_identity_t<T> > y,
                                 Rows<const std::type_identity_t<T> > dy, Rows<std::type_identity_t<T> > dx,
                                 detail::Arithmetic<T> scale = 1) {
  if (y.rows != dx.rows || y.cols != dx.cols || dy.rows != dx.rows || dy.cols != dx.cols)
    return RAPT_BAD_SIZE;
  if constexpr (std::is_same_v<T, float>) {
    return rapt_log_softmax_backward_f32(y.data, y.stride, dy.data, dy.stride, dx.data, dx.stride, y.rows,
                                         y.cols, scale);
  } else if constexpr (std::is_same_v<T, double>) {
    return rapt_log_softmax_backward_f64(y.data, y.stride, dy.data, dy.stride, dx.data, dx.stride, y.rows,
                                         y.cols, scale);
  } else if constexpr (std::is_same_v<T, f16>) {
    return rapt_log_softmax_backward_f16(detail::bits(y.data), y.stride, detail::bits(dy.data), dy.stride,
                                         detail::bits(dx.data), dx.stride, y.rows, y.cols, scale);
  } else {
    return rapt_log_softmax_backward_bf16(detail::bits(y.data), y.stride, detail::bits(dy.data), dy.stride,
                                          detail::bits(dx.data), dx.stride, y.rows, y.cols, scale);
  }
}

/// \}

// ---- attention
/// \defgroup cpp_attention Attention
/// The ranges (std::vector, std::span, std::array …) set the element types. For ranges of
/// uint16_t, and of std::byte for blocks of files, the options name the type. A call returns RAPT_BAD_TYPE if the
/// options name another type than a range has. It returns RAPT_BAD_SIZE if a range does not cover the shape. This is
/// checked only for contiguous tensors whose sequences are neither packed nor in pages nor of different lengths.
///
/// ~~~
///   rapt_attention_options options = rapt::attention_options();
///   options.q_heads = 32;
///   options.kv_heads = 8;
///   options.q_len = options.kv_len = tokens;
///   options.qk_dim = 128;
///   options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;
///   std::vector<float> q(32 * tokens * 128), k(8 * tokens * 128), v(k.size()), out(q.size());
///   std::vector<std::byte> workspace(rapt::attention_workspace<float>(options));
///   rapt_status status = rapt::attention(q, k, v, out, options, workspace);
/// ~~~
/// \{

/// Returns RAPT_ATTENTION_OPTIONS_INIT: one sequence, one head, plain attention.
inline rapt_attention_options attention_options() { return RAPT_ATTENTION_OPTIONS_INIT; }
/// Returns RAPT_ATTENTION_GRADIENTS_INIT: no gradient yet.
inline rapt_attention_gradients attention_gradients() { return RAPT_ATTENTION_GRADIENTS_INIT; }

/// An element of a tensor: float, double, f16, bf16, std::uint16_t or std::int8_t.
template <class T>
concept Element = detail::OneOf<T, float, double, f16, bf16, std::uint16_t, std::int8_t>;

/// A contiguous range of elements, such as std::vector, std::span or std::array.
template <class Range>
concept Elements = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    Element<std::ranges::range_value_t<Range> >;

/// Elements that may be written.
template <class Range>
concept WritableElements =
    Elements<Range> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range> > >;

/// A contiguous range of std::byte.
template <class Range>
concept Bytes = std::ranges::contiguous_range<Range> && std::ranges::sized_range<Range> &&
    std::is_same_v<std::ranges::range_value_t<Range>, std::byte>;

/// Keys or values are a range of elements, or of std::byte for blocks of files and RAPT_I4, whose type the options
/// name.
template <class Range>
concept CacheRows = Elements<Range> || Bytes<Range>;

namespace detail {

// Says how many numbers lie in how many bytes of weights, keys or values.
struct Block {
  std::size_t inputs, bytes;
};
constexpr Block block_of(rapt_type type) {
  switch (type) {
    case RAPT_TYPE_DEFAULT:
    case RAPT_F32:
      return {1, 4};
    case RAPT_F64:
      return {1, 8};
    case RAPT_F16:
    case RAPT_BF16:
      return {1, 2};
    case RAPT_I8:
      return {1, 1};
    case RAPT_I4:
    case RAPT_U4:
      return {2, 1};
    case RAPT_Q8_0:
      return {32, 34};
    case RAPT_Q4_0:
      return {32, 18};
    case RAPT_Q4_1:
      return {32, 20};
    case RAPT_Q5_0:
      return {32, 22};
    case RAPT_Q5_1:
      return {32, 24};
    case RAPT_Q4_K:
      return {256, 144};
    case RAPT_Q5_K:
      return {256, 176};
    case RAPT_Q6_K:
      return {256, 210};
    case RAPT_Q2_K:
      return {256, 84};
    case RAPT_Q3_K:
      return {256, 110};
    case RAPT_IQ4_NL:
      return {32, 18};
    case RAPT_IQ4_XS:
      return {256, 136};
    case RAPT_MXFP4:
      return {32, 17};
    case RAPT_NVFP4:
      return {64, 36};
    case RAPT_F8_E4M3:
    case RAPT_F8_E5M2:
    case RAPT_U8:
      return {1, 1};
  }
  return {1, 1};  // of a number that is no type, which the library refuses
}
// PackedElement is void for bytes, which name no type.
template <class T>
using PackedElement = std::conditional_t<std::is_same_v<T, std::byte>, void, T>;

// type_of is RAPT_TYPE_DEFAULT if several rapt types share the C++ type.
template <Element T>
constexpr rapt_type type_of = std::is_same_v<T, float>         ? RAPT_F32
                              : std::is_same_v<T, double>      ? RAPT_F64
                              : std::is_same_v<T, f16>         ? RAPT_F16
                              : std::is_same_v<T, bf16>        ? RAPT_BF16
                              : std::is_same_v<T, std::int8_t> ? RAPT_I8
                                                               : RAPT_TYPE_DEFAULT;

// Sets `type` to the type of T's elements; void leaves it unchanged. Returns false if the options name
// another type.
template <class T>
bool set_type(rapt_type &type) {
  if constexpr (std::is_void_v<T>) {
    return true;
  } else if constexpr (type_of<T> == RAPT_TYPE_DEFAULT) {
    return type == RAPT_F16 || type == RAPT_BF16;
  } else {
    if (type != RAPT_TYPE_DEFAULT && type != type_of<T>) return false;
    type = type_of<T>;
    return true;
  }
}

template <class Q, class KV, class Out>
bool set_types(rapt_attention_options &o) {
  return set_type<Q>(o.q_type) && set_type<KV>(o.kv_type) && set_type<Out>(o.out_type);
}

// Holds the number of a range's elements, and the strides of its tensor. `strides` are {0, 0, 0} for a
// contiguous tensor.
struct Extent {
  std::size_t size;
  const rapt_strides &strides;

  bool covers(std::size_t batch, std::size_t heads, std::size_t tokens, std::size_t dim) const {
    if (strides.batch != 0 || strides.head != 0 || strides.token != 0) return true;
    std::size_t left = size;
    for (const std::size_t count : {dim, heads, tokens, batch}) {
      if (count == 0) return true;
      left /= count;
    }
    return left > 0;
  }
  bool covers_queries(const rapt_attention_options &o, std::size_t dim) const {
    return o.q_offsets || covers(o.batch, o.q_heads, o.q_len, dim);
  }
  bool covers_keys(const rapt_attention_options &o, std::size_t row) const {
    return o.kv_offsets || o.kv_lengths || o.block_table ||
           covers(o.batch, o.kv_heads ? o.kv_heads : o.q_heads, o.key_lists ? o.cache_len : o.kv_len, row);
  }
};

inline std::size_t value_dim(const rapt_attention_options &o) { return o.v_dim ? o.v_dim : o.qk_dim; }

// Sets v_type if values have another type than keys. void and bytes leave it unchanged.
template <class V>
bool set_value_type(rapt_attention_options &o) {
  if constexpr (std::is_void_v<PackedElement<V> >) {
    return true;
  } else {
    const bool differs = type_of<V> != RAPT_TYPE_DEFAULT && type_of<V> != o.kv_type;
    return set_type<V>(o.v_type != RAPT_TYPE_DEFAULT || differs ? o.v_type : o.kv_type);
  }
}

// Returns the elements of a row of keys or values in its range. Rows of bytes have blocks or 4 bits.
template <class E>
std::size_t row_of(rapt_type type, std::size_t dim) {
  if constexpr (!std::is_same_v<E, std::byte>) return dim;
  const Block block = block_of(type);
  return dim / block.inputs * block.bytes;
}
template <class E>
bool fits_range(rapt_type type) {
  return !std::is_same_v<E, std::byte> || block_of(type).inputs > 1;
}

template <class Q, class K, class V>
rapt_status set_inputs(rapt_attention_options &o, const Q &q, const K &k, const V &v) {
  using std::ranges::range_value_t;
  using Key = range_value_t<K>;
  using Value = range_value_t<V>;
  if (!set_types<range_value_t<Q>, PackedElement<Key>, void>(o) || !set_value_type<Value>(o))
    return RAPT_BAD_TYPE;
  const rapt_type v_type = o.v_type != RAPT_TYPE_DEFAULT ? o.v_type : o.kv_type;
  if (!fits_range<Key>(o.kv_type) || !fits_range<Value>(v_type)) return RAPT_BAD_TYPE;
  const Extent queries{std::ranges::size(q), o.q_strides}, keys{std::ranges::size(k), o.k_strides},
      values{std::ranges::size(v), o.v_strides};
  const bool fit = queries.covers_queries(o, o.qk_dim) &&
                   (o.packed_keys || keys.covers_keys(o, row_of<Key>(o.kv_type, o.qk_dim))) &&
                   values.covers_keys(o, row_of<Value>(v_type, value_dim(o)));
  return fit ? RAPT_OK : RAPT_BAD_SIZE;
}

template <class Out>
rapt_status set_output(rapt_attention_options &o, const Out &out) {
  if (!set_type<std::ranges::range_value_t<Out> >(o.out_type)) return RAPT_BAD_TYPE;
  const Extent outputs{std::ranges::size(out), o.out_strides};
  return outputs.covers_queries(o, value_dim(o)) ? RAPT_OK : RAPT_BAD_SIZE;
}

}  // namespace detail

/// Returns the bytes of workspace for queries of type Q. Keys have the type KV, values V. Without KV, or with
/// std::byte, they have the types in the options, or Q. Returns 0 if the options are not valid or name other types. In
/// that case attention() returns the status.
template <Element Q, class KV = void, class V = KV>
std::size_t attention_workspace(rapt_attention_options options) {
  std::size_t bytes = 0;
  if (detail::set_types<Q, detail::PackedElement<KV>, void>(options) && detail::set_value_type<V>(options))
    (void)rapt_attention_workspace(&options, &bytes);
  return bytes;
}
/// Like attention_workspace(), for attention_backward(). The type Out of the forward call's output matters too.
template <Element Q, class KV = void, class Out = void>
std::size_t attention_backward_workspace(rapt_attention_options options) {
  std::size_t bytes = 0;
  if (detail::set_types<Q, KV, Out>(options)) (void)rapt_attention_backward_workspace(&options, &bytes);
  return bytes;
}
/// Returns the number of tasks of attention_run(). The types are needed because they decide which options are valid.
template <Element Q, class KV = void, class V = KV>
std::size_t attention_tasks(rapt_attention_options options) {
  std::size_t tasks = 0;
  if (detail::set_types<Q, detail::PackedElement<KV>, void>(options) && detail::set_value_type<V>(options))
    (void)rapt_attention_tasks(&options, &tasks);
  return tasks;
}

/// Computes softmax(scale * Q.K^T) . V, as rapt_attention(). The workspace has attention_workspace() bytes.
template <Elements Q, CacheRows K, CacheRows V, WritableElements Out>
rapt_status attention(const Q &q, const K &k, const V &v, Out &&out, rapt_attention_options options,
                      std::span<std::byte> workspace) {
  rapt_status status = detail::set_inputs(options, q, k, v);
  if (status == RAPT_OK) status = detail::set_output(options, out);
  if (status != RAPT_OK) return status;
  return rapt_attention(std::ranges::data(q), std::ranges::data(k), std::ranges::data(v),
                        std::ranges::data(out), &options, workspace.data(), workspace.size());
}

/// Computes the tasks first to last - 1 of attention(), as rapt_attention_run().
template <Elements Q, CacheRows K, CacheRows V, WritableElements Out>
rapt_status attention_run(const Q &q, const K &k, const V &v, Out &&out, rapt_attention_options options,
                          std::size_t first, std::size_t last, std::span<std::byte> workspace) {
  rapt_status status = detail::set_inputs(options, q, k, v);
  if (status == RAPT_OK) status = detail::set_output(options, out);
  if (status != RAPT_OK) return status;
  return rapt_attention_run(std::ranges::data(q), std::ranges::data(k), std::ranges::data(v),
                            std::ranges::data(out), &options, first, last, workspace.data(),
                            workspace.size());
}

/// Computes the gradients, as rapt_attention_backward(). The workspace has attention_backward_workspace() bytes. The
/// types and extents of what `gradients` points to are not checked. `out` and `dout` in `gradients` have the type
/// options.out_type or, without one, the type of q.
template <Elements Q, Elements K, Elements V>
rapt_status attention_backward(const Q &q, const K &k, const V &v, rapt_attention_options options,
                               const rapt_attention_gradients &gradients, std::span<std::byte> workspace) {
  const rapt_status status = detail::set_inputs(options, q, k, v);
  if (status != RAPT_OK) return status;
  return rapt_attention_backward(std::ranges::data(q), std::ranges::data(k), std::ranges::data(v), &options,
                                 &gradients, workspace.data(), workspace.size());
}

/// \}

// ---- linear layers
/// \defgroup cpp_linear_layers Linear layers
/// The ranges set the element types, as in attention. linear() returns RAPT_BAD_SIZE if a range does not cover its
/// matrix. This is checked only for contiguous x, w and y without lists of rows. Packed weights are as long as their
/// header says: a shorter range, or a damaged header, is RAPT_BAD_PACKED.
///
/// ~~~
///   rapt_linear_options options = rapt::linear_options();
///   options.rows = tokens;
///   options.in_features = 4096;
///   options.out_features = 14336;
///   std::vector<std::byte> packed(rapt::linear_packed_length<float>(options));
///   (void)rapt::linear_pack(w, 0, options.out_features, options, packed);
///   options.packed_w = 1;
///   std::vector<std::byte> workspace(rapt::linear_workspace<float>(options));
///   rapt_status status = rapt::linear(x, packed, y, options, workspace);
/// ~~~
/// \{

/// Returns RAPT_LINEAR_OPTIONS_INIT: a plain linear layer.
inline rapt_linear_options linear_options() { return RAPT_LINEAR_OPTIONS_INIT; }

/// Weights are a range of elements, or of std::byte for packed weights, those of 4 bits, RAPT_U8, numbers of 8 bits and
/// blocks of a file. The options name the type of weights in bytes.
template <class Range>
concept Weights = Elements<Range> || Bytes<Range>;

/// Weights that may be written.
template <class Range>
concept WritableWeights =
    Weights<Range> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range> > >;

namespace detail {

// Returns whether the bytes of weights hold rows without gaps. Those with strides are not checked.
inline bool covers_weights(const rapt_linear_options &o, std::size_t rows, std::size_t bytes) {
  if (o.w_strides.row != 0 || o.w_strides.column != 0 || rows == 0) return true;
  const Block block = block_of(o.w_type != RAPT_TYPE_DEFAULT ? o.w_type : o.x_type);
  const std::size_t blocks = o.in_features / block.inputs + (o.in_features % block.inputs != 0);
  return blocks == 0 || bytes / block.bytes / blocks >= rows;
}

// Returns the bits of integers in words of 32 bits.
constexpr std::size_t bits_in_words(rapt_type type, rapt_word_format format) {
  if (format == RAPT_WORDS_GPTQ_2BIT || format == RAPT_WORDS_GPTQ_V2_2BIT) return 2;
  if (format == RAPT_WORDS_GPTQ_3BIT || format == RAPT_WORDS_GPTQ_V2_3BIT) return 3;
  return type == RAPT_U8 ? 8 : 4;
}

// Returns whether a range of packed weights is as long as its header says.
inline bool holds_packed(const void *packed, std::size_t size) {
  constexpr std::size_t header = 64, place = 48;
  if (size < header) return false;
  std::uint64_t length = 0;
  std::memcpy(&length, static_cast<const char *>(packed) + place, sizeof length);
  return size >= length;
}

// Sets the types, and checks x and y.
template <class X, class W, class Y>
rapt_status set_rows(rapt_linear_options &o, const X &x, const W &, const Y &y) {
  using std::ranges::range_value_t;
  if (!set_type<range_value_t<X> >(o.x_type) || !set_type<PackedElement<range_value_t<W> > >(o.w_type) ||
      !set_type<range_value_t<Y> >(o.y_type)) {
    return RAPT_BAD_TYPE;
  }
  const auto covers = [](std::size_t size, std::size_t rows, std::size_t row) {
    return rows == 0 || row == 0 || size / row >= rows;
  };
  const auto is_contiguous = [](const rapt_matrix_strides &strides) {
    return strides.row == 0 && strides.column == 0;
  };
  bool fit = o.x_rows || !is_contiguous(o.x_strides) || covers(std::ranges::size(x), o.rows, o.in_features);
  fit = fit && (o.y_rows || o.y_stride != 0 || covers(std::ranges::size(y), o.rows, o.out_features));
  return fit ? RAPT_OK : RAPT_BAD_SIZE;
}

template <class X, class W, class Y>
rapt_status set_linear(rapt_linear_options &o, const X &x, const W &w, const Y &y) {
  const rapt_status status = set_rows(o, x, w, y);
  if (status == RAPT_BAD_TYPE) return status;
  const std::size_t size = std::ranges::size(w) * sizeof(std::ranges::range_value_t<W>);
  if (o.packed_w) {
    const bool is_read = o.rows > 0 && o.out_features > 0;
    if (is_read && !holds_packed(std::ranges::data(w), size)) return RAPT_BAD_PACKED;
  } else if (!covers_weights(o, o.out_features, size)) {
    return RAPT_BAD_SIZE;
  }
  return status;
}

// Sets the type of weights to pack or unpack, and checks how many there are. f64 goes only with x of f64.
template <class W>
rapt_status set_weights(rapt_linear_options &o, std::size_t outputs, const W &w) {
  using E = std::ranges::range_value_t<W>;
  if (!set_type<PackedElement<E> >(o.w_type)) return RAPT_BAD_TYPE;
  if (o.w_type == RAPT_F64 && o.x_type == RAPT_TYPE_DEFAULT) o.x_type = RAPT_F64;
  return covers_weights(o, outputs, std::ranges::size(w) * sizeof(E)) ? RAPT_OK : RAPT_BAD_SIZE;
}

// Returns what a function of the C interface says of the options, or 0 if they are not valid.
template <class X, class W>
std::size_t of_linear(rapt_status (*of)(const rapt_linear_options *, std::size_t *),
                      rapt_linear_options options) {
  std::size_t answer = 0;
  if (set_type<X>(options.x_type) && set_type<W>(options.w_type)) (void)of(&options, &answer);
  return answer;
}

}  // namespace detail

/// Returns the bytes of workspace. This function, linear_tasks() and linear_packed_length() return 0 if the
/// options are not valid or name other types. X is the type of x, and W that of the weights. Without W they have the
/// type in the options, or X.
template <Element X, class W = void>
std::size_t linear_workspace(const rapt_linear_options &options) {
  return detail::of_linear<X, W>(rapt_linear_workspace, options);
}
/// Returns the number of tasks of linear_run().
template <Element X, class W = void>
std::size_t linear_tasks(const rapt_linear_options &options) {
  return detail::of_linear<X, W>(rapt_linear_tasks, options);
}
/// Returns the bytes of packed weights; see rapt_linear_pack().
template <Element X, class W = void>
std::size_t linear_packed_length(const rapt_linear_options &options) {
  return detail::of_linear<X, W>(rapt_linear_packed_length, options);
}

/// Packs the outputs [first_output, first_output + outputs) of a layer, as rapt_linear_pack(). `w` begins with the
/// first of them. `packed` has linear_packed_length() bytes. Returns RAPT_BAD_SIZE if `w` is too short, unless it has
/// strides.
template <Weights W>
rapt_status linear_pack(const W &w, std::size_t first_output, std::size_t outputs,
                        rapt_linear_options options, std::span<std::byte> packed) {
  const rapt_status status = detail::set_weights(options, outputs, w);
  if (status != RAPT_OK) return status;
  return rapt_linear_pack(std::ranges::data(w), first_output, outputs, &options, packed.data(),
                          packed.size());
}
/// Gives the outputs [first_output, first_output + outputs) back, as rapt_linear_unpack(). Of quantized weights it
/// gives the integers or the blocks. Returns RAPT_BAD_SIZE if `w` is too short, unless it has strides.
template <WritableWeights W>
rapt_status linear_unpack(std::span<const std::byte> packed, std::size_t first_output, std::size_t outputs,
                          rapt_linear_options options, W &&w) {
  const rapt_status status = detail::set_weights(options, outputs, w);
  if (status != RAPT_OK) return status;
  return rapt_linear_unpack(packed.data(), packed.size(), first_output, outputs, &options,
                            std::ranges::data(w), nullptr, nullptr, nullptr, nullptr);
}

/// Packs words of GPTQ or AWQ files, as rapt_linear_pack_words(). `packed` has linear_packed_length() bytes of options
/// with w_scales and w_zeros. Without g_idx, order is empty, too. Returns RAPT_BAD_SIZE if a range is too short. Scales
/// of std::uint16_t have the type in the options.
template <Elements S>
rapt_status linear_pack_words(std::span<const std::int32_t> qweight, std::span<const std::int32_t> qzeros,
                              const S &scales, std::span<const std::int32_t> g_idx, rapt_word_format format,
                              rapt_linear_options options, std::span<std::byte> packed,
                              std::span<std::size_t> order = {}) {
  if (!detail::set_type<std::ranges::range_value_t<S> >(options.w_scale_type)) return RAPT_BAD_W_SCALES;
  const std::size_t inputs = options.in_features, outputs = options.out_features, group = options.scale_group;
  const std::size_t groups = group == 0 ? 1 : inputs / group + (inputs % group != 0);
  const auto covers = [](std::size_t size, std::size_t rows, std::size_t row) {
    return rows == 0 || row == 0 || size / row >= rows;
  };
  const std::size_t bits = detail::bits_in_words(options.w_type, format);
  if (!covers(qweight.size(), inputs / 32 * bits + inputs % 32 * bits / 32, outputs) ||
      !covers(qzeros.size(), groups, outputs / 32 * bits + outputs % 32 * bits / 32) ||
      !covers(std::ranges::size(scales), groups, outputs) || (!g_idx.empty() && g_idx.size() < inputs) ||
      (!order.empty() && order.size() < inputs)) {
    return RAPT_BAD_SIZE;
  }
  return rapt_linear_pack_words(qweight.data(), qzeros.data(), std::ranges::data(scales),
                                g_idx.empty() ? nullptr : g_idx.data(), format, &options, packed.data(),
                                packed.size(), order.empty() ? nullptr : order.data());
}

/// Sets the rows of `y` to the numbers of these outputs, as rapt_linear_packed_rows(). Returns RAPT_BAD_SIZE unless y
/// has a row for each of them, of in_features.
template <Element Y>
rapt_status linear_packed_rows(std::span<const std::byte> packed, std::span<const std::size_t> outputs,
                               const rapt_linear_options &options, Rows<Y> y) {
  if (y.rows != outputs.size() || y.cols != options.in_features) return RAPT_BAD_SIZE;
  return rapt_linear_packed_rows(packed.data(), packed.size(), outputs.data(), outputs.size(), &options,
                                 y.data, detail::type_of<Y>, y.stride);
}

/// Sets the rows of `y` to the numbers of blocks of a file, as rapt_dequantize_rows(). Returns RAPT_BAD_SIZE unless
/// `blocks` has exactly these rows, and RAPT_BAD_TYPE for other types.
template <Element Y>
rapt_status dequantize_blocks(std::span<const std::byte> blocks, rapt_type type, Rows<Y> y) {
  const detail::Block block = detail::block_of(type);
  if (block.inputs < 32) return RAPT_BAD_TYPE;
  const std::size_t in_row = y.cols / block.inputs * block.bytes;
  if (y.cols % block.inputs == 0 &&
      (in_row == 0 ? !blocks.empty() : blocks.size() % in_row != 0 || blocks.size() / in_row != y.rows))
    return RAPT_BAD_SIZE;
  return rapt_dequantize_rows(blocks.data(), type, y.rows, y.cols, 0, nullptr, nullptr, nullptr,
                              RAPT_TYPE_DEFAULT, nullptr, y.data, detail::type_of<Y>, y.stride);
}

/// y = x W^T + bias, as rapt_linear(). The workspace has linear_workspace() bytes.
template <Elements X, Weights W, WritableElements Y>
rapt_status linear(const X &x, const W &w, Y &&y, rapt_linear_options options,
                   std::span<std::byte> workspace) {
  const rapt_status status = detail::set_linear(options, x, w, y);
  if (status != RAPT_OK) return status;
  return rapt_linear(std::ranges::data(x), std::ranges::data(w), std::ranges::data(y), &options,
                     workspace.data(), workspace.size());
}

/// Computes the tasks first to last - 1 of linear(), as rapt_linear_run().
template <Elements X, Weights W, WritableElements Y>
rapt_status linear_run(const X &x, const W &w, Y &&y, rapt_linear_options options, std::size_t first,
                       std::size_t last, std::span<std::byte> workspace) {
  const rapt_status status = detail::set_linear(options, x, w, y);
  if (status != RAPT_OK) return status;
  return rapt_linear_run(std::ranges::data(x), std::ranges::data(w), std::ranges::data(y), &options, first,
                         last, workspace.data(), workspace.size());
}

/// Returns RAPT_LINEAR_BATCH_OPTIONS_INIT: no dimensions.
inline rapt_linear_batch_options linear_batch_options() { return RAPT_LINEAR_BATCH_OPTIONS_INIT; }

namespace detail {

// Returns whether `size` elements hold a matrix for each index of a batch. Strides of 0 are those without gaps.
inline bool covers_batch(const rapt_linear_batch_options &batch, const std::ptrdiff_t *strides,
                         std::size_t size, std::size_t rows, std::size_t columns,
                         rapt_matrix_strides matrix) {
  std::size_t shape[RAPT_MAX_BATCH_DIMS + 2], steps[RAPT_MAX_BATCH_DIMS + 2], dims = batch.dims, last = 0;
  if (dims == 0 || dims > RAPT_MAX_BATCH_DIMS) return true;  // the library refuses it
  bool has_none = true;
  const auto step = [](std::ptrdiff_t stride) {
    return stride == RAPT_REPEAT || stride < 0 ? 0 : static_cast<std::size_t>(stride);
  };
  for (std::size_t d = 0; d < dims; ++d) {
    shape[d] = batch.shape[d], steps[d] = step(strides[d]);
    has_none = has_none && strides[d] == 0;
  }
  const bool is_dense = matrix.row == 0 && matrix.column == 0;
  shape[dims] = rows, shape[dims + 1] = columns;
  steps[dims] = is_dense ? columns : step(matrix.row), steps[dims + 1] = is_dense ? 1 : step(matrix.column);
  for (std::size_t d = 0; d < dims + 2; ++d) {
    if (shape[d] == 0) return true;
  }
  if (has_none && rows > size / columns) return false;
  for (std::size_t d = dims, elements = rows * columns; has_none && d-- > 0; elements *= shape[d]) {
    steps[d] = elements;
    if (shape[d] > size / elements) return false;
  }
  for (std::size_t d = 0; d < dims + 2; ++d) {
    if (shape[d] > 1 && steps[d] > 0 && shape[d] - 1 > size / steps[d]) return false;
    last += (shape[d] - 1) * steps[d];
    if (last >= size) return false;
  }
  return size > 0;
}

template <class X, class W, class Y>
rapt_status set_linear_batch(rapt_linear_options &o, const rapt_linear_batch_options &batch, const X &x,
                             const W &w, const Y &y) {
  using std::ranges::range_value_t;
  if (!set_type<range_value_t<X> >(o.x_type) || !set_type<range_value_t<W> >(o.w_type) ||
      !set_type<range_value_t<Y> >(o.y_type)) {
    return RAPT_BAD_TYPE;
  }
  const rapt_matrix_strides of_y{o.y_stride, o.y_stride == 0 ? 0 : 1};
  const bool fit =
      covers_batch(batch, batch.x_strides, std::ranges::size(x), o.rows, o.in_features, o.x_strides) &&
      covers_batch(batch, batch.w_strides, std::ranges::size(w), o.out_features, o.in_features,
                   o.w_strides) &&
      covers_batch(batch, batch.y_strides, std::ranges::size(y), o.rows, o.out_features, of_y);
  return fit ? RAPT_OK : RAPT_BAD_SIZE;
}

// Returns what a function of the C interface says of a batch, or 0 if the options are not valid.
template <class X, class W>
std::size_t of_batch(rapt_status (*of)(const rapt_linear_options *, const rapt_linear_batch_options *,
                                       std::size_t *),
                     rapt_linear_options options, const rapt_linear_batch_options &batch) {
  std::size_t answer = 0;
  if (set_type<X>(options.x_type) && set_type<W>(options.w_type)) (void)of(&options, &batch, &answer);
  return answer;
}

}  // namespace detail

/// Returns the bytes of workspace of a batch, or 0 if the options are not valid or name other types, as
/// linear_workspace().
template <Element X, class W = void>
std::size_t linear_batch_workspace(const rapt_linear_options &options,
                                   const rapt_linear_batch_options &batch) {
  return detail::of_batch<X, W>(rapt_linear_batch_workspace, options, batch);
}
/// Returns the number of tasks of linear_batch_run(), or 0 if the options are not valid or name other types.
template <Element X, class W = void>
std::size_t linear_batch_tasks(const rapt_linear_options &options, const rapt_linear_batch_options &batch) {
  return detail::of_batch<X, W>(rapt_linear_batch_tasks, options, batch);
}

/// y[b] = x[b] W[b]^T + bias[b] for each index of the batch, as rapt_linear_batch(). Returns RAPT_BAD_SIZE if a range
/// is shorter than the options say.
template <Elements X, Elements W, WritableElements Y>
rapt_status linear_batch(const X &x, const W &w, Y &&y, rapt_linear_options options,
                         const rapt_linear_batch_options &batch, std::span<std::byte> workspace) {
  const rapt_status status = detail::set_linear_batch(options, batch, x, w, y);
  if (status != RAPT_OK) return status;
  return rapt_linear_batch(std::ranges::data(x), std::ranges::data(w), std::ranges::data(y), &options, &batch,
                           workspace.data(), workspace.size());
}

/// Computes the tasks first to last - 1 of linear_batch(), as rapt_linear_batch_run().
template <Elements X, Elements W, WritableElements Y>
rapt_status linear_batch_run(const X &x, const W &w, Y &&y, rapt_linear_options options,
                             const rapt_linear_batch_options &batch, std::size_t first, std::size_t last,
                             std::span<std::byte> workspace) {
  const rapt_status status = detail::set_linear_batch(options, batch, x, w, y);
  if (status != RAPT_OK) return status;
  return rapt_linear_batch_run(std::ranges::data(x), std::ranges::data(w), std::ranges::data(y), &options,
                               &batch, first, last, workspace.data(), workspace.size());
}

/// \}

// ---- mixture of experts
/// \defgroup cpp_mixture_of_experts Mixture of experts
/// One linear layer of all experts. The ranges set the element types, and are checked as in linear(). Weights are
/// checked only where the experts have no strides: packed ones are as long as the options say.
///
/// ~~~
///   std::vector<std::size_t> offsets(experts + 1), token_rows(tokens * top_k), entry_rows(tokens * top_k);
///   rapt_status status = rapt::expert_lists(ids, top_k, offsets, token_rows, entry_rows);
///   rapt_expert_options of_experts = rapt::expert_options(offsets);
///   of_experts.w_stride = length_of_a_packed_matrix;
///   options.rows = tokens * top_k;
///   options.x_rows = token_rows.data();
///   std::vector<std::byte> workspace(rapt::linear_experts_workspace<float>(options));
///   status = rapt::linear_experts(x, packed, y, options, of_experts, workspace);
/// ~~~
/// \{

/// Returns RAPT_EXPERT_OPTIONS_INIT with these offsets, of one expert less than there are offsets.
inline rapt_expert_options expert_options(std::span<const std::size_t> offsets) {
  rapt_expert_options options = RAPT_EXPERT_OPTIONS_INIT;
  options.experts = offsets.empty() ? 0 : offsets.size() - 1;
  options.offsets = offsets.data();
  return options;
}

/// Makes the lists of the entries of ids [tokens][top_k], as rapt_expert_lists(), for as many experts as there are
/// offsets but one. Returns RAPT_BAD_SIZE if ids are no whole tokens, or a list has not as many rows as ids. A list may
/// be empty, and is then left out.
inline rapt_status expert_lists(std::span<const std::int32_t> ids, std::size_t top_k,
                                std::span<std::size_t> offsets, std::span<std::size_t> token_rows,
                                std::span<std::size_t> entry_rows) {
  const auto fits = [&](std::span<std::size_t> list) { return list.empty() || list.size() == ids.size(); };
  if (top_k == 0 || offsets.empty()) return RAPT_BAD_SHAPE;
  if (ids.size() % top_k != 0 || !fits(token_rows) || !fits(entry_rows)) return RAPT_BAD_SIZE;
  return rapt_expert_lists(ids.data(), 0, ids.size() / top_k, top_k, offsets.size() - 1, offsets.data(),
                           token_rows.empty() ? nullptr : token_rows.data(),
                           entry_rows.empty() ? nullptr : entry_rows.data());
}

namespace detail {

// Sets the types, and checks the arrays. The weights must reach to the end of the last expert that has rows.
template <class X, class W, class Y>
rapt_status set_linear_experts(rapt_linear_options &o, const rapt_expert_options &experts, const X &x,
                               const W &w, const Y &y) {
  const rapt_status status = set_rows(o, x, w, y);
  const std::size_t *const offsets = experts.offsets;
  if (status != RAPT_OK || !offsets || o.out_features == 0) return status;
  std::size_t last = experts.experts;
  while (last > 0 && offsets[last - 1] == offsets[last]) --last;
  if (last == 0) return status;
  const std::size_t size = std::ranges::size(w) * sizeof(std::ranges::range_value_t<W>), before = last - 1;
  if (experts.w_stride <= 0) {
    const bool may_be_dense = o.packed_w || covers_weights(o, o.out_features, size / last);
    return may_be_dense ? status : RAPT_BAD_SIZE;
  }
  const auto stride = static_cast<std::size_t>(experts.w_stride);
  if (before > size / stride) return RAPT_BAD_SIZE;
  const std::size_t left = size - before * stride;
  if (!o.packed_w) return covers_weights(o, o.out_features, left) ? status : RAPT_BAD_SIZE;
  const auto *const packed = reinterpret_cast<const std::byte *>(std::ranges::data(w)) + before * stride;
  return holds_packed(packed, left) ? status : RAPT_BAD_PACKED;
}

}  // namespace detail

/// Returns the bytes of workspace, or 0 if the options are not valid or name other types, as linear_workspace().
template <Element X, class W = void>
std::size_t linear_experts_workspace(const rapt_linear_options &options) {
  return detail::of_linear<X, W>(rapt_linear_experts_workspace, options);
}
/// Returns the number of tasks of linear_experts_run(), or 0 if the options are not valid or name other types.
template <Element X, class W = void>
std::size_t linear_experts_tasks(const rapt_linear_options &options, const rapt_expert_options &experts) {
  rapt_linear_options o = options;
  std::size_t tasks = 0;
  if (detail::set_type<X>(o.x_type) && detail::set_type<W>(o.w_type))
    (void)rapt_linear_experts_tasks(&o, &experts, &tasks);
  return tasks;
}

/// y = x W^T + bias with the weights of each row's expert, as rapt_linear_experts().
template <Elements X, Weights W, WritableElements Y>
rapt_status linear_experts(const X &x, const W &w, Y &&y, rapt_linear_options options,
                           const rapt_expert_options &experts, std::span<std::byte> workspace) {
  const rapt_status status = detail::set_linear_experts(options, experts, x, w, y);
  if (status != RAPT_OK) return status;
  return rapt_linear_experts(std::ranges::data(x), std::ranges::data(w), std::ranges::data(y), &options,
                             &experts, workspace.data(), workspace.size());
}

/// Computes the tasks first to last - 1 of linear_experts(), as rapt_linear_experts_run().
template <Elements X, Weights W, WritableElements Y>
rapt_status linear_experts_run(const X &x, const W &w, Y &&y, rapt_linear_options options,
                               const rapt_expert_options &experts, std::size_t first, std::size_t last,
                               std::span<std::byte> workspace) {
  const rapt_status status = detail::set_linear_experts(options, experts, x, w, y);
  if (status != RAPT_OK) return status;
  return rapt_linear_experts_run(std::ranges::data(x), std::ranges::data(w), std::ranges::data(y), &options,
                                 &experts, first, last, workspace.data(), workspace.size());
}

/// The sum over the slots of each row of y, as rapt_expert_sum(): x has a row for each slot. `weights` has a number for
/// each row of x, or none; `add` is shaped like y, or has no rows. Returns RAPT_BAD_SIZE if the shapes do not fit.
/// Elements are float, double, f16 or bf16.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status expert_sum(Rows<const std::type_identity_t<T> > x,
                       std::span<const std::conditional_t<std::is_same_v<T, double>, double, float> > weights,
                       Rows<std::type_identity_t<T> > y, Rows<const std::type_identity_t<T> > add = {}) {
  if (y.rows == 0 && x.rows == 0) return RAPT_OK;
  if (y.rows == 0 || x.rows % y.rows != 0 || x.cols != y.cols) return RAPT_BAD_SIZE;
  if (!weights.empty() && weights.size() != x.rows) return RAPT_BAD_SIZE;
  if (add.rows != 0 && (add.rows != y.rows || add.cols != y.cols)) return RAPT_BAD_SIZE;
  rapt_expert_sum_options options = RAPT_EXPERT_SUM_OPTIONS_INIT;
  options.type = detail::type_of<T>;
  options.tokens = y.rows;
  options.top_k = x.rows / y.rows;
  options.cols = y.cols;
  options.x_stride = x.stride;
  options.y_stride = y.stride;
  if (!weights.empty()) options.weights = weights.data();
  if (add.rows != 0) {
    options.add = add.data;
    options.add_stride = add.stride;
  }
  return rapt_expert_sum(x.data, y.data, &options);
}

/// \}

// ---- cross entropy
/// \defgroup cpp_cross_entropy Cross entropy
/// \{

/// The losses of rapt_cross_entropy(), one for each row of logits. The shape is set by the arguments, all else by the
/// options. Returns RAPT_BAD_SIZE if the shapes do not fit. Elements are float, double, f16 or bf16.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status cross_entropy(Rows<const std::type_identity_t<T> > x, std::span<const std::int64_t> target,
                          std::span<std::conditional_t<std::is_same_v<T, double>, double, float> > out,
                          rapt_cross_entropy_options options = RAPT_CROSS_ENTROPY_OPTIONS_INIT) {
  if (target.size() != x.rows || out.size() != x.rows) return RAPT_BAD_SIZE;
  options.type = detail::type_of<T>;
  options.rows = x.rows;
  options.classes = x.cols;
  options.x_stride = x.stride;
  options.target = target.data();
  return rapt_cross_entropy(x.data, out.data(), &options);
}

/// The gradient of the logits, as rapt_cross_entropy_backward(): options.lse is that of the losses.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status cross_entropy_backward(Rows<const std::type_identity_t<T> > x,
                                   std::span<const std::int64_t> target, Rows<std::type_identity_t<T> > dx,
                                   rapt_cross_entropy_options options) {
  if (target.size() != x.rows || dx.rows != x.rows || dx.cols != x.cols) return RAPT_BAD_SIZE;
  options.type = detail::type_of<T>;
  options.rows = x.rows;
  options.classes = x.cols;
  options.x_stride = x.stride;
  options.dx_stride = dx.stride;
  options.target = target.data();
  return rapt_cross_entropy_backward(x.data, dx.data, &options);
}

/// \}

// ---- reductions
/// \defgroup cpp_reductions Reductions
/// The ranges set the types. A range that does not reach to the end of its tensor is RAPT_BAD_SIZE.
///
/// ~~~
///   rapt_reduce_options options = rapt::reduce_options(RAPT_MEAN, {rows, cols});
///   options.reduced = 1u << 1;  // the mean of each row
///   rapt_status status = rapt::reduce(x, means, options);
/// ~~~
/// \{

/// Returns options that reduce all dimensions of a contiguous tensor of this shape.
inline rapt_reduce_options reduce_options(rapt_reduction operation,
                                          std::initializer_list<std::size_t> shape) {
  rapt_reduce_options options = RAPT_REDUCE_OPTIONS_INIT;
  options.operation = operation;
  for (const std::size_t length : shape) {
    if (options.dims < RAPT_MAX_DIMS) options.shape[options.dims] = length;
    ++options.dims;
  }
  return options;
}

namespace detail {

// Whether `size` elements reach to the end of a tensor. What rapt_reduce() refuses is left to it.
inline bool reaches(std::size_t size, std::size_t dims, const std::size_t *shape,
                    const std::ptrdiff_t *strides) {
  bool is_contiguous = true;
  for (std::size_t d = 0; d < dims; ++d) {
    if (shape[d] == 0) return true;
    is_contiguous = is_contiguous && strides[d] == 0;
  }
  if (size == 0) return false;
  // Of a contiguous tensor, all that lies in an index of a dimension; else what is left behind the last index.
  std::size_t left = is_contiguous ? size : size - 1;
  for (std::size_t d = 0; d < dims; ++d) {
    if (is_contiguous) {
      left /= shape[d];
    } else if (shape[d] > 1 && strides[d] > 0) {
      const auto stride = static_cast<std::size_t>(strides[d]);
      if (left / stride < shape[d] - 1) return false;
      left -= stride * (shape[d] - 1);
    }
  }
  return !is_contiguous || left > 0;
}

inline rapt_status reduce(const void *x, std::size_t x_size, void *out, std::size_t out_size,
                          const rapt_reduce_options &options) {
  if (options.dims <= RAPT_MAX_DIMS) {
    std::size_t kept[RAPT_MAX_DIMS], count = 0;
    for (std::size_t d = 0; d < options.dims; ++d) {
      if (options.reduced != 0 && (options.reduced >> d & 1) == 0) kept[count++] = options.shape[d];
    }
    if (!reaches(x_size, options.dims, options.shape, options.x_strides) ||
        !reaches(out_size, count, kept, options.out_strides)) {
      return RAPT_BAD_SIZE;
    }
  }
  return rapt_reduce(x, out, &options);
}

}  // namespace detail

/// Reduces dimensions of x, as rapt_reduce(): sums, means, norms and extremes. The range of out is not that of a mean
/// that the options name.
template <Elements X, WritableElements Out>
rapt_status reduce(const X &x, Out &&out, rapt_reduce_options options) {
  using std::ranges::range_value_t;
  if (!detail::set_type<range_value_t<X> >(options.type) ||
      !detail::set_type<range_value_t<std::remove_reference_t<Out> > >(options.out_type) ||
      options.operation >= RAPT_ARGMIN) {
    return RAPT_BAD_TYPE;
  }
  return detail::reduce(std::ranges::data(x), std::ranges::size(x), std::ranges::data(out),
                        std::ranges::size(out), options);
}

/// Finds indices, as rapt_reduce() with RAPT_ARGMIN or RAPT_ARGMAX.
template <Elements X>
rapt_status reduce(const X &x, std::span<std::int64_t> indices, rapt_reduce_options options) {
  if (!detail::set_type<std::ranges::range_value_t<X> >(options.type) || options.operation < RAPT_ARGMIN)
    return RAPT_BAD_TYPE;
  return detail::reduce(std::ranges::data(x), std::ranges::size(x), indices.data(), indices.size(), options);
}

/// Returns options that scan a contiguous tensor of this shape along a dimension, by RAPT_SUM or RAPT_PRODUCT.
inline rapt_scan_options scan_options(rapt_reduction operation, std::size_t axis,
                                      std::initializer_list<std::size_t> shape) {
  rapt_scan_options options = RAPT_SCAN_OPTIONS_INIT;
  options.operation = operation;
  options.axis = axis;
  for (const std::size_t length : shape) {
    if (options.dims < RAPT_MAX_DIMS) options.shape[options.dims] = length;
    ++options.dims;
  }
  return options;
}

/// Cumulative sums and products along options.axis, as rapt_scan(). The ranges set the type.
template <Elements X, WritableElements Out>
rapt_status scan(const X &x, Out &&out, rapt_scan_options options) {
  using std::ranges::range_value_t;
  if (!detail::set_type<range_value_t<X> >(options.type) ||
      !detail::set_type<range_value_t<std::remove_reference_t<Out> > >(options.type)) {
    return RAPT_BAD_TYPE;
  }
  if (options.dims <= RAPT_MAX_DIMS &&
      (!detail::reaches(std::ranges::size(x), options.dims, options.shape, options.x_strides) ||
       !detail::reaches(std::ranges::size(out), options.dims, options.shape, options.out_strides))) {
    return RAPT_BAD_SIZE;
  }
  return rapt_scan(std::ranges::data(x), std::ranges::data(out), &options);
}

/// \}

// ---- convolutions
/// \defgroup cpp_convolutions Convolutions
/// The ranges set the types. A range that does not cover its array is RAPT_BAD_SIZE. Packed weights may be elements or
/// std::byte; they are RAPT_BAD_PACKED if they are shorter than they say. Quantized ones are bytes, and w_type is
/// given.
///
/// ~~~
///   rapt_convolution_options options = rapt::convolution_options({height, width}, {3, 3});
///   options.batch = 1, options.in_channels = 64, options.out_channels = 128;
///   options.pad_before[0] = options.pad_before[1] = options.pad_after[0] = options.pad_after[1] = 1;
///   std::vector<std::byte> workspace(rapt::convolution_workspace<float>(options));
///   rapt_status status = rapt::convolution(x, w, y, options, workspace);
/// ~~~
/// \{

/// Returns options with these sizes of x and taps, outermost dimension first.
inline rapt_convolution_options convolution_options(std::initializer_list<std::size_t> in_size,
                                                    std::initializer_list<std::size_t> taps) {
  rapt_convolution_options options = RAPT_CONVOLUTION_OPTIONS_INIT;
  options.dims = in_size.size() == taps.size() ? in_size.size() : 0;
  if (options.dims > RAPT_MAX_CONVOLVED) return options;
  for (std::size_t d = 0; d < options.dims; ++d) {
    options.in_size[d] = in_size.begin()[d];
    options.taps[d] = taps.begin()[d];
  }
  return options;
}

namespace detail {

template <class X>
std::size_t of_convolution(rapt_status (*of)(const rapt_convolution_options *, std::size_t *),
                           rapt_convolution_options options) {
  std::size_t answer = 0;
  if (set_type<X>(options.type)) (void)of(&options, &answer);
  return answer;
}

// Whether the arrays reach to the end of what valid options describe.
inline bool covers_convolution(const rapt_convolution_options &o, std::size_t a, std::size_t b,
                               std::size_t out) {
  std::size_t x_shape[2 + RAPT_MAX_CONVOLVED] = {o.batch, o.in_channels},
                          y_shape[2 + RAPT_MAX_CONVOLVED] = {o.batch, o.out_channels};
  if (rapt_convolution_positions(&o, y_shape + 2) != RAPT_OK) return true;  // the call says why
  std::size_t weights = o.in_channels / (o.groups > 0 ? o.groups : 1) * o.out_channels;
  for (std::size_t d = 0; d < o.dims; ++d) {
    x_shape[2 + d] = o.in_size[d];
    weights *= o.taps[d];
  }
  const bool is_dx = o.result == RAPT_CONVOLUTION_DX, is_dw = o.result == RAPT_CONVOLUTION_DW;
  const std::size_t x = is_dx ? out : a, y = is_dx ? a : is_dw ? b : out, w = is_dw ? out : b;
  return reaches(x, 2 + o.dims, x_shape, o.x_strides) && reaches(y, 2 + o.dims, y_shape, o.y_strides) &&
         (o.packed_w || w >= weights);
}

}  // namespace detail

/// Returns the bytes of workspace, or 0 if the options are not valid. E is the type of the arrays.
template <Element E>
std::size_t convolution_workspace(const rapt_convolution_options &options) {
  return detail::of_convolution<E>(rapt_convolution_workspace, options);
}
/// Returns the number of tasks of convolution_run().
template <Element E>
std::size_t convolution_tasks(const rapt_convolution_options &options) {
  return detail::of_convolution<E>(rapt_convolution_tasks, options);
}

/// Computes the tasks [first, last) of a convolution or of a gradient of it, as rapt_convolution_run().
template <Elements A, Weights B, WritableElements Out>
rapt_status convolution_run(const A &a, const B &b, Out &&out, rapt_convolution_options options,
                            std::size_t first, std::size_t last, std::span<std::byte> workspace) {
  using std::ranges::range_value_t;
  if (!detail::set_type<range_value_t<A> >(options.type) ||
      !detail::set_type<detail::PackedElement<range_value_t<B> > >(options.type) ||
      !detail::set_type<range_value_t<std::remove_reference_t<Out> > >(options.type)) {
    return RAPT_BAD_TYPE;
  }
  if (std::is_same_v<range_value_t<B>, std::byte> && !options.packed_w) return RAPT_BAD_TYPE;
  const std::size_t bytes_of_b = std::ranges::size(b) * sizeof(range_value_t<B>);
  if (options.packed_w && std::ranges::size(out) > 0 &&
      !detail::holds_packed(std::ranges::data(b), bytes_of_b))
    return RAPT_BAD_PACKED;
  if (!detail::covers_convolution(options, std::ranges::size(a), std::ranges::size(b),
                                  std::ranges::size(out)))
    return RAPT_BAD_SIZE;
  return rapt_convolution_run(std::ranges::data(a), std::ranges::data(b), std::ranges::data(out), &options,
                              first, last, workspace.data(), workspace.size());
}
/// Computes a convolution or a gradient of it, as rapt_convolution().
template <Elements A, Weights B, WritableElements Out>
rapt_status convolution(const A &a, const B &b, Out &&out, const rapt_convolution_options &options,
                        std::span<std::byte> workspace) {
  const std::size_t tasks = convolution_tasks<std::ranges::range_value_t<A> >(options);
  return convolution_run(a, b, out, options, 0, tasks, workspace);
}

/// The causal depthwise convolution of rapt_causal_convolution(), for one sequence: a row is a token, and w has a row
/// of taps for each channel, the newest token's last. state has taps - 1 rows, or none. Returns RAPT_BAD_SIZE if the
/// shapes do not fit. Elements are float, double, f16 or bf16.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status causal_convolution(
    Rows<const std::type_identity_t<T> > x, Rows<const std::type_identity_t<T> > w,
    std::span<const std::conditional_t<std::is_same_v<T, double>, double, float> > bias,
    Rows<std::type_identity_t<T> > state, Rows<std::type_identity_t<T> > y, bool silu = false) {
  if (x.rows != y.rows || x.cols != y.cols || w.rows != x.cols || w.cols == 0) return RAPT_BAD_SIZE;
  if (state.rows != 0 && (state.rows != w.cols - 1 || state.cols != x.cols)) return RAPT_BAD_SIZE;
  if (!bias.empty() && bias.size() != x.cols) return RAPT_BAD_SIZE;
  rapt_causal_convolution_options options = RAPT_CAUSAL_CONVOLUTION_OPTIONS_INIT;
  options.type = detail::type_of<T>;
  options.silu = silu;
  options.batch = 1;
  options.tokens = x.rows;
  options.channels = x.cols;
  options.taps = w.cols;
  options.x_stride = x.stride;
  options.y_stride = y.stride;
  options.state_stride = state.rows == 0 ? 0 : state.stride;
  options.w_strides[0] = w.stride;
  options.w_strides[1] = 1;
  if (!bias.empty()) options.bias = bias.data();
  return rapt_causal_convolution(x.data, w.data, state.rows == 0 ? nullptr : state.data, y.data, &options);
}

/// \}

// ---- the delta rule
/// \defgroup cpp_delta_rule The delta rule
/// The ranges set the element types. What the options point to, gates and states, is not checked.
/// \{

namespace detail {

template <class E>
std::size_t of_delta_rule(rapt_status (*query)(const rapt_delta_rule_options *, std::size_t *),
                          rapt_delta_rule_options options) {
  std::size_t number = 0;
  if (set_type<E>(options.type)) (void)query(&options, &number);
  return number;
}

// Whether `size` elements reach to the end of a tensor of rows. Packed sequences have no batch stride.
inline bool covers_rows(const rapt_delta_rule_options &o, std::size_t size, std::size_t heads,
                        std::size_t row, const rapt_strides &strides) {
  const std::size_t tokens = o.offsets ? static_cast<std::size_t>(o.offsets[o.batch]) : o.tokens;
  const std::size_t shape[] = {o.offsets ? 1 : o.batch, heads, tokens, row};
  const std::ptrdiff_t batch = o.offsets ? 0 : strides.batch;
  const bool is_contiguous = batch == 0 && strides.head == 0 && strides.token == 0;
  const std::ptrdiff_t given[] = {batch, strides.head, strides.token, is_contiguous ? 0 : 1};
  return reaches(size, 4, shape, given);
}
inline bool covers_inputs(const rapt_delta_rule_options &o, std::size_t q, std::size_t k, std::size_t v) {
  const std::size_t v_heads = o.v_heads == 0 ? o.q_heads : o.v_heads,
                    value_dim = o.value_dim == 0 ? o.key_dim : o.value_dim,
                    fewest = o.q_heads < v_heads ? o.q_heads : v_heads;
  return covers_rows(o, q, o.q_heads, o.key_dim, o.q_strides) &&
         covers_rows(o, k, o.k_heads == 0 ? fewest : o.k_heads, o.key_dim, o.k_strides) &&
         covers_rows(o, v, v_heads, value_dim, o.v_strides);
}

}  // namespace detail

/// Returns the bytes of workspace, or 0 if the options are not valid. E is the type of q, k, v and out.
template <Element E>
std::size_t delta_rule_workspace(const rapt_delta_rule_options &options) {
  return detail::of_delta_rule<E>(rapt_delta_rule_workspace, options);
}
/// Returns the number of tasks of delta_rule_run().
template <Element E>
std::size_t delta_rule_tasks(const rapt_delta_rule_options &options) {
  return detail::of_delta_rule<E>(rapt_delta_rule_tasks, options);
}

/// Computes the tasks first to last - 1 of the gated delta rule, as rapt_delta_rule_run(). A range that does not cover
/// its tensor is RAPT_BAD_SIZE.
template <Elements Q, Elements K, Elements V, WritableElements Out>
rapt_status delta_rule_run(const Q &q, const K &k, const V &v, Out &&out, rapt_delta_rule_options options,
                           std::size_t first, std::size_t last, std::span<std::byte> workspace) {
  using std::ranges::range_value_t;
  using std::ranges::size;
  if (!detail::set_type<range_value_t<Q> >(options.type) ||
      !detail::set_type<range_value_t<K> >(options.type) ||
      !detail::set_type<range_value_t<V> >(options.type) ||
      !detail::set_type<range_value_t<std::remove_reference_t<Out> > >(options.type)) {
    return RAPT_BAD_TYPE;
  }
  const rapt_delta_rule_options &o = options;
  std::size_t tasks = 0;
  const rapt_status status = rapt_delta_rule_tasks(&o, &tasks);
  if (status != RAPT_OK) return status;
  const std::size_t v_heads = o.v_heads == 0 ? o.q_heads : o.v_heads,
                    value_dim = o.value_dim == 0 ? o.key_dim : o.value_dim;
  if (!detail::covers_inputs(o, size(q), size(k), size(v)) ||
      !detail::covers_rows(o, size(out), o.q_heads < v_heads ? v_heads : o.q_heads, value_dim,
                           o.out_strides)) {
    return RAPT_BAD_SIZE;
  }
  return rapt_delta_rule_run(std::ranges::data(q), std::ranges::data(k), std::ranges::data(v),
                             std::ranges::data(out), &o, first, last, workspace.data(), workspace.size());
}
/// Computes the gated delta rule, as rapt_delta_rule().
template <Elements Q, Elements K, Elements V, WritableElements Out>
rapt_status delta_rule(const Q &q, const K &k, const V &v, Out &&out, const rapt_delta_rule_options &options,
                       std::span<std::byte> workspace) {
  return delta_rule_run(q, k, v, out, options, 0, delta_rule_tasks<std::ranges::range_value_t<Q> >(options),
                        workspace);
}

/// Like delta_rule_workspace(), for delta_rule_backward().
template <Element E>
std::size_t delta_rule_backward_workspace(const rapt_delta_rule_options &options) {
  return detail::of_delta_rule<E>(rapt_delta_rule_backward_workspace, options);
}
/// Returns the number of tasks of delta_rule_backward_run().
template <Element E>
std::size_t delta_rule_backward_tasks(const rapt_delta_rule_options &options) {
  return detail::of_delta_rule<E>(rapt_delta_rule_backward_tasks, options);
}
/// Computes the tasks first to last - 1 of the gradients, as rapt_delta_rule_backward_run(). A range that does not
/// cover its tensor is RAPT_BAD_SIZE. The types and extents of what `gradients` points to are not checked.
template <Elements Q, Elements K, Elements V>
rapt_status delta_rule_backward_run(const Q &q, const K &k, const V &v, rapt_delta_rule_options options,
                                    const rapt_delta_rule_gradients &gradients, std::size_t first,
                                    std::size_t last, std::span<std::byte> workspace) {
  if (!detail::set_type<std::ranges::range_value_t<Q> >(options.type) ||
      !detail::set_type<std::ranges::range_value_t<K> >(options.type) ||
      !detail::set_type<std::ranges::range_value_t<V> >(options.type)) {
    return RAPT_BAD_TYPE;
  }
  const rapt_delta_rule_options &o = options;
  std::size_t tasks = 0;
  const rapt_status status = rapt_delta_rule_backward_tasks(&o, &tasks);
  if (status != RAPT_OK) return status;
  if (!detail::covers_inputs(o, std::ranges::size(q), std::ranges::size(k), std::ranges::size(v)))
    return RAPT_BAD_SIZE;
  return rapt_delta_rule_backward_run(std::ranges::data(q), std::ranges::data(k), std::ranges::data(v), &o,
                                      &gradients, first, last, workspace.data(), workspace.size());
}
/// Computes the gradients of the gated delta rule, as rapt_delta_rule_backward().
template <Elements Q, Elements K, Elements V>
rapt_status delta_rule_backward(const Q &q, const K &k, const V &v, const rapt_delta_rule_options &options,
                                const rapt_delta_rule_gradients &gradients, std::span<std::byte> workspace) {
  return delta_rule_backward_run(q, k, v, options, gradients, 0,
                                 delta_rule_backward_tasks<std::ranges::range_value_t<Q> >(options),
                                 workspace);
}

/// \}

// ---- embeddings and vector search
/// \defgroup cpp_vector_search Embeddings and vector search
/// \{

/// The type of a function of metric(): float of all elements but double.
template <detail::OneOf<float, double, f16, bf16, std::int8_t> T>
using metric_function =
    std::conditional_t<std::is_same_v<T, double>, rapt_metric_function_f64, rapt_metric_function>;

/// Returns the function that compares two vectors of T, as rapt_metric(), whose text says what its caller promises.
template <detail::OneOf<float, double, f16, bf16, std::int8_t> T>
metric_function<T> metric(rapt_metric_kind kind) {
  if constexpr (std::is_same_v<T, double>) {
    return rapt_metric_f64(kind);
  } else {
    return rapt_metric(kind, detail::type_of<T>);
  }
}

namespace detail {

template <class T>
rapt_search_options search_options(rapt_metric_kind kind, Rows<const T> queries, Rows<const T> rows,
                                   std::size_t k) {
  rapt_search_options options = RAPT_SEARCH_OPTIONS_INIT;
  options.metric = kind;
  options.type = type_of<T>;
  options.queries = queries.rows;
  options.rows = rows.rows;
  options.dim = queries.cols;
  options.k = k;
  options.q_stride = queries.stride;
  options.x_stride = rows.stride;
  return options;
}

}  // namespace detail

/// Compares each query with each row, as rapt_metric_rows(): out has a row for each query. Returns RAPT_BAD_SIZE if the
/// shapes do not fit.
template <detail::OneOf<float, double, f16, bf16, std::int8_t> T>
rapt_status metric_rows(rapt_metric_kind kind, Rows<const std::type_identity_t<T> > queries,
                        Rows<const std::type_identity_t<T> > rows,
                        Rows<std::conditional_t<std::is_same_v<T, double>, double, float> > out) {
  if (queries.cols != rows.cols || out.rows != queries.rows || out.cols != rows.rows) return RAPT_BAD_SIZE;
  rapt_search_options options = detail::search_options<T>(kind, queries, rows, 0);
  options.out_stride = out.stride;
  return rapt_metric_rows(queries.data, rows.data, out.data, &options);
}

/// Returns the bytes of workspace of top_k(), or 0 if the shapes are not valid.
template <detail::OneOf<float, f16, bf16, std::int8_t> T>
std::size_t top_k_workspace(rapt_metric_kind kind, Rows<const std::type_identity_t<T> > queries,
                            Rows<const std::type_identity_t<T> > rows, std::size_t k) {
  const rapt_search_options options = detail::search_options<T>(kind, queries, rows, k);
  std::size_t bytes = 0;
  (void)rapt_top_k_workspace(&options, &bytes);
  return bytes;
}

/// Finds the best rows for each query, as rapt_top_k(): indices has a row of k for each query, and so has scores, or no
/// rows. Returns RAPT_BAD_SIZE if the shapes do not fit.
template <detail::OneOf<float, f16, bf16, std::int8_t> T>
rapt_status top_k(rapt_metric_kind kind, Rows<const std::type_identity_t<T> > queries,
                  Rows<const std::type_identity_t<T> > rows, Rows<std::int64_t> indices, Rows<float> scores,
                  std::span<std::byte> workspace) {
  if (queries.cols != rows.cols || indices.rows != queries.rows) return RAPT_BAD_SIZE;
  const bool has_scores = scores.rows != 0;
  if (has_scores &&
      (scores.rows != indices.rows || scores.cols != indices.cols || scores.stride != indices.stride))
    return RAPT_BAD_SIZE;
  rapt_search_options options = detail::search_options<T>(kind, queries, rows, indices.cols);
  options.out_stride = indices.stride;
  return rapt_top_k(queries.data, rows.data, indices.data, has_scores ? scores.data : nullptr, &options,
                    workspace.data(), workspace.size());
}

/// Averages the tokens of each sequence, as rapt_mean_pool(): x has a row for each token of y.rows sequences. mask has
/// a number for each token, and lengths one for each sequence, or none. Returns RAPT_BAD_SIZE if the shapes do not fit.
template <detail::OneOf<float, f16, bf16> T>
rapt_status mean_pool(Rows<const std::type_identity_t<T> > x, Rows<std::type_identity_t<T> > y,
                      std::span<const std::uint8_t> mask = {}, std::span<const std::size_t> lengths = {}) {
  if (y.rows == 0 && x.rows == 0) return RAPT_OK;
  if (y.rows == 0 || x.rows % y.rows != 0 || x.cols != y.cols) return RAPT_BAD_SIZE;
  if ((!mask.empty() && mask.size() != x.rows) || (!lengths.empty() && lengths.size() != y.rows))
    return RAPT_BAD_SIZE;
  rapt_mean_pool_options options = RAPT_MEAN_POOL_OPTIONS_INIT;
  options.type = detail::type_of<T>;
  options.batch = y.rows;
  options.tokens = x.rows / y.rows;
  options.dim = x.cols;
  options.x_stride = x.stride;
  options.batch_stride = x.stride * static_cast<std::ptrdiff_t>(options.tokens);
  options.y_stride = y.stride;
  if (!mask.empty()) options.mask = mask.data();
  if (!lengths.empty()) options.row_lengths = lengths.data();
  return rapt_mean_pool(x.data, y.data, &options);
}

/// Divides each row by its length, as rapt_normalize(). y may be x. Returns RAPT_BAD_SIZE if the shapes differ.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status normalize(Rows<const std::type_identity_t<T> > x, Rows<std::type_identity_t<T> > y,
                      double eps = 0) {
  if (x.rows != y.rows || x.cols != y.cols) return RAPT_BAD_SIZE;
  rapt_normalize_options options = RAPT_NORMALIZE_OPTIONS_INIT;
  options.type = detail::type_of<T>;
  options.rows = x.rows;
  options.cols = x.cols;
  options.x_stride = x.stride;
  options.y_stride = y.stride;
  options.eps = eps;
  return rapt_normalize(x.data, y.data, &options);
}

/// \}

// ---- elementwise functions
/// \defgroup cpp_elementwise_functions Elementwise functions
/// Each span is as long as `out`, or has one element, which is repeated. `out` may be an input, and overlaps none
/// otherwise. The spans set the type, the shape and the strides; the function and its parameters are rapt_map()'s.
/// Calls return RAPT_BAD_SIZE if a length is another.
///
/// ~~~
///   rapt_status status = rapt::map<float>(RAPT_MAP_TANH, x, y);
///   status = rapt::map<float>(RAPT_MAP_CLAMP, x, y, {.alpha = 0, .beta = 6});
///   const float two = 2;
///   status = rapt::map<float>(RAPT_MAP_POW, x, {&two, 1}, y);
/// ~~~
/// \{

/// Returns RAPT_MAP_OPTIONS_INIT: no function.
inline rapt_map_options map_options() { return RAPT_MAP_OPTIONS_INIT; }

/// The parameters of a function of rapt_map(), in its order. Those that it lacks are 0.
struct MapParameters {
  double alpha = 0;  ///< a
  double beta = 0;   ///< b
  double gamma = 0;  ///< c
};

namespace detail {

template <class T>
rapt_status map_spans(rapt_map_function function, std::span<const T> x, const std::span<const T> *y,
                      const std::span<const T> *z, std::span<T> out, MapParameters parameters) {
  rapt_map_options options = RAPT_MAP_OPTIONS_INIT;
  options.function = function;
  options.type = type_of<T>;
  options.dims = 1;
  options.shape[0] = out.size();
  options.alpha = parameters.alpha;
  options.beta = parameters.beta;
  options.gamma = parameters.gamma;
  const std::span<const T> *const inputs[] = {&x, y, z};
  std::ptrdiff_t *const strides[] = {options.x_strides, options.y_strides, options.z_strides};
  for (int i = 0; i < 3; ++i) {
    if (inputs[i] == nullptr || inputs[i]->size() == out.size()) continue;
    if (inputs[i]->size() != 1) return RAPT_BAD_SIZE;
    strides[i][0] = RAPT_REPEAT;
  }
  return rapt_map(x.data(), y == nullptr ? nullptr : y->data(), z == nullptr ? nullptr : z->data(),
                  out.data(), &options);
}

}  // namespace detail

/// out = function(x), as rapt_map(). Elements are float, double, f16 or bf16.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status map(rapt_map_function function, std::span<const std::type_identity_t<T> > x,
                std::span<std::type_identity_t<T> > out, MapParameters parameters = {}) {
  return detail::map_spans<T>(function, x, nullptr, nullptr, out, parameters);
}
/// out = function(x, y), as rapt_map(), with the types of one input.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status map(rapt_map_function function, std::span<const std::type_identity_t<T> > x,
                std::span<const std::type_identity_t<T> > y, std::span<std::type_identity_t<T> > out,
                MapParameters parameters = {}) {
  return detail::map_spans<T>(function, x, &y, nullptr, out, parameters);
}
/// out = function(x, y, z), as rapt_map(), with the types of one input.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status map(rapt_map_function function, std::span<const std::type_identity_t<T> > x,
                std::span<const std::type_identity_t<T> > y, std::span<const std::type_identity_t<T> > z,
                std::span<std::type_identity_t<T> > out, MapParameters parameters = {}) {
  return detail::map_spans<T>(function, x, &y, &z, out, parameters);
}

/// \}

// ---- sums of rows by index
/// \defgroup cpp_sums_by_index Sums of rows by index
/// \{

/// Adds each row of x to the row of `out` that indices name, as rapt_index_add(). Returns RAPT_BAD_SIZE if the shapes
/// do not fit. Elements are float, double, f16 or bf16.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status index_add(Rows<const std::type_identity_t<T> > x, std::span<const std::int64_t> indices,
                      Rows<std::type_identity_t<T> > out) {
  if (indices.size() != x.rows || x.cols != out.cols) return RAPT_BAD_SIZE;
  rapt_index_add_options options = RAPT_INDEX_ADD_OPTIONS_INIT;
  options.type = detail::type_of<T>;
  options.rows = x.rows;
  options.cols = x.cols;
  options.out_rows = out.rows;
  options.x_stride = x.stride;
  options.out_stride = out.stride;
  options.indices = indices.data();
  return rapt_index_add(x.data, out.data, &options);
}

/// \}

// ---- embedding bags
/// \defgroup cpp_embedding_bags Embedding bags
/// \{

/// Reduces the rows of w that the indices of each bag name, as rapt_embedding_bag(). There is an offset more than bags,
/// and the last one is the number of indices. weights and max_rows may be empty. Returns RAPT_BAD_SIZE if the shapes do
/// not fit. Elements are float, double, f16 or bf16.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status embedding_bag(
    Rows<const std::type_identity_t<T> > w, std::span<const std::int64_t> indices,
    std::span<const std::size_t> offsets, Rows<std::type_identity_t<T> > y,
    rapt_bag_operation operation = RAPT_BAG_SUM,
    std::span<const std::conditional_t<std::is_same_v<T, double>, double, float> > weights = {},
    std::span<std::int64_t> max_rows = {}) {
  if (offsets.size() != y.rows + 1 || offsets.back() != indices.size() || w.cols != y.cols ||
      (!weights.empty() && weights.size() != indices.size()) ||
      (!max_rows.empty() &&
       (y.rows == 0 || max_rows.size() % y.rows != 0 || max_rows.size() / y.rows != y.cols))) {
    return RAPT_BAD_SIZE;
  }
  rapt_embedding_bag_options options = RAPT_EMBEDDING_BAG_OPTIONS_INIT;
  options.type = detail::type_of<T>;
  options.operation = operation;
  options.rows = w.rows;
  options.cols = w.cols;
  options.bags = y.rows;
  options.w_stride = w.stride;
  options.y_stride = y.stride;
  options.offsets = offsets.data();
  options.weights = weights.empty() ? nullptr : weights.data();
  return rapt_embedding_bag(w.data, indices.data(), y.data, max_rows.empty() ? nullptr : max_rows.data(),
                            &options);
}

/// \}

// ---- triangular systems
/// \defgroup cpp_triangular_systems Triangular systems
/// \{

/// Solves a x = b, as rapt_triangular_solve(), for one problem. a is square. x may be b. Returns RAPT_BAD_SIZE if the
/// shapes do not fit. Elements are float or double.
template <detail::OneOf<float, double> T>
rapt_status triangular_solve(Rows<const std::type_identity_t<T> > a, Rows<const std::type_identity_t<T> > b,
                             Rows<std::type_identity_t<T> > x, bool upper = false,
                             bool unit_diagonal = false) {
  if (a.rows != a.cols || b.rows != a.rows || x.rows != a.rows || b.cols != x.cols) return RAPT_BAD_SIZE;
  rapt_triangular_solve_options options = RAPT_TRIANGULAR_SOLVE_OPTIONS_INIT;
  options.type = detail::type_of<T>;
  options.upper = upper;
  options.unit_diagonal = unit_diagonal;
  options.batch = 1;
  options.n = a.rows;
  options.cols = b.cols;
  options.a_stride = a.stride;
  options.b_stride = b.stride;
  options.x_stride = x.stride;
  return rapt_triangular_solve(a.data, b.data, x.data, &options);
}

/// \}

// ---- gated activations
/// \defgroup cpp_gated_activations Gated activations
/// \{

/// Returns RAPT_GATED_OPTIONS_INIT: silu, floats.
inline rapt_gated_options gated_options() { return RAPT_GATED_OPTIONS_INIT; }

namespace detail {

template <class T>
rapt_gated_options gated_options_of(Rows<const T> gate, Rows<const T> up, std::ptrdiff_t y_stride,
                                    rapt_activation activation) {
  rapt_gated_options options = RAPT_GATED_OPTIONS_INIT;
  options.type = type_of<T>;
  options.activation = activation;
  options.rows = gate.rows;
  options.cols = gate.cols;
  options.gate_stride = gate.stride;
  options.up_stride = up.stride;
  options.y_stride = y_stride;
  return options;
}
template <class A, class B>
bool same_shape(Rows<A> a, Rows<B> b) {
  return a.rows == b.rows && a.cols == b.cols;
}

}  // namespace detail

/// y = activation(gate) * up, as rapt_gated(). Returns RAPT_BAD_SIZE if the shapes differ. Elements are float, double,
/// f16 or bf16.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status gated(Rows<const std::type_identity_t<T> > gate, Rows<const std::type_identity_t<T> > up,
                  Rows<std::type_identity_t<T> > y, rapt_activation activation = RAPT_SILU) {
  if (!detail::same_shape(gate, up) || !detail::same_shape(gate, y)) return RAPT_BAD_SIZE;
  const rapt_gated_options options = detail::gated_options_of<T>(gate, up, y.stride, activation);
  return rapt_gated(gate.data, up.data, y.data, &options);
}

/// The gradients of gated(), as rapt_gated_backward(), for float, double, f16 and bf16. Returns RAPT_BAD_SIZE if the
/// shapes differ, or if a gradient has another stride than its input.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status gated_backward(Rows<const std::type_identity_t<T> > gate, Rows<const std::type_identity_t<T> > up,
                           Rows<const std::type_identity_t<T> > dy, Rows<std::type_identity_t<T> > dgate,
                           Rows<std::type_identity_t<T> > dup, rapt_activation activation = RAPT_SILU) {
  if (!detail::same_shape(gate, up) || !detail::same_shape(gate, dy) || !detail::same_shape(gate, dgate) ||
      !detail::same_shape(gate, dup) || dgate.stride != gate.stride || dup.stride != up.stride) {
    return RAPT_BAD_SIZE;
  }
  const rapt_gated_options options = detail::gated_options_of<T>(gate, up, dy.stride, activation);
  return rapt_gated_backward(gate.data, up.data, dy.data, dgate.data, dup.data, &options);
}

/// \}

// ---- norms
/// \defgroup cpp_norms Norms
/// x and y set the type, the shape and the strides. The options have the rest; their arrays are of x's
/// type, and as long as a row. Calls return RAPT_BAD_SIZE if the shapes differ.
///
/// ~~~
///   rapt_norm_options options = rapt::norm_options();
///   options.eps = 1e-6;
///   options.weight = weight.data();
///   rapt_status status = rapt::rms_norm<float>({x, cols}, {y, cols}, options);
/// ~~~
/// \{

/// Returns RAPT_NORM_OPTIONS_INIT: no weight, no bias, an eps of 0.
inline rapt_norm_options norm_options() { return RAPT_NORM_OPTIONS_INIT; }
/// Returns RAPT_NORM_BACKWARD_OPTIONS_INIT: the gradient of x alone.
inline rapt_norm_backward_options norm_backward_options() { return RAPT_NORM_BACKWARD_OPTIONS_INIT; }

namespace detail {

template <class T>
rapt_status set_norm(rapt_norm_options &options, Rows<const T> x, Rows<T> y) {
  if (!set_type<T>(options.type)) return RAPT_BAD_TYPE;
  if (!same_shape(x, y)) return RAPT_BAD_SIZE;
  options.rows = x.rows;
  options.cols = x.cols;
  options.x_stride = x.stride;
  options.y_stride = y.stride;
  return RAPT_OK;
}
template <class T>
rapt_status set_norm(rapt_norm_backward_options &options, Rows<const T> x, Rows<const T> dy, Rows<T> dx) {
  if (!set_type<T>(options.type)) return RAPT_BAD_TYPE;
  if (!same_shape(x, dy) || !same_shape(x, dx)) return RAPT_BAD_SIZE;
  options.rows = x.rows;
  options.cols = x.cols;
  options.x_stride = x.stride;
  options.dy_stride = dy.stride;
  options.dx_stride = dx.stride;
  return RAPT_OK;
}

}  // namespace detail

/// y = x / sqrt(mean of x^2 + eps) * weight, as rapt_rms_norm().
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status rms_norm(Rows<const std::type_identity_t<T> > x, Rows<std::type_identity_t<T> > y,
                     rapt_norm_options options = norm_options()) {
  const rapt_status status = detail::set_norm<T>(options, x, y);
  return status == RAPT_OK ? rapt_rms_norm(x.data, y.data, &options) : status;
}
/// y = (x - mean) / sqrt(variance + eps) * weight + bias, as rapt_layer_norm().
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status layer_norm(Rows<const std::type_identity_t<T> > x, Rows<std::type_identity_t<T> > y,
                       rapt_norm_options options = norm_options()) {
  const rapt_status status = detail::set_norm<T>(options, x, y);
  return status == RAPT_OK ? rapt_layer_norm(x.data, y.data, &options) : status;
}

/// The gradients of rms_norm(), as rapt_rms_norm_backward(). dweight and the statistics are of the arithmetic type.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status rms_norm_backward(Rows<const std::type_identity_t<T> > x, Rows<const std::type_identity_t<T> > dy,
                              Rows<std::type_identity_t<T> > dx,
                              rapt_norm_backward_options options = norm_backward_options()) {
  const rapt_status status = detail::set_norm<T>(options, x, dy, dx);
  return status == RAPT_OK ? rapt_rms_norm_backward(x.data, dy.data, dx.data, &options) : status;
}
/// The gradients of layer_norm(), as rapt_layer_norm_backward(). dweight, dbias and the statistics are of the
/// arithmetic type.
template <detail::OneOf<float, double, f16, bf16> T>
rapt_status layer_norm_backward(Rows<const std::type_identity_t<T> > x,
                                Rows<const std::type_identity_t<T> > dy, Rows<std::type_identity_t<T> > dx,
                                rapt_norm_backward_options options = norm_backward_options()) {
  const rapt_status status = detail::set_norm<T>(options, x, dy, dx);
  return status == RAPT_OK ? rapt_layer_norm_backward(x.data, dy.data, dx.data, &options) : status;
}

/// \}

// ---- optimizer steps
/// \defgroup cpp_optimizer_steps Optimizer steps
/// The spans set the types and the count. Calls return RAPT_BAD_SIZE if a span is shorter than param.
/// \{

/// Returns RAPT_ADAMW_OPTIONS_INIT: PyTorch's rates. `step` is to be set.
inline rapt_adamw_options adamw_options() { return RAPT_ADAMW_OPTIONS_INIT; }
/// Returns RAPT_SGD_OPTIONS_INIT. `lr` is to be set.
inline rapt_sgd_options sgd_options() { return RAPT_SGD_OPTIONS_INIT; }

/// A step of AdamW or Adam, as rapt_adamw_step(). An empty max_exp_avg_sq is none.
template <detail::OneOf<float, f16, bf16> T, detail::OneOf<float, f16, bf16> G = T>
rapt_status adamw_step(std::span<std::type_identity_t<T> > param,
                       std::span<const std::type_identity_t<G> > grad, std::span<float> exp_avg,
                       std::span<float> exp_avg_sq, rapt_adamw_options options,
                       std::span<float> max_exp_avg_sq = {}) {
  if (!detail::set_type<T>(options.type) || !detail::set_type<G>(options.grad_type)) return RAPT_BAD_TYPE;
  options.count = param.size();
  if (grad.size() < options.count || exp_avg.size() < options.count || exp_avg_sq.size() < options.count ||
      (!max_exp_avg_sq.empty() && max_exp_avg_sq.size() < options.count)) {
    return RAPT_BAD_SIZE;
  }
  return rapt_adamw_step(param.data(), grad.data(), exp_avg.data(), exp_avg_sq.data(),
                         max_exp_avg_sq.empty() ? nullptr : max_exp_avg_sq.data(), &options);
}
/// A step of SGD, as rapt_sgd_step(). An empty momentum_buffer is none.
template <detail::OneOf<float, f16, bf16> T, detail::OneOf<float, f16, bf16> G = T>
rapt_status sgd_step(std::span<std::type_identity_t<T> > param,
                     std::span<const std::type_identity_t<G> > grad, std::span<float> momentum_buffer,
                     rapt_sgd_options options) {
  if (!detail::set_type<T>(options.type) || !detail::set_type<G>(options.grad_type)) return RAPT_BAD_TYPE;
  options.count = param.size();
  if (grad.size() < options.count || (!momentum_buffer.empty() && momentum_buffer.size() < options.count))
    return RAPT_BAD_SIZE;
  return rapt_sgd_step(param.data(), grad.data(), momentum_buffer.empty() ? nullptr : momentum_buffer.data(),
                       &options);
}

/// \}

// ---- random numbers
/// \defgroup cpp_random_numbers Random numbers
/// \{

/// Returns RAPT_RANDOM_OPTIONS_INIT: floats in [0, 1).
inline rapt_random_options random_options() { return RAPT_RANDOM_OPTIONS_INIT; }

/// Writes numbers in [0, 1) to all of out, as rapt_random(). Of the options, seed, stream and offset count.
template <detail::OneOf<float, double> T>
rapt_status random_uniform(std::span<std::type_identity_t<T> > out, rapt_random_options options) {
  options.kind = RAPT_RANDOM_UNIFORM;
  if (!detail::set_type<T>(options.type)) return RAPT_BAD_TYPE;
  options.count = out.size();
  return rapt_random(out.data(), &options);
}
/// Writes numbers of the standard normal distribution.
template <detail::OneOf<float, double> T>
rapt_status random_normal(std::span<std::type_identity_t<T> > out, rapt_random_options options) {
  options.kind = RAPT_RANDOM_NORMAL;
  if (!detail::set_type<T>(options.type)) return RAPT_BAD_TYPE;
  options.count = out.size();
  return rapt_random(out.data(), &options);
}
/// Writes bytes that are 1 with the probability in the options, else 0.
inline rapt_status random_keep(std::span<std::uint8_t> out, rapt_random_options options) {
  options.kind = RAPT_RANDOM_KEEP;
  options.count = out.size();
  return rapt_random(out.data(), &options);
}
/// Writes the words of Philox.
inline rapt_status random_words(std::span<std::uint32_t> out, rapt_random_options options) {
  options.kind = RAPT_RANDOM_WORDS;
  options.count = out.size();
  return rapt_random(out.data(), &options);
}

/// \}

// ---- rotary position embedding
/// \defgroup cpp_rotary_position_embedding Rotary position embedding
/// The ranges set the element type. The frequencies set rotary_dim where the options have 0. Both functions return
/// RAPT_BAD_SIZE if a range is too short. Of x and y this is checked only if they are contiguous.
///
/// ~~~
///   std::vector<double> frequencies(head_dim / 2);
///   rapt_rope_frequency_options model = rapt::rope_frequency_options();
///   model.rotary_dim = head_dim;
///   double attention_factor;
///   (void)rapt::rope_frequencies(frequencies, attention_factor, model);
///   rapt_rope_options options = rapt::rope_options();
///   options.batch = 1;
///   options.heads = heads;
///   options.tokens = tokens;
///   options.head_dim = head_dim;
///   options.attention_factor = attention_factor;
///   rapt_status status = rapt::rope(q, q, frequencies, options);
/// ~~~
/// \{

/// Returns RAPT_ROPE_OPTIONS_INIT: halves, positions from 0.
inline rapt_rope_options rope_options() { return RAPT_ROPE_OPTIONS_INIT; }
/// Returns RAPT_ROPE_FREQUENCY_OPTIONS_INIT: a base of 10000, no scaling.
inline rapt_rope_frequency_options rope_frequency_options() { return RAPT_ROPE_FREQUENCY_OPTIONS_INIT; }

/// Turns the pairs of elements of every head by their token's position, as rapt_rope().
template <Elements X, WritableElements Y>
rapt_status rope(const X &x, Y &&y, std::span<const double> frequencies, rapt_rope_options options) {
  using std::ranges::range_value_t;
  if (!detail::set_type<range_value_t<X> >(options.type) ||
      !detail::set_type<range_value_t<std::remove_reference_t<Y> > >(options.type)) {
    return RAPT_BAD_TYPE;
  }
  const auto covers = [&](std::size_t size, const rapt_strides &strides) {
    return detail::Extent{size, strides}.covers(options.batch, options.heads, options.tokens,
                                                options.head_dim);
  };
  if (!covers(std::ranges::size(x), options.x_strides) || !covers(std::ranges::size(y), options.y_strides)) {
    return RAPT_BAD_SIZE;
  }
  if (options.rotary_dim == 0) options.rotary_dim = 2 * frequencies.size();
  if (options.tokens > 0 && options.rotary_dim / 2 > frequencies.size()) return RAPT_BAD_SIZE;
  options.frequencies = frequencies.data();
  return rapt_rope(std::ranges::data(x), std::ranges::data(y), &options);
}

/// Makes the frequencies of a model, as rapt_rope_frequencies().
inline rapt_status rope_frequencies(std::span<double> frequencies, double &attention_factor,
                                    const rapt_rope_frequency_options &options) {
  if (options.rotary_dim / 2 > frequencies.size()) return RAPT_BAD_SIZE;
  return rapt_rope_frequencies(frequencies.data(), &attention_factor, &options);
}

/// \}

}  // namespace rapt

#endif  // C++20
#endif
