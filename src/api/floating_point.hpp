// Runs a call in the default floating-point mode: round to nearest, subnormals kept and exceptions masked.
// Restores the caller's mode after the call.
#pragma once

#include <cfenv>
#include <cstdint>

namespace rapt {

// Sets the mode by C's functions. They do not report the modes that only some processors have, such as a
// flush of subnormals. So is_default() is always false, and each call sets the default mode.
struct Environment {
  std::fenv_t value;

  static Environment current() {
    Environment now;
    std::fegetenv(&now.value);
    return now;
  }
  bool is_default() const { return false; }
  void set_default() const { std::fesetenv(FE_DFL_ENV); }
  void restore() const { std::fesetenv(&value); }
};

#if defined(__x86_64__)
// x86 keeps the mode in MXCSR.
struct FloatingPointMode {
  std::uint32_t value;

  static FloatingPointMode current() { return {__builtin_ia32_stmxcsr()}; }
  // Returns whether rounding, FTZ, DAZ and exception masks are the default. The six sticky exception flags do
  // not matter.
  bool is_default() const { return (value & ~std::uint32_t{0x3f}) == 0x1f80; }
  void set_default() const { FloatingPointMode{0x1f80}.restore(); }
  void restore() const { __asm__ volatile("ldmxcsr %0" : : "m"(value) : "memory"); }
};
#elif defined(__aarch64__)
// AArch64 keeps the mode in FPCR.
struct FloatingPointMode {
  std::uint64_t value;
  // These bits matter: FIZ, AH, NEP (low bits), trap enables (8-15), FZ16, rounding mode, FZ and default-NaN.
  static constexpr std::uint64_t bits = 0x07c89f07;

  static FloatingPointMode current() {
    FloatingPointMode now;
    __asm__ volatile("mrs %0, fpcr" : "=r"(now.value));
    return now;
  }
  bool is_default() const { return (value & bits) == 0; }
  void set_default() const { FloatingPointMode{value & ~bits}.restore(); }
  void restore() const { __asm__ volatile("msr fpcr, %0" : : "r"(value) : "memory"); }
};
#else
using FloatingPointMode = Environment;
#endif

// Runs call() in the default mode. Writing the mode drains the pipeline, so it is written only if the caller
// has another mode.
template <class Mode = FloatingPointMode, class Call>
[[gnu::always_inline]] inline auto in_default_mode(Call &&call) {
  const Mode mode = Mode::current();
  if (mode.is_default()) [[likely]]
    return call();
  struct Restore {
    const Mode &mode;
    ~Restore() { mode.restore(); }
  } restore{mode};
  mode.set_default();
  return call();
}

template <class Call, class... Arguments>
[[gnu::noinline, gnu::cold]] auto forward_in_other_mode(Arguments... arguments) {
  return in_default_mode([&] { return Call()(arguments...); });
}

// Runs call(arguments...) in the default mode, for short calls. The arguments stay in their registers, and
// the usual case is a test and a jump. The test reads MXCSR with stmxcsr, a microcoded instruction. stmxcsr
// takes 0.5 ns on Intel's CPUs. On Zen 4 it takes 4 ns, half of a short call. No arithmetic can replace
// stmxcsr: unmasked exceptions would stop the kernels, and arithmetic cannot detect that the caller has
// unmasked them.
//
// On AVX-512, arithmetic can detect FTZ and DAZ without flags or traps: convert a tiny double to float, and
// compare it with 0. Instructions with embedded rounding ignore the rest of the mode. This detection was
// tried for dot of up to 16 and scale of up to 64 elements. It gained little. The test of the length made
// longer calls slower by as much:
//
//   ns per call | stmxcsr | arithmetic
//   dot of 16   | 2.6     | 2.4
//   dot of 64   | 3.1     | 3.4
//   scale of 16 | 2.9     | 2.5
//   scale of 64 | 3.4     | 4.3
template <class Call, class... Arguments>
[[gnu::always_inline]] inline auto forward_in_default_mode(Call call, Arguments... arguments) {
  if (FloatingPointMode::current().is_default()) [[likely]]
    return call(arguments...);
  return forward_in_other_mode<Call>(arguments...);
}

}  // namespace rapt
