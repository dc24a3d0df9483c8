// dot, dot_rows, scale, exp, exp_sum: without checks, each calls the active kernel.
#include "api/floating_point.hpp"
#include "dispatch/dispatch.hpp"

using rapt::forward_in_default_mode;
using rapt::kernels;

float rapt_dot_f32(const float *a, const float *b, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.dot(all...); }, a, b, n);
}

double rapt_dot_f64(const double *a, const double *b, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.dot(all...); }, a, b, n);
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

void rapt_scale_f32(const float *x, float factor, float *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f32.scale(all...); }, x, factor, y, n);
}

void rapt_scale_f64(const double *x, double factor, double *y, size_t n) {
  return forward_in_default_mode([](auto... all) { return kernels().f64.scale(all...); }, x, factor, y, n);
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
