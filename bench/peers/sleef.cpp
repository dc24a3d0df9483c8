// Adds SLEEF's elementwise functions, the versions with an error of at most 1.0 ULP, as a peer.
#include <sleef.h>

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "by_registers.hpp"
#include "compiler.hpp"
#include "peer.hpp"

namespace {

// A register of SLEEF's, and the functions of rapt_map that it has for it.
#if defined(__AVX512F__)
#define RAPT_SLEEF(name, width) Sleef_##name##width##_u10avx512f
#define RAPT_F32 f16
#define RAPT_F64 d8
struct F32 {
  static constexpr std::size_t lanes = 16;
  static __m512 load(const float *p) { return _mm512_loadu_ps(p); }
  static void store(float *p, __m512 v) { _mm512_storeu_ps(p, v); }
};
struct F64 {
  static constexpr std::size_t lanes = 8;
  static __m512d load(const double *p) { return _mm512_loadu_pd(p); }
  static void store(double *p, __m512d v) { _mm512_storeu_pd(p, v); }
};
#elif defined(__AVX2__)
#define RAPT_SLEEF(name, width) Sleef_##name##width##_u10avx2
#define RAPT_F32 f8
#define RAPT_F64 d4
struct F32 {
  static constexpr std::size_t lanes = 8;
  static __m256 load(const float *p) { return _mm256_loadu_ps(p); }
  static void store(float *p, __m256 v) { _mm256_storeu_ps(p, v); }
};
struct F64 {
  static constexpr std::size_t lanes = 4;
  static __m256d load(const double *p) { return _mm256_loadu_pd(p); }
  static void store(double *p, __m256d v) { _mm256_storeu_pd(p, v); }
};
#else
#define RAPT_SLEEF(name, width) Sleef_##name##width##_u10advsimd
#define RAPT_F32 f4
#define RAPT_F64 d2
struct F32 {
  static constexpr std::size_t lanes = 4;
  static float32x4_t load(const float *p) { return vld1q_f32(p); }
  static void store(float *p, float32x4_t v) { vst1q_f32(p, v); }
};
struct F64 {
  static constexpr std::size_t lanes = 2;
  static float64x2_t load(const double *p) { return vld1q_f64(p); }
  static void store(double *p, float64x2_t v) { vst1q_f64(p, v); }
};
#endif

// The two levels make the macros expand their arguments.
#define RAPT_NAMED(name, width) RAPT_SLEEF(name, width)
template <class T>
using Register = std::conditional_t<sizeof(T) == sizeof(float), F32, F64>;

// F::of computes a register.
template <class F, class T>
struct OfOne : Register<T> {
  static void exp(const T *x, T *y) { Register<T>::store(y, F::of(Register<T>::load(x))); }
};
template <class F, class T>
void one(const T *x, const T *, T *y, std::size_t n) {
  exp_by_registers<OfOne<F, T>, T>(x, y, n);
}
template <class F, class T>
void two(const T *a, const T *b, T *y, std::size_t n) {
  using R = Register<T>;
  std::size_t i = 0;
  for (; i + R::lanes <= n; i += R::lanes) R::store(y + i, F::of(R::load(a + i), R::load(b + i)));
  if (i == n) return;
  T x[2][R::lanes] = {};
  std::copy(a + i, a + n, x[0]);
  std::copy(b + i, b + n, x[1]);
  R::store(x[0], F::of(R::load(x[0]), R::load(x[1])));
  std::copy(x[0], x[0] + (n - i), y + i);
}

#define RAPT_FUNCTION(Name, name)                                                       \
  struct Name {                                                                         \
    static auto of(auto... v) {                                                         \
      if constexpr (sizeof...(v) > 0 && requires { RAPT_NAMED(name, RAPT_F32)(v...); }) \
        return RAPT_NAMED(name, RAPT_F32)(v...);                                        \
      else                                                                              \
        return RAPT_NAMED(name, RAPT_F64)(v...);                                        \
    }                                                                                   \
  };
RAPT_FUNCTION(Exp, exp)
RAPT_FUNCTION(Exp2, exp2)
RAPT_FUNCTION(Expm1, expm1)
RAPT_FUNCTION(Log, log)
RAPT_FUNCTION(Log2, log2)
RAPT_FUNCTION(Log1p, log1p)
RAPT_FUNCTION(Sin, sin)
RAPT_FUNCTION(Cos, cos)
RAPT_FUNCTION(Tan, tan)
RAPT_FUNCTION(Tanh, tanh)
RAPT_FUNCTION(Erf, erf)
RAPT_FUNCTION(Pow, pow)
RAPT_FUNCTION(Atan2, atan2)

template <class T>
rapt::bench::TwoToOne<T> map_of(rapt_map_function function) {
  switch (function) {
    case RAPT_MAP_EXP2:
      return one<Exp2, T>;
    case RAPT_MAP_EXPM1:
      return one<Expm1, T>;
    case RAPT_MAP_LOG:
      return one<Log, T>;
    case RAPT_MAP_LOG2:
      return one<Log2, T>;
    case RAPT_MAP_LOG1P:
      return one<Log1p, T>;
    case RAPT_MAP_SIN:
      return one<Sin, T>;
    case RAPT_MAP_COS:
      return one<Cos, T>;
    case RAPT_MAP_TAN:
      return one<Tan, T>;
    case RAPT_MAP_TANH:
      return one<Tanh, T>;
    case RAPT_MAP_ERF:
      return one<Erf, T>;
    case RAPT_MAP_POW:
      return two<Pow, T>;
    case RAPT_MAP_ATAN2:
      return two<Atan2, T>;
    default:
      return nullptr;
  }
}

}  // namespace

extern "C" const char *RAPT_PEER_ENTRY(rapt::bench::Peer &peer) {
  peer.f32.exp = exp_by_registers<OfOne<Exp, float>, float>;
  peer.f64.exp = exp_by_registers<OfOne<Exp, double>, double>;
  peer.f32.map = map_of<float>;
  peer.f64.map = map_of<double>;
  return RAPT_PEER_TEXT(SLEEF_VERSION_MAJOR) "." RAPT_PEER_TEXT(SLEEF_VERSION_MINOR) "." RAPT_PEER_TEXT(
      SLEEF_VERSION_PATCHLEVEL) " u10";
}
