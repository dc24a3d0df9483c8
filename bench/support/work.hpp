// What one call of a kernel has to do, whatever code does it.
#pragma once

#include <cstddef>

namespace rapt::bench {

struct Work {
  std::size_t elements = 0;
  std::size_t element_bytes = 0;
  std::size_t read = 0;  // bytes: each input once, each output once
  std::size_t written = 0;
  std::size_t row_bytes = 0;  // of an input and an output row, where a row is gone through twice; else 0
  bool in_place = false;      // the output is the input
  std::size_t calls = 1;      // of the kernel in one of the benchmark, all on the same memory

  std::size_t bytes() const { return read + written; }
  // The memory that the call goes through.
  std::size_t footprint() const { return (in_place ? read : bytes()) / calls; }
};

}  // namespace rapt::bench
