// Tests which level the library chooses for a CPU, given the words that CPUID returns there. The tests don't
// need the CPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "dispatch/decision.hpp"
#include "dispatch/x86_features.hpp"
#include "rapt/rapt.h"

namespace rapt {
namespace {

// These are values of XCR0: x87 and SSE, then with AVX, with AVX-512, and with AMX.
constexpr std::uint64_t sse = 0x3, ymm = 0x7, zmm = 0xe7, tiles = 0x600e7;

// Describes a CPU and its operating system by the registers of cpuid and by XCR0. The values are those that
// tools print on such machines.
struct Cpu {
  const char *name;
  std::uint32_t last_leaf;
  std::uint32_t leaf_1_c;
  CpuidLeaf leaf_7;
  std::uint32_t leaf_7_1_a;
  std::uint32_t extended_1_c;
  std::uint64_t xcr0_bits;
  bool system_offers_tiles = false;
  CpuidLeaf palettes = {}, palette_1 = {};
  std::uint32_t last_extended_leaf = 0x80000008;

  mutable bool asked_xcr0 = false, asked_for_tiles = false;

  CpuidLeaf cpuid(std::uint32_t leaf, std::uint32_t subleaf) const {
    switch (leaf) {
      case 0:
        return {last_leaf, 0, 0, 0};
      case 0x80000000:
        return {last_extended_leaf, 0, 0, 0};
      case 1:
        return {0, 0, leaf_1_c, 0};
      case 7:
        if (last_leaf < 7) break;
        return subleaf == 0 ? leaf_7 : subleaf == 1 ? CpuidLeaf{leaf_7_1_a, 0, 0, 0} : CpuidLeaf{};
      case 0x1d:
        if (last_leaf < 0x1d) break;
        return subleaf == 0 ? palettes : subleaf == 1 ? palette_1 : CpuidLeaf{};
      case 0x80000001:
        if (last_extended_leaf < leaf) break;
        return {0, 0, extended_1_c, 0};
    }
    return {~0u, ~0u, ~0u, ~0u};  // another leaf's words, as Intel's CPUs answer beyond the last one
  }
  std::uint64_t xcr0() const {
    asked_xcr0 = true;
    return xcr0_bits;
  }
  bool offers_tiles() const {
    asked_for_tiles = true;
    return system_offers_tiles;
  }
};

constexpr CpuidLeaf one_palette = {1, 0, 0, 0}, of_palette_1 = {0x04002000, 0x00080040, 0x10, 0};

const Cpu sapphire_rapids = {"Sapphire Rapids",
                             0x20,
                             0x7ffefbff,
                             {2, 0xf3bfb7ef, 0xfb417ffe, 0xffdd4432},
                             0x1c30,
                             0x121,
                             tiles,
                             true,
                             one_palette,
                             of_palette_1};
const Cpu haswell = {"Haswell", 0xd, 0x7ffafbff, {0, 0x27ab, 0, 0}, 0, 0x21, ymm};
const Cpu skylake_x = {"Skylake-X", 0x16, 0x7ffefbbf, {0, 0xd39ffffb, 0, 0x9c002400}, 0, 0x121, zmm};
const Cpu alder_lake = {"Alder Lake", 0x20,  0x7ffafbff, {1, 0x239ca7eb, 0x98c027ac, 0xfc1cc410},
                        0x400810,     0x121, ymm};

Cpu changed(Cpu cpu, const char *name, void (*change)(Cpu &)) {
  cpu.name = name;
  change(cpu);
  return cpu;
}

// Holds the best level for a CPU in a build that has all levels, and the other usable levels.
struct Expected {
  Cpu cpu;
  std::string best;
  std::vector<std::string> others;
};

const std::vector<std::string> up_to_avx2 = {"scalar", "avx2"}, up_to_avx512 = {"scalar", "avx2", "avx512"},
                               all_but_amx = {"scalar", "avx2", "avx2_vnni", "avx512", "avx512_vnni"};

const std::vector<Expected> expectations = {
    {{"Nehalem", 0xb, 0x0098e3bd, {}, 0, 0x1, sse}, "scalar", {}},
    {{"Sandy Bridge", 0xd, 0x1fbae3ff, {}, 0, 0x1, ymm}, "scalar", {}},
    {{"Piledriver, with FMA and without AVX2", 0xd, 0x3e98320b, {0, 0x8, 0, 0}, 0, 0x01ebbfff, ymm},
     "scalar",
     {}},
    {{"Bobcat", 6, 0x00802209, {}, 0, 0x35ff, 0}, "scalar", {}},
    {haswell, "avx2", {"scalar"}},
    {{"Zen", 0xd, 0x7ed8320b, {0, 0x209c01a9, 0, 0}, 0, 0x35c233ff, ymm}, "avx2", {"scalar"}},
    {alder_lake, "avx2_vnni", up_to_avx2},
    {skylake_x, "avx512", up_to_avx2},
    {{"Ice Lake", 0x1b, 0x7ffafbbf, {0, 0xf2bf27ef, 0x40405f4e, 0xbc000410}, 0, 0x121, zmm},
     "avx512_vnni",
     up_to_avx512},
    {{"Zen 4", 0x10, 0x7ef8320b, {1, 0xf1bf97a9, 0x00405fce, 0x10000010}, 0x20, 0x75c237ff, zmm},
     "avx512_vnni",
     up_to_avx512},
    {{"Zen 5", 0x10, 0x7ed8320b, {1, 0xf1bf97ab, 0x19405fce, 0x10000110}, 0x30, 0x75c237ff, zmm},
     "avx512_vnni",
     {"scalar", "avx2", "avx2_vnni", "avx512"}},
    {sapphire_rapids, "amx", all_but_amx},
    {{"Granite Rapids",
      0x20,
      0x7ffefbff,
      {2, 0xf3bfbfff, 0xfb417ffe, 0xffdd4432},
      0x40601d30,
      0x121,
      0x602e7,
      true,
      one_palette,
      of_palette_1},
     "amx",
     all_but_amx},
    {{"Knights Landing: AVX-512 F, PF, ER and CD", 0xd, 0x7ff8f3bf, {0, 0x1c0d23ab, 1, 0}, 0, 0x121, zmm},
     "avx2",
     {"scalar"}},

    // These operating systems and hypervisors offer less than the CPU has.
    {changed(haswell, "Haswell, without XSAVE", [](Cpu &c) { c.leaf_1_c &= ~(1u << 27); }), "scalar", {}},
    {changed(haswell, "Haswell, XCR0 without AVX", [](Cpu &c) { c.xcr0_bits = sse; }), "scalar", {}},
    {changed(haswell, "Haswell, without FMA", [](Cpu &c) { c.leaf_1_c &= ~(1u << 12); }), "scalar", {}},
    {changed(haswell, "Haswell, without BMI2", [](Cpu &c) { c.leaf_7.b &= ~(1u << 8); }), "scalar", {}},
    {changed(haswell, "Haswell, without extended leaves", [](Cpu &c) { c.last_extended_leaf = 0; }),
     "scalar",
     {}},
    {changed(haswell, "Haswell, CPUID limited to leaf 3", [](Cpu &c) { c.last_leaf = 3; }), "scalar", {}},
    {changed(skylake_x, "Skylake-X, XCR0 with AVX and not ZMM", [](Cpu &c) { c.xcr0_bits = ymm; }),
     "avx2",
     {"scalar"}},
    {changed(skylake_x, "Skylake-X, XCR0 without the upper 16 ZMM", [](Cpu &c) { c.xcr0_bits = 0x67; }),
     "avx2",
     {"scalar"}},
    {changed(skylake_x, "Skylake-X, XCR0 without masks", [](Cpu &c) { c.xcr0_bits = 0xc7; }),
     "avx2",
     {"scalar"}},
    {changed(skylake_x, "Skylake-X, XCR0 with ZMM and not YMM", [](Cpu &c) { c.xcr0_bits = 0xe3; }),
     "scalar",
     {}},
    {changed(alder_lake, "Alder Lake, leaf 7 without subleaf 1", [](Cpu &c) { c.leaf_7.a = 0; }),
     "avx2",
     {"scalar"}},
    {changed(sapphire_rapids, "Sapphire Rapids, XCR0 with AVX and not ZMM",
             [](Cpu &c) { c.xcr0_bits = ymm; }),
     "avx2_vnni", up_to_avx2},
    {changed(sapphire_rapids, "Sapphire Rapids, Linux offers no tiles",
             [](Cpu &c) { c.system_offers_tiles = false; }),
     "avx512_vnni", all_but_amx},
    {changed(sapphire_rapids, "Sapphire Rapids, no leaf 0x1d", [](Cpu &c) { c.last_leaf = 0x1c; }),
     "avx512_vnni", all_but_amx},
    {changed(sapphire_rapids, "Sapphire Rapids, leaf 0x1d of zeros",
             [](Cpu &c) { c.palettes = c.palette_1 = {}; }),
     "avx512_vnni", all_but_amx},
    {changed(sapphire_rapids, "Sapphire Rapids, no palette 1", [](Cpu &c) { c.palettes.a = 0; }),
     "avx512_vnni", all_but_amx},
    {changed(sapphire_rapids, "Sapphire Rapids, four tiles", [](Cpu &c) { c.palette_1.b = 0x00040040; }),
     "avx512_vnni", all_but_amx},
    {changed(sapphire_rapids, "Sapphire Rapids, tiles of 8 rows", [](Cpu &c) { c.palette_1.c = 8; }),
     "avx512_vnni", all_but_amx},
    {changed(sapphire_rapids, "Sapphire Rapids, tiles of 512 bytes",
             [](Cpu &c) { c.palette_1.a = 0x02001000; }),
     "avx512_vnni", all_but_amx},
    {changed(sapphire_rapids, "Sapphire Rapids, AMX without bf16", [](Cpu &c) { c.leaf_7.d &= ~(1u << 22); }),
     "avx512_vnni", all_but_amx},
    {changed(sapphire_rapids, "Sapphire Rapids, AMX without int8", [](Cpu &c) { c.leaf_7.d &= ~(1u << 25); }),
     "avx512_vnni", all_but_amx},
};

TEST_CASE("the levels of known CPUs") {
  if (find_level("neon") != no_level) return;  // these are the levels of x86
  for (const Expected &expected : expectations) {
    CAPTURE(expected.cpu.name);
    const Decision decision = decide(features_of(expected.cpu).usable, nullptr);
    std::vector<std::string> of_cpu = expected.others;
    of_cpu.push_back(expected.best);
    std::vector<std::string> found, wanted;
    for (std::size_t i = 0; i < all_levels; ++i) {
      const std::string name = level_needs[i].name;
      if (decision.is_usable(i)) found.push_back(name);
      if (std::find(of_cpu.begin(), of_cpu.end(), name) != of_cpu.end()) wanted.push_back(name);
    }
    CHECK(found == wanted);
    if (find_level(expected.best) != no_level) {
      CHECK(level_needs[decision.chosen].name == expected.best);
      CHECK(decision.best() == decision.chosen);
    }
  }
}

TEST_CASE("the tuning of known CPUs") {
  const CpuidLeaf amd = {0x10, 0x68747541, 0x444d4163, 0x69746e65},
                  intel = {0x20, 0x756e6547, 0x6c65746e, 0x49656e69};
  const auto family = [](std::uint32_t words) { return CpuidLeaf{words, 0, 0, 0}; };
  CHECK(tuning_of(amd, family(0x00a10f11)) == Tuning::zen4);
  CHECK(tuning_of(amd, family(0x00b40f40)) == Tuning::zen5);
  CHECK(tuning_of(amd, family(0x00800f82)) == Tuning::general);    // Zen
  CHECK(tuning_of(intel, family(0x000806f8)) == Tuning::general);  // Sapphire Rapids
  CHECK(tuning_of(intel, family(0x00a10f11)) == Tuning::general);
  CHECK(tuning_of(intel, family(0x00b40f40)) == Tuning::general);
  for (const Tuning of_cpu : {Tuning::general, Tuning::zen4, Tuning::zen5}) {
    CHECK(choose_tuning(of_cpu, nullptr) == of_cpu);
    CHECK(choose_tuning(of_cpu, "") == of_cpu);
    CHECK(choose_tuning(of_cpu, "Zen4") == of_cpu);
    CHECK(choose_tuning(of_cpu, "zen4") == Tuning::zen4);
    CHECK(choose_tuning(of_cpu, "zen5") == Tuning::zen5);
    CHECK(choose_tuning(of_cpu, "general") == Tuning::general);
  }
}

TEST_CASE("what is asked of the machine") {
  for (const Expected &expected : expectations) {
    const Cpu &cpu = expected.cpu;
    CAPTURE(cpu.name);
    cpu.asked_xcr0 = cpu.asked_for_tiles = false;
    features_of(cpu);
    const bool osxsave = (cpu.leaf_1_c >> 27) & 1, amx = cpu.last_leaf >= 7 && ((cpu.leaf_7.d >> 24) & 1);
    CHECK(cpu.asked_xcr0 == osxsave);  // without OSXSAVE, xgetbv is illegal
    if (!amx) CHECK(!cpu.asked_for_tiles);
  }
}

// A feature that the CPU reports is usable only if the operating system saves its registers. rapt-validate
// shows the difference.
TEST_CASE("features that the operating system does not enable") {
  Cpu cpu = sapphire_rapids;
  cpu.xcr0_bits = ymm;
  cpu.system_offers_tiles = false;
  const CpuFeatures features = features_of(cpu);
  for (const Feature feature :
       {Feature::avx512f, Feature::avx512vnni, Feature::amx_tile, Feature::amx_int8}) {
    CHECK(features.reported.contains(feature));
    CHECK(!features.usable.contains(feature));
  }
  for (const Feature feature : {Feature::avx2, Feature::avx_vnni, Feature::bmi2}) {
    CHECK(features.usable.contains(feature));
  }
}

TEST_CASE("RAPT_ISA chooses among the usable levels") {
  FeatureSet all;
  for (unsigned i = 0; i < unsigned(Feature::count); ++i) all.add(static_cast<Feature>(i));
  const std::size_t last = all_levels - 1;
  for (const char *none : {static_cast<const char *>(nullptr), ""}) {
    const Decision decision = decide(all, none);
    CHECK(decision.chosen == last);
    CHECK(decision.environment == RAPT_OK);
  }
  for (std::size_t i = 0; i < all_levels; ++i) {
    const Decision decision = decide(all, level_needs[i].name),
                   poor = decide(FeatureSet(), level_needs[i].name);
    CHECK(decision.chosen == i);
    CHECK(decision.best() == last);  // what rapt_force_isa(NULL) goes back to
    CHECK(decision.environment == RAPT_OK);
    CHECK(poor.chosen == 0);
    CHECK(poor.environment == (i == 0 ? RAPT_OK : RAPT_BAD_ISA_FOR_THIS_CPU));
  }
  for (const char *unknown : {"bogus", "AVX2", "scalar ", "sca"}) {
    const Decision decision = decide(all, unknown);
    CHECK(decision.chosen == last);
    CHECK(decision.environment == RAPT_BAD_ISA_NAME);
  }
}

}  // namespace
}  // namespace rapt
