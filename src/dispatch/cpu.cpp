#include "dispatch/cpu.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace rapt {

#if defined(__x86_64__)

namespace {

// XCR0 names the registers that the operating system saves. The xgetbv intrinsic would need -mxsave, but this
// file must stay at the baseline.
std::uint64_t read_xcr0() {
  std::uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (std::uint64_t{high} << 32) | low;
}

}  // namespace

CpuFeatures detect_features() {
  CpuFeatures features;
  std::uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return features;

  const bool osxsave = (c >> 27) & 1;
  const std::uint64_t xcr0 = osxsave ? read_xcr0() : 0;
  const bool ymm_enabled = (xcr0 & 0x06) == 0x06;
  const bool zmm_enabled = (xcr0 & 0xe6) == 0xe6;
  const auto add_if = [&features](std::uint32_t reg, int bit, Feature feature, bool enabled = true) {
    if (!((reg >> bit) & 1)) return;
    features.reported.add(feature);
    if (enabled) features.usable.add(feature);
  };

  add_if(c, 0, Feature::sse3);
  add_if(c, 9, Feature::ssse3);
  add_if(c, 12, Feature::fma, ymm_enabled);
  add_if(c, 13, Feature::cx16);
  add_if(c, 19, Feature::sse4_1);
  add_if(c, 20, Feature::sse4_2);
  add_if(c, 22, Feature::movbe);
  add_if(c, 23, Feature::popcnt);
  add_if(c, 28, Feature::avx, ymm_enabled);
  add_if(c, 29, Feature::f16c, ymm_enabled);
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    add_if(b, 3, Feature::bmi1);
    add_if(b, 5, Feature::avx2, ymm_enabled);
    add_if(b, 8, Feature::bmi2);
    add_if(b, 16, Feature::avx512f, zmm_enabled);
    add_if(b, 17, Feature::avx512dq, zmm_enabled);
    add_if(b, 28, Feature::avx512cd, zmm_enabled);
    add_if(b, 30, Feature::avx512bw, zmm_enabled);
    add_if(b, 31, Feature::avx512vl, zmm_enabled);
  }
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) {
    add_if(c, 0, Feature::lahf);
    add_if(c, 5, Feature::lzcnt);
  }
  return features;
}

#elif defined(__aarch64__)

CpuFeatures detect_features() {
#if defined(__linux__)
  CpuFeatures features;
  if (getauxval(AT_HWCAP) & (1u << 1)) features.usable.add(Feature::asimd);  // HWCAP_ASIMD
  features.reported = features.usable;
  return features;
#else
  return {FeatureSet(Feature::asimd), FeatureSet(Feature::asimd)};  // every other ABI requires it
#endif
}

#else

CpuFeatures detect_features() { return {}; }

#endif

}  // namespace rapt
