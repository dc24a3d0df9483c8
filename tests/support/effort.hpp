// Chooses how much to test. An emulator runs vector code about 60 times slower than a CPU.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace rapt::test {

// Names the element type, because a bare list of integers would become a list of int.
using Sizes = std::initializer_list<std::size_t>;

// RAPT_TEST_EMULATED is "1" under an emulator, and "sanitizer" if a sanitizer slows the tests down. If the
// variable is not set, a program may detect the emulator itself.
namespace detail {
inline const char *assumed = "";
inline std::string_view emulated_by() {
  const char *value = std::getenv("RAPT_TEST_EMULATED");
  return value ? value : assumed;
}
}  // namespace detail

inline void assume_emulator() { detail::assumed = "1"; }
inline bool emulated() { return detail::emulated_by() != "0" && !detail::emulated_by().empty(); }
// Returns whether a test tries all that it has, which takes a tenth of a minute or more and is left to tests/run --ci.
inline bool everything() { return std::getenv("RAPT_TEST_EVERYTHING") != nullptr; }
inline bool on_real_cpu() { return !emulated() || detail::emulated_by() == "sanitizer"; }

template <class T>
T native_or_emulated(T native, T fewer) {
  return emulated() ? fewer : native;
}

// Returns every length up to several iterations of an unrolled loop, and longer lengths near block ends.
inline std::vector<std::size_t> test_lengths() {
  std::vector<std::size_t> lengths;
  const std::size_t dense = native_or_emulated<std::size_t>(300, 36);
  for (std::size_t n = 0; n <= dense; ++n) lengths.push_back(n);
  if (emulated()) {
    for (std::size_t n :
         Sizes{63, 64, 65, 71, 127, 128, 129, 191, 257, 300, 1025, 2047, 2048, 2049, 2085, 4111}) {
      lengths.push_back(n);
    }
  } else {
    for (std::size_t n : Sizes{511,  512,  513,  1023, 1024, 1025, 2047, 2048, 2049, 2079, 2080,
                               2081, 2111, 2112, 4095, 4096, 4097, 4129, 6143, 6144, 6145, 6200}) {
      lengths.push_back(n);
    }
  }
  return lengths;
}

}  // namespace rapt::test
