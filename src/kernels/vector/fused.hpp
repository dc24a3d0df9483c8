// A fused multiply-add of numbers. libm's is a call where the baseline lacks the instruction; a level's code
// has it.
#pragma once

namespace {

inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

}  // namespace
