// Maps guarded memory once and reuses it for every call. A GuardedBuffer searches and clears memory each
// time, which is too slow for calls of less than a microsecond.
#pragma once

#include <cstddef>

#include "support/guarded_buffer.hpp"

namespace rapt::test {

class GuardedSlot {
 public:
  static constexpr std::size_t watched = 128;  // canary bytes on either side of the data

  // `capacity` must be at least the size of the data plus its offset.
  explicit GuardedSlot(std::size_t capacity);
  ~GuardedSlot();
  GuardedSlot(const GuardedSlot &) = delete;
  GuardedSlot &operator=(const GuardedSlot &) = delete;

  // Returns `bytes` canary bytes, surrounded by more canary bytes. Address and memory sanitizers reject
  // accesses outside the data.
  unsigned char *place(std::size_t bytes, Placement placement, std::size_t offset);

  // Returns whether the canary bytes around the data are intact. Until the next place(), sanitizers then
  // allow accesses to them.
  bool surroundings_intact() const;

  std::size_t capacity() const { return capacity_; }

 private:
  std::size_t before() const;
  std::size_t behind() const;

  unsigned char *pages_;  // first byte between the guard pages
  std::size_t page_bytes_;
  std::size_t capacity_;
  unsigned char *data_;
  std::size_t bytes_ = 0;
};

}  // namespace rapt::test
