// Some CPUs are fastest with other methods than most CPUs. All methods compute the same bits, so any tuning
// is right on any CPU.
//
//   what                             | general                         | zen4
//   rows of dot_rows past L1         | four at a time                  | one after the other
//   rows of dot_rows in large arrays | four far apart at a time        | one after the other
//   keys and values of large caches  | lines to L1                     | lines to L2 first, far ahead
//   dot, dot_rows and scale of f16   | the level's                     | avx2's in place of avx512's
//
// dot_rows: Sapphire Rapids reads memory at 13 GB/s in one stream and at 19 in four, on different pages. Zen 4
// reads 30 GB/s in one stream and 11 in four. f16: Zen 4 widens 16 elements in 2.7 cycles for one zmm register, and
// in 1 for two ymm registers; Intel's CPUs take as long for both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace rapt {

enum class Tuning : std::uint8_t { general, zen4 };
inline constexpr std::string_view tuning_names[] = {"general", "zen4"};

// `wanted` is the value of RAPT_TUNING, or null. An unknown name changes nothing.
constexpr Tuning choose_tuning(Tuning of_cpu, const char *wanted) {
  for (std::size_t i = 0; wanted != nullptr && i < std::size(tuning_names); ++i) {
    if (wanted == tuning_names[i]) return static_cast<Tuning>(i);
  }
  return of_cpu;
}

}  // namespace rapt

// Kernels call these functions. They have C names, which a level's own namespaces do not change.
extern "C" {
bool rapt_reads_rows_one_by_one();
bool rapt_fetches_far_ahead();
}
