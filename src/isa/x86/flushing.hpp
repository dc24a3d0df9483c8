// Flushes subnormal numbers by FTZ and DAZ in MXCSR. Every x86 level uses this file.
#pragma once

#include <immintrin.h>

namespace {

// An object flushes subnormal operands and results during its lifetime. The constructor expects the default
// mode, and the destructor restores it.
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
