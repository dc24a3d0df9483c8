#include "cpuid_trap.hpp"

#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "features.hpp"

namespace rapt::emulate {
namespace {

constexpr long arch_set_cpuid = 0x1012;
constexpr unsigned char cpuid[] = {0x0f, 0xa2}, ud2[] = {0x0f, 0x0b};

bool faulting = false;
constexpr std::size_t most_replaced = 256;
std::uintptr_t replaced[most_replaced];
std::size_t replaced_count = 0;

bool set_cpuid(bool enabled) { return syscall(SYS_arch_prctl, arch_set_cpuid, long{enabled}) == 0; }

// Reads the load address of the program, the first object that dl_iterate_phdr() lists.
int read_base(dl_phdr_info *info, std::size_t, void *base) {
  *static_cast<std::uintptr_t *>(base) = info->dlpi_addr;
  return 1;
}

bool is_executable(std::uintptr_t address) {
  struct Search {
    std::uintptr_t address;
    bool found;
  } search{address, false};
  dl_iterate_phdr(
      [](dl_phdr_info *info, std::size_t, void *data) {
        Search &s = *static_cast<Search *>(data);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr) &segment = info->dlpi_phdr[i];
          const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
          s.found |= segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && s.address >= begin &&
                     s.address + sizeof cpuid <= begin + segment.p_memsz;
        }
        return 1;
      },
      &search);
  return search.found;
}

bool replace(std::uintptr_t address) {
  const auto page_size = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t page = address & ~(page_size - 1), end = address + sizeof ud2;
  void *const at = reinterpret_cast<void *>(address), *const pages = reinterpret_cast<void *>(page);
  if (mprotect(pages, end - page, PROT_READ | PROT_WRITE) != 0) return false;
  std::memcpy(at, ud2, sizeof ud2);
  replaced[replaced_count++] = address;
  return mprotect(pages, end - page, PROT_READ | PROT_EXEC) == 0;
}

// `list` belongs to the program that run.sh was given. Programs that it starts inherit the list, but have
// other bytes at those addresses.
bool replace_all(const char *list) {
  std::uintptr_t base = 0;
  dl_iterate_phdr(read_base, &base);
  for (char *end; *list != '\0' && replaced_count < most_replaced; list = *end == ',' ? end + 1 : end) {
    const std::uintptr_t address = base + std::strtoull(list, &end, 16);
    if (end == list) break;
    const bool is_cpuid = is_executable(address) &&
                          std::memcmp(reinterpret_cast<const void *>(address), cpuid, sizeof cpuid) == 0;
    if (!is_cpuid || !replace(address)) return false;
  }
  return *list == '\0';
}

bool is_replaced(std::uintptr_t address) {
  for (std::size_t i = 0; i < replaced_count; ++i) {
    if (replaced[i] == address) return true;
  }
  return false;
}

}  // namespace

bool make_cpuid_trap() {
  faulting = set_cpuid(false);
  const char *const list = std::getenv("RAPT_CPUID_AT");
  return faulting || (list && replace_all(list));
}

bool present_cpuid(int signal, const siginfo_t *info, ucontext_t *context) {
  greg_t *const registers = context->uc_mcontext.gregs;
  const auto address = static_cast<std::uintptr_t>(registers[REG_RIP]);
  // A fault by cpuid has a null address. Other instructions may fault because an address is unreadable.
  const bool faulted = faulting && signal == SIGSEGV && info->si_addr == nullptr &&
                       std::memcmp(reinterpret_cast<const void *>(address), cpuid, sizeof cpuid) == 0;
  if (!faulted && !(signal == SIGILL && is_replaced(address))) return false;
  const auto leaf = static_cast<std::uint32_t>(registers[REG_RAX]),
             subleaf = static_cast<std::uint32_t>(registers[REG_RCX]);
  if (faulting) set_cpuid(true);
  const CpuidWords native = read_cpuid(leaf, subleaf);
  if (faulting) set_cpuid(false);
  const CpuidWords words = presented(leaf, subleaf, native);
  registers[REG_RAX] = words.a, registers[REG_RBX] = words.b, registers[REG_RCX] = words.c,
  registers[REG_RDX] = words.d;
  registers[REG_RIP] += sizeof cpuid;
  return true;
}

}  // namespace rapt::emulate
