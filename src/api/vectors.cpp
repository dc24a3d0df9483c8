// Implements dot, dot_rows, scale, exp, exp_sum, activations, argmax and conversions. These functions check nothing, and call the
// kernel of the active level.
#include "api/elements.hpp"
#include "api/floating_point.hpp"
#include "dispatch/dispatch.hpp"

using namespace rapt;

float rapt_dot_f32(const float *a, const float *b, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.dot(all...); }, a, b, n);
}

double rapt_dot_f64(const double *a, const double *b, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.dot(all...); }, a, b, n);
}

float rapt_dot_f16(const rapt_f16 *a, const rapt_f16 *b, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f16.dot(all...); }, elements<F16>(a),
                                 elements<F16>(b), n);
}

float rapt_dot_bf16(const rapt_bf16 *a, const rapt_bf16 *b, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().bf16.dot(all...); }, elements<BF16>(a),
                                 elements<BF16>(b), n);
}

void rapt_dot_rows_f32(const float *query, const float *rows, ptrdiff_t row_stride, size_t row_count,
                       size_t dim, float scale, float *out) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.dot_rows(all...); }, query, rows,
                                 row_stride, row_count, dim, scale, out);
}

void rapt_dot_rows_f64(const double *query, const double *rows, ptrdiff_t row_stride, size_t row_count,
                       size_t dim, double scale, double *out) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.dot_rows(all...); }, query, rows,
                                 row_stride, row_count, dim, scale, out);
}

void rapt_dot_rows_f16(const rapt_f16 *query, const rapt_f16 *rows, ptrdiff_t row_stride, size_t row_count,
                       size_t dim, float scale, float *out) {
  return forward_in_default_mode([](auto... all) { return kernels().f16.dot_rows(all...); },
                                 elements<F16>(query), elements<F16>(rows), row_stride, row_count, dim, scale,
                                 out);
}

void rapt_dot_rows_bf16(const rapt_bf16 *query, const rapt_bf16 *rows, ptrdiff_t row_stride, size_t row_count,
                        size_t dim, float scale, float *out) {
  return forward_in_default_mode([](auto... all) { return kernels().bf16.dot_rows(all...); },
                                 elements<BF16>(query), elements<BF16>(rows), row_stride, row_count, dim,
                                 scale, out);
}

int64_t rapt_dot_i8(const int8_t *a, const int8_t *b, size_t n) { return kernels().i8.dot(a, b, n); }

int64_t rapt_dot_u8i8(const uint8_t *a, const int8_t *b, size_t n) { return kernels().u8i8.dot(a, b, n); }

void rapt_dot_rows_i8(const int8_t *query, const int8_t *rows, ptrdiff_t row_stride, size_t row_count,
                      size_t dim, float scale, float *out) {
  return forward_in_default_mode([](auto... all) { return kernels().i8.dot_rows(all...); }, query, rows,
                                 row_stride, row_count, dim, scale, out);
}

void rapt_dot_rows_u8i8(const uint8_t *query, const int8_t *rows, ptrdiff_t row_stride, size_t row_count,
                        size_t dim, float scale, float *out) {
  return forward_in_default_mode([](auto... all) { return kernels().u8i8.dot_rows(all...); }, query, rows,
                                 row_stride, row_count, dim, scale, out);
}

void rapt_scale_f32(const float *x, float factor, float *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.scale(all...); }, x, factor, y, n);
}

void rapt_scale_f64(const double *x, double factor, double *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.scale(all...); }, x, factor, y, n);
}

void rapt_scale_f16(const rapt_f16 *x, float factor, rapt_f16 *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f16.scale(all...); }, elements<F16>(x),
                                 factor, elements<F16>(y), n);
}

void rapt_scale_bf16(const rapt_bf16 *x, float factor, rapt_bf16 *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().bf16.scale(all...); }, elements<BF16>(x),
                                 factor, elements<BF16>(y), n);
}

void rapt_exp_f32(const float *x, float *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.exp(all...); }, x, y, n);
}

void rapt_exp_f64(const double *x, double *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.exp(all...); }, x, y, n);
}

