// Checks the options that softmax and attention share: scale, softcap, causality.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstddef>

#include "rapt/rapt.h"

namespace rapt {

// Returns whether x is finite, not 0 and not subnormal as T.
template <class T>
bool is_usable(double x) {
  return std::isnormal(static_cast<T>(x));
}

// A scale of 0 stands for `default_scale`. Kernels multiply scores by scale * log2(e), so this product must
// be finite. Kernels also divide the scale by the softcap. This quotient must be normal, because the error of
// a subnormal quotient would be larger than a rounding.
template <class T>
rapt_status check_scores(double scale, double default_scale, double softcap) {
  constexpr double log2_e = 0x1.71547652b82fep0;
  if (scale == 0) scale = default_scale;
  if (!is_usable<T>(scale) || !std::isfinite(static_cast<T>(scale * log2_e))) return RAPT_BAD_SCALE;
  if (softcap == 0) return RAPT_OK;
  const bool fits = softcap > 0 && is_usable<T>(softcap) && is_usable<T>(scale / softcap);
  return fits ? RAPT_OK : RAPT_BAD_SOFTCAP;
}

// With a larger offset, sums of an offset, a position and a window could overflow.
constexpr std::ptrdiff_t largest_causal_offset = std::ptrdiff_t{1} << 60;

inline rapt_status check_causal(int causal, std::ptrdiff_t offset) {
  if (causal < RAPT_CAUSAL_NONE || causal > RAPT_CAUSAL_OFFSET) return RAPT_BAD_CAUSAL;
  if (causal != RAPT_CAUSAL_OFFSET && offset != 0) return RAPT_BAD_CAUSAL_OFFSET;
  if (offset > largest_causal_offset || offset < -largest_causal_offset) return RAPT_BAD_CAUSAL_OFFSET;
  return RAPT_OK;
}

}  // namespace rapt
