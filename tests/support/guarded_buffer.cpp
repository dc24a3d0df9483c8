#include "support/guarded_buffer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "support/effort.hpp"
#include "support/guarded_pages.hpp"

namespace rapt::test {
namespace {

struct Pages {
  unsigned char *begin;
  std::size_t bytes;
};

// Keeps mappings for reuse, because tests make millions of small buffers.
thread_local std::vector<Pages> spare_pages;

Pages acquire(std::size_t bytes) {
  const std::size_t page = page_size();
  const std::size_t wanted = std::bit_ceil(std::max<std::size_t>(1, (bytes + page - 1) / page)) * page;
  for (std::size_t i = 0; i < spare_pages.size(); ++i) {
    if (spare_pages[i].bytes != wanted) continue;
    const Pages found = spare_pages[i];
    spare_pages[i] = spare_pages.back();
    spare_pages.pop_back();
    return found;
  }
  return {map_guarded(wanted), wanted};
}

void release(Pages pages) {
  constexpr std::size_t kept = 64;
  if (spare_pages.size() < kept) {
    spare_pages.push_back(pages);
  } else {
    unmap_guarded(pages.begin, pages.bytes);
  }
}

}  // namespace

// QEMU's x86 emulation (7.2 at least) reads the whole vector of a masked load, but CPUs do not. 512 bytes
// cover the longest tail of a dot product. Native runs still check masked loads.
std::size_t guard_distance() {
#if defined(__x86_64__)
  static const std::size_t distance = on_real_cpu() ? 0 : 512;
  return distance;
#else
  return 0;
#endif
}

bool is_canary(const void *begin, std::size_t bytes) {
  const auto *at = static_cast<const unsigned char *>(begin);
  return std::all_of(at, at + bytes, [](unsigned char byte) { return byte == canary; });
}

GuardedBuffer::GuardedBuffer(std::size_t bytes, Placement placement, std::size_t offset) : bytes_(bytes) {
  offset += guard_distance();
  const Pages pages = acquire(bytes + 2 * offset);
  pages_ = pages.begin;
  page_bytes_ = pages.bytes;
  data_ = placement == Placement::ends_at_guard ? pages_ + page_bytes_ - offset - bytes : pages_ + offset;
  unsigned char *first = data_ - std::min(watched, static_cast<std::size_t>(data_ - pages_));
  unsigned char *last =
      data_ + bytes + std::min(watched, static_cast<std::size_t>(pages_ + page_bytes_ - data_) - bytes);
  std::memset(first, canary, static_cast<std::size_t>(last - first));
}

GuardedBuffer::~GuardedBuffer() {
  if (pages_) release({pages_, page_bytes_});
}

GuardedBuffer::GuardedBuffer(GuardedBuffer &&other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)),
      page_bytes_(other.page_bytes_),
      data_(other.data_),
      bytes_(other.bytes_) {}

bool GuardedBuffer::surroundings_intact() const {
  const std::size_t before = std::min(watched, static_cast<std::size_t>(data_ - pages_));
  const std::size_t behind =
      std::min(watched, static_cast<std::size_t>(pages_ + page_bytes_ - data_) - bytes_);
  return is_canary(data_ - before, before) && is_canary(data_ + bytes_, behind);
}

}  // namespace rapt::test