float rapt_exp_sum_f32(const float *x, float scale, float shift, float *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.exp_sum(all...); }, x, scale, shift,
                                 y, n);
}

double rapt_exp_sum_f64(const double *x, double scale, double shift, double *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.exp_sum(all...); }, x, scale, shift,
                                 y, n);
}

void rapt_silu_f32(const float *x, float *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.silu(all...); }, x, y, n);
}

void rapt_silu_f64(const double *x, double *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.silu(all...); }, x, y, n);
}

void rapt_silu_f16(const rapt_f16 *x, rapt_f16 *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f16.silu(all...); }, elements<F16>(x),
                                 elements<F16>(y), n);
}

void rapt_silu_bf16(const rapt_bf16 *x, rapt_bf16 *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().bf16.silu(all...); }, elements<BF16>(x),
                                 elements<BF16>(y), n);
}

void rapt_gelu_f32(const float *x, float *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.gelu(all...); }, x, y, n);
}

void rapt_gelu_f64(const double *x, double *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.gelu(all...); }, x, y, n);
}

void rapt_gelu_f16(const rapt_f16 *x, rapt_f16 *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f16.gelu(all...); }, elements<F16>(x),
                                 elements<F16>(y), n);
}

void rapt_gelu_bf16(const rapt_bf16 *x, rapt_bf16 *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().bf16.gelu(all...); }, elements<BF16>(x),
                                 elements<BF16>(y), n);
}

void rapt_gelu_tanh_f32(const float *x, float *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.gelu_tanh(all...); }, x, y, n);
}

void rapt_gelu_tanh_f64(const double *x, double *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.gelu_tanh(all...); }, x, y, n);
}

void rapt_gelu_tanh_f16(const rapt_f16 *x, rapt_f16 *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f16.gelu_tanh(all...); },
                                 elements<F16>(x), elements<F16>(y), n);
}

void rapt_gelu_tanh_bf16(const rapt_bf16 *x, rapt_bf16 *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().bf16.gelu_tanh(all...); },
                                 elements<BF16>(x), elements<BF16>(y), n);
}

void rapt_silu_backward_f32(const float *x, const float *dy, float *dx, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.silu_backward(all...); }, x, dy, dx,
                                 n);
}

void rapt_silu_backward_f64(const double *x, const double *dy, double *dx, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.silu_backward(all...); }, x, dy, dx,
                                 n);
}

void rapt_gelu_backward_f32(const float *x, const float *dy, float *dx, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.gelu_backward(all...); }, x, dy, dx,
                                 n);
}

void rapt_gelu_backward_f64(const double *x, const double *dy, double *dx, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.gelu_backward(all...); }, x, dy, dx,
                                 n);
}

void rapt_gelu_tanh_backward_f32(const float *x, const float *dy, float *dx, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.gelu_tanh_backward(all...); }, x, dy,
                                 dx, n);
}

void rapt_gelu_tanh_backward_f64(const double *x, const double *dy, double *dx, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.gelu_tanh_backward(all...); }, x, dy,
                                 dx, n);
}

size_t rapt_argmax_f32(const float *x, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.argmax(all...); }, x, n);
}

size_t rapt_argmax_f64(const double *x, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.argmax(all...); }, x, n);
}

size_t rapt_argmax_f16(const rapt_f16 *x, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f16.argmax(all...); }, elements<F16>(x),
                                 n);
}

size_t rapt_argmax_bf16(const rapt_bf16 *x, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().bf16.argmax(all...); }, elements<BF16>(x),
                                 n);
}

void rapt_convert_f16_to_f32(const rapt_f16 *x, float *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f16.widen(all...); }, elements<F16>(x), y,
                                 n);
}

void rapt_convert_bf16_to_f32(const rapt_bf16 *x, float *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().bf16.widen(all...); }, elements<BF16>(x),
                                 y, n);
}

void rapt_convert_f32_to_f16(const float *x, rapt_f16 *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f16.narrow(all...); }, x,
                                 elements<F16>(y), n);
}

void rapt_convert_f32_to_bf16(const float *x, rapt_bf16 *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().bf16.narrow(all...); }, x,
                                 elements<BF16>(y), n);
}
