// Chooses the methods that are fastest on this CPU, as answers to the questions of machine/questions.hpp. That file has
// what was measured. zen4 also gets avx2's kernels instead of avx512's for dot, dot_rows and scale of f16: to widen 16
// elements of f16, Zen 4 takes 2.7 cycles with one zmm register, and 1 cycle with two ymm registers. Intel's CPUs take
// the same time for both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace rapt {

enum class Tuning : std::uint8_t { general, zen4, zen5 };
inline constexpr std::string_view tuning_names[] = {"general", "zen4", "zen5"};

// `wanted` is the value of RAPT_TUNING, or null. An unknown name changes nothing.
constexpr Tuning choose_tuning(Tuning of_cpu, const char *wanted) {
  for (std::size_t i = 0; wanted != nullptr && i < std::size(tuning_names); ++i) {
    if (wanted == tuning_names[i]) return static_cast<Tuning>(i);
  }
  return of_cpu;
}

}  // namespace rapt
