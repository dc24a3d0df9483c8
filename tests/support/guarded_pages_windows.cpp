#include <windows.h>

#include <cstdio>
#include <cstdlib>

#include "support/guarded_pages.hpp"

namespace rapt::test {

std::size_t page_size() {
  static const std::size_t size = [] {
    SYSTEM_INFO system;
    GetSystemInfo(&system);
    return std::size_t{system.dwPageSize};
  }();
  return size;
}

// The first and the last page stay inaccessible, because they are reserved but never committed.
unsigned char *map_guarded(std::size_t bytes) {
  const std::size_t page = page_size();
  auto *all =
      static_cast<unsigned char *>(VirtualAlloc(nullptr, bytes + 2 * page, MEM_RESERVE, PAGE_NOACCESS));
  if (all == nullptr || VirtualAlloc(all + page, bytes, MEM_COMMIT, PAGE_READWRITE) == nullptr) {
    std::fprintf(stderr, "mapping guarded memory: error %lu\n", GetLastError());
    std::abort();
  }
  return all + page;
}

void unmap_guarded(unsigned char *begin, std::size_t) { VirtualFree(begin - page_size(), 0, MEM_RELEASE); }

}  // namespace rapt::test
