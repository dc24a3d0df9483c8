// Adds SLEEF's exp, the version with an error of at most 1.0 ULP, as a peer.
#include <sleef.h>

#include <cstddef>

#include "by_registers.hpp"
#include "compiler.hpp"
#include "peer.hpp"

namespace {

#if defined(__AVX512F__)
struct F32 {
  static constexpr std::size_t lanes = 16;
  static void exp(const float *x, float *y) {
    _mm512_storeu_ps(y, Sleef_expf16_u10avx512f(_mm512_loadu_ps(x)));
  }
};
struct F64 {
  static constexpr std::size_t lanes = 8;
  static void exp(const double *x, double *y) {
    _mm512_storeu_pd(y, Sleef_expd8_u10avx512f(_mm512_loadu_pd(x)));
  }
};
#elif defined(__AVX2__)
struct F32 {
  static constexpr std::size_t lanes = 8;
  static void exp(const float *x, float *y) { _mm256_storeu_ps(y, Sleef_expf8_u10avx2(_mm256_loadu_ps(x))); }
};
struct F64 {
  static constexpr std::size_t lanes = 4;
  static void exp(const double *x, double *y) {
    _mm256_storeu_pd(y, Sleef_expd4_u10avx2(_mm256_loadu_pd(x)));
  }
};
#else
struct F32 {
  static constexpr std::size_t lanes = 4;
  static void exp(const float *x, float *y) { vst1q_f32(y, Sleef_expf4_u10advsimd(vld1q_f32(x))); }
};
struct F64 {
  static constexpr std::size_t lanes = 2;
  static void exp(const double *x, double *y) { vst1q_f64(y, Sleef_expd2_u10advsimd(vld1q_f64(x))); }
};
#endif

}  // namespace

extern "C" const char *RAPT_PEER_ENTRY(rapt::bench::Peer &peer) {
  peer.f32.exp = exp_by_registers<F32, float>;
  peer.f64.exp = exp_by_registers<F64, double>;
  return RAPT_PEER_TEXT(SLEEF_VERSION_MAJOR) "." RAPT_PEER_TEXT(SLEEF_VERSION_MINOR) "." RAPT_PEER_TEXT(
      SLEEF_VERSION_PATCHLEVEL) " u10";
}
