// Round to nearest, subnormals kept, exceptions masked, for the time of a call, whatever the caller has set.
#pragma once

#include <cstdint>

namespace rapt {

// Reading the mode and comparing costs about a nanosecond and is off the data's critical path; writing it,
// which drains the pipeline, is left to callers whose mode differs.
class DefaultFloatingPoint {
 public:
#if defined(__x86_64__)
  DefaultFloatingPoint() {
    __asm__ volatile("stmxcsr %0" : "=m"(saved_));
    // Everything but the six sticky exception flags: rounding, FTZ, DAZ and the exception masks.
    changed_ = (saved_ & ~std::uint32_t{0x3f}) != default_mode;
    if (changed_) [[unlikely]]
      set(default_mode);
  }
  ~DefaultFloatingPoint() {
    if (changed_) [[unlikely]]
      set(saved_);
  }

 private:
  static constexpr std::uint32_t default_mode = 0x1f80;
  static void set(std::uint32_t mode) { __asm__ volatile("ldmxcsr %0" : : "m"(mode) : "memory"); }
  std::uint32_t saved_ = 0;  // for tools that do not see what an assembly statement writes
#elif defined(__aarch64__)
  DefaultFloatingPoint() {
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved_));
    changed_ = (saved_ & mode_bits) != 0;
    if (changed_) [[unlikely]]
      set(saved_ & ~mode_bits);
  }
  ~DefaultFloatingPoint() {
    if (changed_) [[unlikely]]
      set(saved_);
  }

 private:
  // FIZ, AH, NEP (low bits), trap enables (8-15), FZ16, rounding mode, FZ and default-NaN.
  static constexpr std::uint64_t mode_bits = 0x07c89f07;
  static void set(std::uint64_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory"); }
  std::uint64_t saved_ = 0;
#else
  DefaultFloatingPoint() = default;

 private:
#endif
  DefaultFloatingPoint(const DefaultFloatingPoint &) = delete;
  DefaultFloatingPoint &operator=(const DefaultFloatingPoint &) = delete;
  bool changed_ = false;
};

}  // namespace rapt
