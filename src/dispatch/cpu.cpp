#include "dispatch/cpu.hpp"

#if defined(__x86_64__)
#include <cpuid.h>

#include "dispatch/requirements.hpp"
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
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

// Whether the operating system saves the registers of AMX tiles. Linux does for a process that has asked for
// permission, as they take 8 KB per thread; it grants none where XCR0 lacks them. Nothing is asked for levels
// that are not compiled.
bool tiles_permitted([[maybe_unused]] std::uint64_t xcr0) {
#if defined(__linux__)
  bool needed = false;
  for (const LevelNeeds &level : level_needs) needed |= level.needs.contains(Feature::amx_tile);
  if (!needed) return true;
  constexpr long arch_req_xcomp_perm = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, arch_req_xcomp_perm, tile_data) == 0;
#else
  return (xcr0 & 0x60000) == 0x60000;
#endif
}

// The words of a leaf of CPUID; zeros if the CPU has no such leaf.
struct Leaf {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;

  explicit Leaf(std::uint32_t leaf, std::uint32_t subleaf = 0) {
    if (!__get_cpuid_count(leaf, subleaf, &a, &b, &c, &d)) a = b = c = d = 0;
  }
};

}  // namespace

CpuFeatures detect_features() {
  const Leaf leaf_1(1), leaf_7(7), leaf_7_1(leaf_7.a >= 1 ? 7 : ~0u, 1), extended_1(0x80000001);
  const bool osxsave = (leaf_1.c >> 27) & 1;
  const std::uint64_t xcr0 = osxsave ? read_xcr0() : 0;
  constexpr bool none = true;
  const bool ymm = (xcr0 & 0x06) == 0x06;
  const bool zmm = (xcr0 & 0xe6) == 0xe6;
  const bool has_tiles = osxsave && ((leaf_7.d >> 24) & 1);
  const bool tiles = has_tiles && tiles_permitted(xcr0);
  CpuFeatures features;
#define X86_FEATURE(feature, name, macro, word, bit, state) \
  if ((word >> bit) & 1) {                                  \
    features.reported.add(Feature::feature);                \
    if (state) features.usable.add(Feature::feature);       \
  }
#include "dispatch/features.def"
  if (has_tiles && !tiles) {
    const FeatureSet of_tiles(Feature::amx_tile, Feature::amx_bf16, Feature::amx_int8);
    features.refused = of_tiles.without(of_tiles.without(features.reported));
  }
  return features;
}

#elif defined(__aarch64__)

#if defined(__APPLE__)
namespace {

// Systems older than a feature do not know its name.
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
  features.usable.add(Feature::asimd);  // every other ABI requires it
#endif
  features.reported = features.usable;
  return features;
}

#else

CpuFeatures detect_features() { return {}; }

#endif

}  // namespace rapt
