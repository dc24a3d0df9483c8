// Implements dot, dot_rows, scale, exp, exp_sum, activations, argmax and conversions. These functions check nothing,
// and call the kernel of the active level.
#include "api/elements.hpp"
#include "api/floating_point.hpp"
#include "api/halves.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

template <class E, auto kernel, class... Arguments>
[[gnu::always_inline]] inline auto forward(Arguments... arguments) {
  return forward_in_default_mode([](auto... all) { return (kernels().of<E>().*kernel)(all...); },
                                 arguments...);
}

// Runs f32's kernel of an activation's gradient on elements of 16 bits.
template <class E, auto kernel>
void gradient_of_halves(const E *x, const E *dy, E *dx, std::size_t n) {
  alignas(64) float of_x[half_block], of_dy[half_block];
  for_each_block(n, [&](std::size_t i, std::size_t k) {
    widen_elements<E>(x + i, of_x, k);
    widen_elements<E>(dy + i, of_dy, k);
    (kernels().f32.*kernel)(of_x, of_dy, of_dy, k);
    narrow_elements<E>(of_dy, dx + i, k);
  });
}

}  // namespace
}  // namespace rapt

using namespace rapt;

#define DOT(name, type, E)                                                               \
  Arithmetic<E> rapt_##name##_##type(const Public<E> *a, const Public<E> *b, size_t n) { \
    return forward<E, &Operations<E>::name>(elements<E>(a), elements<E>(b), n);          \
  }
RAPT_ALL_FLOATS(DOT, dot)

int64_t rapt_dot_i8(const int8_t *a, const int8_t *b, size_t n) { return kernels().i8.dot(a, b, n); }

int64_t rapt_dot_u8i8(const uint8_t *a, const int8_t *b, size_t n) { return kernels().u8i8.dot(a, b, n); }

#define DOT_ROWS(name, type, E)                                                                            \
  void rapt_##name##_##type(const Public<E> *query, const Public<FactorOf<E>> *rows, ptrdiff_t row_stride, \
                            size_t row_count, size_t dim, Arithmetic<E> scale, Arithmetic<E> *out) {       \
    return forward<E, &Operations<E>::name>(elements<E>(query), elements<FactorOf<E>>(rows), row_stride,   \
                                            row_count, dim, scale, out);                                   \
  }
RAPT_ALL_FLOATS(DOT_ROWS, dot_rows)
DOT_ROWS(dot_rows, i8, std::int8_t)
DOT_ROWS(dot_rows, u8i8, std::uint8_t)

#define SCALE(name, type, E)                                                                    \
  void rapt_##name##_##type(const Public<E> *x, Arithmetic<E> factor, Public<E> *y, size_t n) { \
    return forward<E, &Operations<E>::name>(elements<E>(x), factor, elements<E>(y), n);         \
  }
RAPT_ALL_FLOATS(SCALE, scale)

#define MAP(name, type, E)                                                      \
  void rapt_##name##_##type(const Public<E> *x, Public<E> *y, size_t n) {       \
    return forward<E, &Operations<E>::name>(elements<E>(x), elements<E>(y), n); \
  }
RAPT_FLOATS(MAP, exp)
RAPT_ALL_FLOATS(MAP, silu)
RAPT_ALL_FLOATS(MAP, gelu)
RAPT_ALL_FLOATS(MAP, gelu_tanh)

#define EXP_SUM(name, type, E)                                           \
  E rapt_##name##_##type(const E *x, E scale, E shift, E *y, size_t n) { \
    return forward<E, &Operations<E>::name>(x, scale, shift, y, n);      \
  }
RAPT_FLOATS(EXP_SUM, exp_sum)

#define GRADIENT(name, type, E)                                         \
  void rapt_##name##_##type(const E *x, const E *dy, E *dx, size_t n) { \
    return forward<E, &Operations<E>::name>(x, dy, dx, n);              \
  }
RAPT_FLOATS(GRADIENT, silu_backward)
RAPT_FLOATS(GRADIENT, gelu_backward)
RAPT_FLOATS(GRADIENT, gelu_tanh_backward)

#define GRADIENT_OF_HALVES(name, type, E)                                                                   \
  void rapt_##name##_##type(const Public<E> *x, const Public<E> *dy, Public<E> *dx, size_t n) {             \
    in_default_mode([&] {                                                                                   \
      gradient_of_halves<E, &Operations<float>::name>(elements<E>(x), elements<E>(dy), elements<E>(dx), n); \
    });                                                                                                     \
  }
RAPT_HALVES(GRADIENT_OF_HALVES, silu_backward)
RAPT_HALVES(GRADIENT_OF_HALVES, gelu_backward)
RAPT_HALVES(GRADIENT_OF_HALVES, gelu_tanh_backward)

#define ARGMAX(name, type, E)                                   \
  size_t rapt_##name##_##type(const Public<E> *x, size_t n) {   \
    return forward<E, &Operations<E>::name>(elements<E>(x), n); \
  }
RAPT_ALL_FLOATS(ARGMAX, argmax)

#define CONVERT(name, type, E)                                                 \
  void rapt_##name##_##type##_to_f32(const Public<E> *x, float *y, size_t n) { \
    return forward<E, &Operations<E>::widen>(elements<E>(x), y, n);            \
  }                                                                            \
  void rapt_##name##_f32_to_##type(const float *x, Public<E> *y, size_t n) {   \
    return forward<E, &Operations<E>::narrow>(x, elements<E>(y), n);           \
  }
RAPT_HALVES(CONVERT, convert)
