// fma and fmaf for a QEMU that emulates AVX2 on this CPU; qemu.sh loads them.
//
// QEMU's generated code leaves dirty upper halves in ymm registers, and calls fmaf for each lane of a guest's FMA. On
// Sapphire Rapids QEMU's legacy SSE code then pays for two transitions a lane: softmax's validation took 50 s instead
// of 7.
#include <immintrin.h>

extern "C" float fmaf(float a, float b, float c) {
  _mm256_zeroupper();
  return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}

extern "C" double fma(double a, double b, double c) {
  _mm256_zeroupper();
  return _mm_cvtsd_f64(_mm_fmadd_sd(_mm_set_sd(a), _mm_set_sd(b), _mm_set_sd(c)));
}
