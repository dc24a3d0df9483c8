#include "dispatch/cpu.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace rapt {

#if defined(__x86_64__)

namespace {

// XCR0: which register state the operating system saves. Executed as bytes: the xgetbv intrinsic would need
// -mxsave on this file, which must stay at the baseline.
std::uint64_t read_xcr0() {
  std::uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

}  // namespace

FeatureSet detect_features() {
  FeatureSet features;
  const auto add_if = [&features](std::uint32_t reg, int bit, Feature feature) {
    if ((reg >> bit) & 1) features.add(feature);
  };

  std::uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return features;
  add_if(c, 0, Feature::sse3);
  add_if(c, 9, Feature::ssse3);
  add_if(c, 13, Feature::cx16);
  add_if(c, 19, Feature::sse4_1);
  add_if(c, 20, Feature::sse4_2);
  add_if(c, 22, Feature::movbe);
  add_if(c, 23, Feature::popcnt);

  const bool osxsave = (c >> 27) & 1;
  const std::uint64_t xcr0 = osxsave ? read_xcr0() : 0;
  const bool ymm_enabled = (xcr0 & 0x06) == 0x06;
  const bool zmm_enabled = (xcr0 & 0xe6) == 0xe6;
  if (ymm_enabled) {
    add_if(c, 12, Feature::fma);
    add_if(c, 28, Feature::avx);
    add_if(c, 29, Feature::f16c);
  }
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    add_if(b, 3, Feature::bmi1);
    add_if(b, 8, Feature::bmi2);
    if (ymm_enabled) add_if(b, 5, Feature::avx2);
    if (zmm_enabled) {
      add_if(b, 16, Feature::avx512f);
      add_if(b, 17, Feature::avx512dq);
      add_if(b, 28, Feature::avx512cd);
      add_if(b, 30, Feature::avx512bw);
      add_if(b, 31, Feature::avx512vl);
    }
  }
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) {
    add_if(c, 0, Feature::lahf);
    add_if(c, 5, Feature::lzcnt);
  }
  return features;
}

#elif defined(__aarch64__)

FeatureSet detect_features() {
#if defined(__linux__)
  FeatureSet features;
  if (getauxval(AT_HWCAP) & (1u << 1)) features.add(Feature::asimd);  // HWCAP_ASIMD
  return features;
#else
  return FeatureSet(Feature::asimd);  // the AArch64 ABI of every other system requires it
#endif
}

#else

FeatureSet detect_features() { return {}; }

#endif

}  // namespace rapt
