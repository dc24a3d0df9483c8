// Reads and writes the calling thread's floating-point control register: MXCSR on x86, FPCR on AArch64.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace rapt::test {

struct FpState {
  std::uint64_t control = 0;
  std::string name;
  bool operator==(const FpState &other) const { return control == other.control; }
};

#if defined(__x86_64__)

inline std::uint64_t read_fp_control() { return _mm_getcsr() & 0xffc0u; }  // without the sticky flags
inline void write_fp_control(std::uint64_t control) {
  _mm_setcsr((_mm_getcsr() & ~0xffc0u) | static_cast<std::uint32_t>(control));
}

namespace detail {
inline constexpr std::uint64_t flush_outputs = 1u << 15, flush_inputs = 1u << 6;
inline constexpr std::uint64_t up = 2u << 13, down = 1u << 13, to_zero = 3u << 13;
inline constexpr const char *flush_names[] = {"", "FTZ ", "DAZ ", "FTZ+DAZ "};
}  // namespace detail

#elif defined(__aarch64__)

inline std::uint64_t read_fp_control() {
  std::uint64_t control;
  __asm__ volatile("mrs %0, fpcr" : "=r"(control));
  return control;
}
inline void write_fp_control(std::uint64_t control) {
  __asm__ volatile("msr fpcr, %0\n\tisb" : : "r"(control) : "memory");
}

namespace detail {
// FZ, bit 24, flushes both inputs and outputs. Bit 25 is DN, which makes every NaN the default NaN.
inline constexpr std::uint64_t flush_outputs = 1u << 24, flush_inputs = 1u << 25;
inline constexpr std::uint64_t up = 1u << 22, down = 2u << 22, to_zero = 3u << 22;
inline constexpr const char *flush_names[] = {"", "FZ ", "DN ", "FZ+DN "};
}  // namespace detail

#else

inline std::uint64_t read_fp_control() { return 0; }
inline void write_fp_control(std::uint64_t) {}

#endif

// Returns a control word that makes subnormal operands trap, if the processor supports it.
inline std::uint64_t trapping_fp_control() {
#if defined(__x86_64__)
  return read_fp_control() & ~std::uint64_t{1u << 8};
#elif defined(__aarch64__)
  return read_fp_control() | 1u << 15;
#else
  return read_fp_control();
#endif
}

// Returns control words for every combination of flushing and rounding except the default.
inline std::vector<FpState> foreign_fp_states() {
  std::vector<FpState> states;
#if defined(__x86_64__) || defined(__aarch64__)
  const std::uint64_t base = read_fp_control();
  const std::uint64_t flush[] = {0, detail::flush_outputs, detail::flush_inputs,
                                 detail::flush_outputs | detail::flush_inputs};
  const std::uint64_t rounding[] = {0, detail::up, detail::down, detail::to_zero};
  const char *const rounding_names[] = {"nearest", "up", "down", "to zero"};
  for (int f = 0; f < 4; ++f) {
    for (int r = 0; r < 4; ++r) {
      if (f == 0 && r == 0) continue;
      states.push_back(
          {base | flush[f] | rounding[r], std::string(detail::flush_names[f]) + rounding_names[r]});
    }
  }
#endif
  return states;
}

}  // namespace rapt::test
