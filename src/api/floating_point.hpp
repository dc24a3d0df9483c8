// Round to nearest, subnormals kept, exceptions masked, for the time of a call, whatever the caller has set.
#pragma once

#include <cstdint>

namespace rapt {

#if defined(__x86_64__)
using FloatingPointMode = std::uint32_t;
inline FloatingPointMode floating_point_mode() { return __builtin_ia32_stmxcsr(); }
inline void set_floating_point_mode(FloatingPointMode mode) {
  __asm__ volatile("ldmxcsr %0" : : "m"(mode) : "memory");
}
// Everything but the six sticky exception flags: rounding, FTZ, DAZ and the exception masks.
inline bool is_default(FloatingPointMode mode) { return (mode & ~FloatingPointMode{0x3f}) == 0x1f80; }
inline FloatingPointMode default_for(FloatingPointMode) { return 0x1f80; }
#elif defined(__aarch64__)
using FloatingPointMode = std::uint64_t;
// FIZ, AH, NEP (low bits), trap enables (8-15), FZ16, rounding mode, FZ and default-NaN.
constexpr FloatingPointMode mode_bits = 0x07c89f07;
inline FloatingPointMode floating_point_mode() {
  FloatingPointMode mode;
  __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void set_floating_point_mode(FloatingPointMode mode) {
  __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
}
inline bool is_default(FloatingPointMode mode) { return (mode & mode_bits) == 0; }
inline FloatingPointMode default_for(FloatingPointMode mode) { return mode & ~mode_bits; }
#else
using FloatingPointMode = int;
inline FloatingPointMode floating_point_mode() { return 0; }
inline void set_floating_point_mode(FloatingPointMode) {}
inline bool is_default(FloatingPointMode) { return true; }
inline FloatingPointMode default_for(FloatingPointMode mode) { return mode; }
#endif

// call() in the default mode. Writing the mode drains the pipeline, and is left to callers whose mode
// differs.
template <class Call>
[[gnu::always_inline]] inline auto in_default_mode(Call &&call) {
  const FloatingPointMode mode = floating_point_mode();
  if (is_default(mode)) [[likely]]
    return call();
  struct Restore {
    FloatingPointMode mode;
    ~Restore() { set_floating_point_mode(mode); }
  } restore{mode};
  set_floating_point_mode(default_for(mode));
  return call();
}

template <class Call, class... Arguments>
[[gnu::noinline, gnu::cold]] auto forward_in_other_mode(Arguments... arguments) {
  return in_default_mode([&] { return Call()(arguments...); });
}

// call(arguments...) in the default mode, for short calls: the arguments stay in their registers, and the
// usual case is a test and a jump. stmxcsr is microcode, and takes 0.5 ns.
//
// On AVX-512 arithmetic can show the flushes without flags or traps: a tiny double is converted to float and
// compared with 0. Operations with a rounding of their own ignore the rest of the mode. Tried for dot up to
// 16 and scale up to 64 elements, it gained little, and the test for the length cost longer calls as much:
//
//   ns per call | stmxcsr | arithmetic
//   dot of 16   | 2.6     | 2.4
//   dot of 64   | 3.1     | 3.4
//   scale of 16 | 2.9     | 2.5
//   scale of 64 | 3.4     | 4.3
template <class Call, class... Arguments>
[[gnu::always_inline]] inline auto forward_in_default_mode(Call call, Arguments... arguments) {
  if (is_default(floating_point_mode())) [[likely]]
    return call(arguments...);
  return forward_in_other_mode<Call>(arguments...);
}

}  // namespace rapt
