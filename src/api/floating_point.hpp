// Round to nearest, subnormals kept, exceptions masked, for the time of a call, whatever the caller has set.
#pragma once

#include <cfenv>
#include <cstdint>

namespace rapt {

// What a thread does with rounding, subnormals and exceptions, by C's functions. An environment does not tell
// what of it a processor adds to C's, such as a flush of subnormals, so that each call sets the default one.
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
// MXCSR.
struct FloatingPointMode {
  std::uint32_t value;

  static FloatingPointMode current() { return {__builtin_ia32_stmxcsr()}; }
  // Everything but the six sticky exception flags: rounding, FTZ, DAZ and the exception masks.
  bool is_default() const { return (value & ~std::uint32_t{0x3f}) == 0x1f80; }
  void set_default() const { FloatingPointMode{0x1f80}.restore(); }
  void restore() const { __asm__ volatile("ldmxcsr %0" : : "m"(value) : "memory"); }
};
#elif defined(__aarch64__)
// FPCR.
struct FloatingPointMode {
  std::uint64_t value;
  // FIZ, AH, NEP (low bits), trap enables (8-15), FZ16, rounding mode, FZ and default-NaN.
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

// call() in the default mode. Writing the mode drains the pipeline, and is left to callers whose mode
// differs.
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
  if (FloatingPointMode::current().is_default()) [[likely]]
    return call(arguments...);
  return forward_in_other_mode<Call>(arguments...);
}

}  // namespace rapt
