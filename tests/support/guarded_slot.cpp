#include "support/guarded_slot.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "support/guarded_pages.hpp"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define RAPT_TEST_ASAN
#elif __has_feature(memory_sanitizer)
#define RAPT_TEST_MSAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(RAPT_TEST_ASAN)
#define RAPT_TEST_ASAN
#endif

#if defined(RAPT_TEST_ASAN)
#include <sanitizer/asan_interface.h>
#elif defined(RAPT_TEST_MSAN)
#include <sanitizer/msan_interface.h>
#endif

namespace rapt::test {
namespace {

void forbid([[maybe_unused]] const unsigned char *begin, [[maybe_unused]] std::size_t bytes) {
#if defined(RAPT_TEST_ASAN)
  __asan_poison_memory_region(begin, bytes);
#elif defined(RAPT_TEST_MSAN)
  __msan_poison(begin, bytes);
#endif
}

void allow([[maybe_unused]] const unsigned char *begin, [[maybe_unused]] std::size_t bytes) {
#if defined(RAPT_TEST_ASAN)
  __asan_unpoison_memory_region(begin, bytes);
#elif defined(RAPT_TEST_MSAN)
  __msan_unpoison(begin, bytes);
#endif
}

}  // namespace

GuardedSlot::GuardedSlot(std::size_t capacity) : capacity_(capacity) {
  const std::size_t page = page_size();
  page_bytes_ = (capacity + guard_distance() + page) / page * page;
  pages_ = map_guarded(page_bytes_);
  data_ = pages_;
}

GuardedSlot::~GuardedSlot() {
  allow(pages_, page_bytes_);
  unmap_guarded(pages_, page_bytes_);
}

std::size_t GuardedSlot::before() const {
  return std::min(watched, static_cast<std::size_t>(data_ - pages_));
}

std::size_t GuardedSlot::behind() const {
  return std::min(watched, static_cast<std::size_t>(pages_ + page_bytes_ - data_) - bytes_);
}

unsigned char *GuardedSlot::place(std::size_t bytes, Placement placement, std::size_t offset) {
  if (bytes + offset > capacity_) {
    std::fprintf(stderr, "%zu bytes at offset %zu do not fit a slot of %zu\n", bytes, offset, capacity_);
    std::abort();
  }
  offset += guard_distance();
  bytes_ = bytes;
  data_ = placement == Placement::ends_at_guard ? pages_ + page_bytes_ - offset - bytes : pages_ + offset;
  allow(pages_, page_bytes_);
  std::memset(data_ - before(), canary, before() + bytes + behind());
  forbid(pages_, static_cast<std::size_t>(data_ - pages_));
  forbid(data_ + bytes, static_cast<std::size_t>(pages_ + page_bytes_ - data_) - bytes);
  return data_;
}

bool GuardedSlot::surroundings_intact() const {
  allow(pages_, page_bytes_);
  return is_canary(data_ - before(), before()) && is_canary(data_ + bytes_, behind());
}

}  // namespace rapt::test
