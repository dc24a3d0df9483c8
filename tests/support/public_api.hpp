// Selects the functions of rapt.h by element type, so that all types share their tests.
#pragma once

#include "rapt/rapt.h"
#include "support/elements.hpp"

namespace rapt::test {

template <class T>
struct Api;

template <>
struct Api<float> {
  static constexpr rapt_type type = RAPT_F32;
  static constexpr const char *element = "f32";
  static constexpr auto dot = rapt_dot_f32;
  static constexpr auto dot_rows = rapt_dot_rows_f32;
  static constexpr auto scale = rapt_scale_f32;
  static constexpr auto exp = rapt_exp_f32;
  static constexpr auto exp_sum = rapt_exp_sum_f32;
  static constexpr auto silu = rapt_silu_f32;
  static constexpr auto gelu = rapt_gelu_f32;
  static constexpr auto gelu_tanh = rapt_gelu_tanh_f32;
  static constexpr auto silu_backward = rapt_silu_backward_f32;
  static constexpr auto gelu_backward = rapt_gelu_backward_f32;
  static constexpr auto gelu_tanh_backward = rapt_gelu_tanh_backward_f32;
  static constexpr auto argmax = rapt_argmax_f32;
  static constexpr auto softmax = rapt_softmax_f32;
  static constexpr auto log_softmax = rapt_log_softmax_f32;
  static constexpr auto logsumexp = rapt_logsumexp_f32;
  static constexpr auto softmax_backward = rapt_softmax_backward_f32;
};

template <>
struct Api<double> {
  static constexpr rapt_type type = RAPT_F64;
  static constexpr const char *element = "f64";
  static constexpr auto dot = rapt_dot_f64;
  static constexpr auto dot_rows = rapt_dot_rows_f64;
  static constexpr auto scale = rapt_scale_f64;
  static constexpr auto exp = rapt_exp_f64;
  static constexpr auto exp_sum = rapt_exp_sum_f64;
  static constexpr auto silu = rapt_silu_f64;
  static constexpr auto gelu = rapt_gelu_f64;
  static constexpr auto gelu_tanh = rapt_gelu_tanh_f64;
  static constexpr auto silu_backward = rapt_silu_backward_f64;
  static constexpr auto gelu_backward = rapt_gelu_backward_f64;
  static constexpr auto gelu_tanh_backward = rapt_gelu_tanh_backward_f64;
  static constexpr auto argmax = rapt_argmax_f64;
  static constexpr auto softmax = rapt_softmax_f64;
  static constexpr auto log_softmax = rapt_log_softmax_f64;
  static constexpr auto logsumexp = rapt_logsumexp_f64;
  static constexpr auto softmax_backward = rapt_softmax_backward_f64;
};

// Converts pointers, because 16-bit elements are uint16_t in the library's functions.
template <class E>
const std::uint16_t *elements(const E *p) {
  return reinterpret_cast<const std::uint16_t *>(p);
}
template <class E>
std::uint16_t *elements(E *p) {
  return reinterpret_cast<std::uint16_t *>(p);
}

template <>
struct Api<F16> {
  static constexpr rapt_type type = RAPT_F16;
  static constexpr const char *element = "f16";
  static float dot(const F16 *a, const F16 *b, std::size_t n) {
    return rapt_dot_f16(elements(a), elements(b), n);
  }
  static void dot_rows(const F16 *query, const F16 *rows, std::ptrdiff_t row_stride, std::size_t row_count,
                       std::size_t dim, float scale, float *out) {
    rapt_dot_rows_f16(elements(query), elements(rows), row_stride, row_count, dim, scale, out);
  }
  static void scale(const F16 *x, float factor, F16 *y, std::size_t n) {
    rapt_scale_f16(elements(x), factor, elements(y), n);
  }
  static void silu(const F16 *x, F16 *y, std::size_t n) { rapt_silu_f16(elements(x), elements(y), n); }
  static void gelu(const F16 *x, F16 *y, std::size_t n) { rapt_gelu_f16(elements(x), elements(y), n); }
  static void gelu_tanh(const F16 *x, F16 *y, std::size_t n) {
    rapt_gelu_tanh_f16(elements(x), elements(y), n);
  }
  static std::size_t argmax(const F16 *x, std::size_t n) { return rapt_argmax_f16(elements(x), n); }
  static rapt_status softmax(const F16 *x, std::ptrdiff_t x_stride, F16 *y, std::ptrdiff_t y_stride,
                             std::size_t rows, std::size_t cols, const rapt_softmax_options *options) {
    return rapt_softmax_f16(elements(x), x_stride, elements(y), y_stride, rows, cols, options);
  }
  static rapt_status log_softmax(const F16 *x, std::ptrdiff_t x_stride, F16 *y, std::ptrdiff_t y_stride,
                                 std::size_t rows, std::size_t cols, const rapt_softmax_options *options) {
    return rapt_log_softmax_f16(elements(x), x_stride, elements(y), y_stride, rows, cols, options);
  }
  static void to_f32(const F16 *x, float *y, std::size_t n) { rapt_convert_f16_to_f32(elements(x), y, n); }
  static void from_f32(const float *x, F16 *y, std::size_t n) { rapt_convert_f32_to_f16(x, elements(y), n); }
};

template <>
struct Api<BF16> {
  static constexpr rapt_type type = RAPT_BF16;
  static constexpr const char *element = "bf16";
  static float dot(const BF16 *a, const BF16 *b, std::size_t n) {
    return rapt_dot_bf16(elements(a), elements(b), n);
  }
  static void dot_rows(const BF16 *query, const BF16 *rows, std::ptrdiff_t row_stride, std::size_t row_count,
                       std::size_t dim, float scale, float *out) {
    rapt_dot_rows_bf16(elements(query), elements(rows), row_stride, row_count, dim, scale, out);
  }
  static void scale(const BF16 *x, float factor, BF16 *y, std::size_t n) {
    rapt_scale_bf16(elements(x), factor, elements(y), n);
  }
  static void silu(const BF16 *x, BF16 *y, std::size_t n) { rapt_silu_bf16(elements(x), elements(y), n); }
  static void gelu(const BF16 *x, BF16 *y, std::size_t n) { rapt_gelu_bf16(elements(x), elements(y), n); }
  static void gelu_tanh(const BF16 *x, BF16 *y, std::size_t n) {
    rapt_gelu_tanh_bf16(elements(x), elements(y), n);
  }
  static std::size_t argmax(const BF16 *x, std::size_t n) { return rapt_argmax_bf16(elements(x), n); }
  static rapt_status softmax(const BF16 *x, std::ptrdiff_t x_stride, BF16 *y, std::ptrdiff_t y_stride,
                             std::size_t rows, std::size_t cols, const rapt_softmax_options *options) {
    return rapt_softmax_bf16(elements(x), x_stride, elements(y), y_stride, rows, cols, options);
  }
  static rapt_status log_softmax(const BF16 *x, std::ptrdiff_t x_stride, BF16 *y, std::ptrdiff_t y_stride,
                                 std::size_t rows, std::size_t cols, const rapt_softmax_options *options) {
    return rapt_log_softmax_bf16(elements(x), x_stride, elements(y), y_stride, rows, cols, options);
  }
  static void to_f32(const BF16 *x, float *y, std::size_t n) { rapt_convert_bf16_to_f32(elements(x), y, n); }
  static void from_f32(const float *x, BF16 *y, std::size_t n) {
    rapt_convert_f32_to_bf16(x, elements(y), n);
  }
};

template <>
struct Api<std::int8_t> {
  static constexpr rapt_type type = RAPT_I8;
  static constexpr const char *element = "i8";
  static constexpr auto dot = rapt_dot_i8;
  static constexpr auto dot_rows = rapt_dot_rows_i8;
};
template <>
struct Api<std::uint8_t> {
  static constexpr const char *element = "u8i8";
  static constexpr auto dot = rapt_dot_u8i8;
  static constexpr auto dot_rows = rapt_dot_rows_u8i8;
};

// Returns RAPT_ATTENTION_OPTIONS_INIT with the types and the arithmetic for keys and values of type T.
template <class T>
rapt_attention_options attention_options() {
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.q_type = Api<QueryOf<T>>::type;
  if (sizeof(T) == 1) options.kv_type = Api<T>::type;
  if (options.q_type == RAPT_BF16) options.arithmetic = RAPT_ARITHMETIC_F32;
  return options;
}

// The options of gated for one row of n elements.
template <class T>
rapt_gated_options gated_row(int activation, std::size_t n) {
  rapt_gated_options options = RAPT_GATED_OPTIONS_INIT;
  options.type = Api<T>::type;
  options.activation = activation;
  options.rows = 1;
  options.cols = n;
  return options;
}

}  // namespace rapt::test
