#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "support/guarded_pages.hpp"

namespace rapt::test {

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

unsigned char *map_guarded(std::size_t bytes) {
  const std::size_t page = page_size();
  void *all = mmap(nullptr, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED ||
      mprotect(static_cast<unsigned char *>(all) + page, bytes, PROT_READ | PROT_WRITE) != 0) {
    std::perror("mapping guarded memory");
    std::abort();
  }
  return static_cast<unsigned char *>(all) + page;
}

void unmap_guarded(unsigned char *begin, std::size_t bytes) {
  munmap(begin - page_size(), bytes + 2 * page_size());
}

}  // namespace rapt::test
