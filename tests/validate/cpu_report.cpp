#include "validate/cpu_report.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "dispatch/cpu.hpp"
#include "rapt/rapt.h"
#include "support/system_name.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

namespace rapt::validate {
namespace {

template <class Chosen>
std::vector<std::string> names_of(Chosen &&chosen) {
  std::vector<std::string> names;
  for (unsigned i = 0; i < unsigned(Feature::count); ++i) {
    if (chosen(static_cast<Feature>(i))) names.emplace_back(feature_names[i]);
  }
  return names;
}

#if !defined(__aarch64__) || !defined(__linux__)
std::string trimmed(const std::string &text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}
#endif

#if defined(__x86_64__)

void append_registers(std::string &text, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  for (const std::uint32_t word : {b, c, d}) text.append(reinterpret_cast<const char *>(&word), 4);
}

std::string cpu_name() {
  std::string brand;
  std::uint32_t a, b, c, d;
  for (std::uint32_t leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
    if (!__get_cpuid(leaf, &a, &b, &c, &d)) break;
    brand.append(reinterpret_cast<const char *>(&a), 4);
    append_registers(brand, b, c, d);
  }
  brand = trimmed(brand.c_str());
  if (__get_cpuid(1, &a, &b, &c, &d)) {
    char signature[32];
    std::snprintf(signature, sizeof signature, " (CPUID %08x)", a);
    brand += signature;
  }
  return brand;
}

bool is_emulated() {
  std::uint32_t a, b, c, d;
  constexpr std::uint32_t hypervisor = 1u << 31;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & hypervisor)) return false;
  __cpuid(0x40000000, a, b, c, d);
  std::string name;
  append_registers(name, b, c, d);
  return name == "TCGTCGTCGTCG";
}

#else

#if defined(__aarch64__) && defined(__linux__)

// On AArch64, /proc/cpuinfo has no model name, and under an emulator it describes the host.
std::string cpu_name() {
  constexpr unsigned long hwcap_cpuid = 1u << 11;  // Linux lets programs read identification registers
  if (!(getauxval(AT_HWCAP) & hwcap_cpuid)) return "AArch64";
  std::uint64_t midr;
  __asm__("mrs %0, midr_el1" : "=r"(midr));
  struct Part {
    unsigned implementer, part;
    const char *name;
  };
  constexpr Part parts[] = {
      {0x41, 0xd03, "Cortex-A53"},  {0x41, 0xd04, "Cortex-A35"},  {0x41, 0xd05, "Cortex-A55"},
      {0x41, 0xd07, "Cortex-A57"},  {0x41, 0xd08, "Cortex-A72"},  {0x41, 0xd09, "Cortex-A73"},
      {0x41, 0xd0a, "Cortex-A75"},  {0x41, 0xd0b, "Cortex-A76"},  {0x41, 0xd0c, "Neoverse N1"},
      {0x41, 0xd40, "Neoverse V1"}, {0x41, 0xd49, "Neoverse N2"}, {0x41, 0xd4f, "Neoverse V2"},
      {0x46, 0x001, "A64FX"},
  };
  const auto implementer = static_cast<unsigned>(midr >> 24 & 0xff),
             part = static_cast<unsigned>(midr >> 4 & 0xfff);
  const char *name = "AArch64";
  for (const Part &known : parts) {
    if (known.implementer == implementer && known.part == part) name = known.name;
  }
  char text[64];
  std::snprintf(text, sizeof text, "%s (MIDR 0x%08llx)", name, static_cast<unsigned long long>(midr));
  return text;
}

#else

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos) return trimmed(line.substr(colon + 1));
  }
  return "unknown CPU";
}

#endif

bool is_emulated() { return false; }

#endif

}  // namespace

std::string complaint_about_rapt_isa() {
  const rapt_status status = rapt_isa_status();
  if (status == RAPT_OK) return {};
  return "RAPT_ISA=" + std::string(std::getenv("RAPT_ISA")) + " is ignored: " + rapt_status_text(status);
}

CpuReport report_cpu() {
  const CpuFeatures features = detect_features();
  CpuReport report;
  report.name = cpu_name();
  report.system = test::system_name();
  report.emulated = is_emulated();
  report.features = names_of([&](Feature feature) { return features.reported.contains(feature); });
  report.enabled = names_of([&](Feature feature) { return features.usable.contains(feature); });
  report.levels = test::level_reports();
  return report;
}

}  // namespace rapt::validate
