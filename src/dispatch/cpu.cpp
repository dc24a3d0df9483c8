#include "dispatch/cpu.hpp"

#if defined(__x86_64__)
#include <cpuid.h>

#include "dispatch/x86_features.hpp"
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace rapt {

#if defined(__x86_64__)

namespace {

#if defined(__linux__)

enum ArchPrctl : long { get_supported_components = 0x1021, request_component = 0x1023 };
constexpr long tile_data = 18;
constexpr std::uint64_t tile_components = 0x60000;  // tile configuration and tile data, the bits of XCR0

template <class Argument>
bool ask_linux(ArchPrctl what, Argument argument) {
  const int error = errno;
  const bool granted = syscall(SYS_arch_prctl, long{what}, argument) == 0;
  errno = error;
  return granted;
}

#endif

struct ThisMachine {
  static CpuidLeaf cpuid(std::uint32_t leaf, std::uint32_t subleaf) {
    CpuidLeaf words;
    __cpuid_count(leaf, subleaf, words.a, words.b, words.c, words.d);
    return words;
  }

  // The xgetbv intrinsic is not used, because it needs -mxsave: this file must be compiled for the baseline.
  static std::uint64_t xcr0() {
    std::uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (std::uint64_t{high} << 32) | low;
  }

  // Linux answers with the components of XCR0 that it manages. For other systems the answer is no, because
  // asking them was never tested.
  static bool offers_tiles() {
#if defined(__linux__)
    std::uint64_t components = 0;
    return ask_linux(get_supported_components, &components) &&
           (components & tile_components) == tile_components;
#else
    return false;
#endif
  }
};

}  // namespace

CpuFeatures detect_features() { return features_of(ThisMachine()); }

bool request_tiles() {
#if defined(__linux__)
  return ask_linux(request_component, tile_data);
#else
  return false;
#endif
}

#else

bool request_tiles() { return false; }

#if defined(__aarch64__)

#if defined(__APPLE__)
namespace {

// Systems older than a feature do not know its name, so a missing name means no.
bool is_optional_feature(const char *sysctl) {
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname(sysctl, &value, &size, nullptr, 0) == 0 && value != 0;
}

}  // namespace
#endif

CpuFeatures detect_features() {
  CpuFeatures features;
#if defined(__linux__)
  const unsigned long hwcap = getauxval(AT_HWCAP), hwcap2 = getauxval(AT_HWCAP2);
#define ARM64_FEATURE(feature, name, macro, word, bit, sysctl) \
  if ((word >> bit) & 1) features.usable.add(Feature::feature);
#include "dispatch/features.def"
#elif defined(__APPLE__)
#define ARM64_FEATURE(feature, name, macro, word, bit, sysctl) \
  if (is_optional_feature(sysctl)) features.usable.add(Feature::feature);
#include "dispatch/features.def"
#else
  features.usable.add(Feature::asimd);  // every other system's ABI requires it
#endif
  features.reported = features.usable;
  return features;
}

#else

CpuFeatures detect_features() { return {}; }

#endif
#endif

}  // namespace rapt
