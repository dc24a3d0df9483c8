#include <windows.h>

#include <cstdio>

#include "support/system_name.hpp"

namespace rapt::test {
namespace {

template <class Function>
Function *function_of_ntdll(const char *name) {
  return reinterpret_cast<Function *>(
      reinterpret_cast<void *>(GetProcAddress(GetModuleHandleA("ntdll.dll"), name)));
}

const char *machine() {
  SYSTEM_INFO system;
  GetNativeSystemInfo(&system);
  switch (system.wProcessorArchitecture) {
    case PROCESSOR_ARCHITECTURE_AMD64:
      return "x86_64";
    case PROCESSOR_ARCHITECTURE_ARM64:
      return "aarch64";
    default:
      return "unknown machine";
  }
}

}  // namespace

std::string system_name() {
  // GetVersion() reports Windows 8 to a program without a manifest.
  OSVERSIONINFOW version = {};
  version.dwOSVersionInfoSize = sizeof version;
  const auto get_version = function_of_ntdll<LONG WINAPI(OSVERSIONINFOW *)>("RtlGetVersion");
  if (get_version == nullptr || get_version(&version) != 0) return "Windows";
  char text[96];
  std::snprintf(text, sizeof text, "Windows %lu.%lu.%lu %s", version.dwMajorVersion, version.dwMinorVersion,
                version.dwBuildNumber, machine());
  const auto wine_version = function_of_ntdll<const char *()>("wine_get_version");
  return wine_version ? text + std::string(", Wine ") + wine_version() : text;
}

}  // namespace rapt::test
