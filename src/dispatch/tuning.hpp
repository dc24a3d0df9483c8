// Chooses the methods that are fastest on this CPU. All methods compute the same bits, so any tuning gives
// correct results on any CPU.
//
//   what                             | general                         | zen4
//   rows of dot_rows that exceed L1  | four at a time                  | one after the other
//   rows of dot_rows in large arrays | four far apart at a time        | one after the other
//   keys and values of large caches  | prefetched to L1                | prefetched far ahead, to L2 first
//   f32 of one row, AVX2             | in order, prefetched to L2      | a page of four groups in turn
//   BF16 and I8 of one row, AVX-512  | in order, prefetched to L2      | 8 KiB of two blocks in turn
//   2 to 4 rows of a layer, AVX-512  | each line prefetched to L2      | one line of four
//   dot, dot_rows and scale of f16   | kernels of the level            | avx2's kernels instead of avx512's
//
// Sapphire Rapids reads memory at 13 GB/s in one stream, and at 19 GB/s in four streams on different pages.
// Zen 4 reads 30 GB/s in one stream, and 11 GB/s in four. To widen 16 elements of f16, Zen 4 takes 2.7 cycles
// with one zmm register, and 1 cycle with two ymm registers. Intel's CPUs take the same time for both.
//
// With one row of f32 on AVX2, a Zen 3 takes .69 (L2), .73 (L3) and .72 (memory) of the time in order. With codes
// of i8 on AVX-512 VNNI, a Zen 4 takes 1 (L2), .85 (L3) and .8 (memory), and with bf16 .9, .85 and .8. There, one
// stream reads memory at 26 GB/s, at 22 with prefetches to L2 in the program, and two in turn read at 29. With one
// line of four, layers of f32 with 2, 3 and 4 rows take .72, .9 and .85 of the time.
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
bool rapt_prefers_its_prefetcher();
}
