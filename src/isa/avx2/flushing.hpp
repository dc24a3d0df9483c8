// Flushes subnormal numbers by the bits of MXCSR. Every x86 level uses this file.
#pragma once

#include <immintrin.h>

namespace {

// Flushes subnormal operands and results while an object exists. The constructor expects the default mode,
// and the destructor restores it.
class MxcsrFlushing {
 public:
  MxcsrFlushing() : before_(_mm_getcsr()) { _mm_setcsr((before_ | 0x8040) & ~0x10u); }
  ~MxcsrFlushing() { _mm_setcsr((_mm_getcsr() & 0x3f) | before_); }
  // Returns whether a result has been flushed since construction.
  bool has_flushed() const { return (_mm_getcsr() & 0x10) != 0; }

 private:
  unsigned before_;
};

}  // namespace
