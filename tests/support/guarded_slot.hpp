// This guarded memory is mapped once and reused by every call. A GuardedBuffer searches and clears memory
// each time, which is too slow for calls of less than a microsecond.
#pragma once

#include <cstddef>

#include "support/guarded_buffer.hpp"

namespace rapt::test {

class GuardedSlot {
 public:
  static constexpr std::size_t watched = 128;  // canary bytes on either side of the data

  // `capacity` is the largest size of the data, including its offset.
  explicit GuardedSlot(std::size_t capacity);
  ~GuardedSlot();
  GuardedSlot(const GuardedSlot &) = delete;
  GuardedSlot &operator=(const GuardedSlot &) = delete;

  // Returns `bytes` canary bytes, with more canary bytes around them. Address and memory sanitizers reject
  // accesses outside the data.
  unsigned char *place(std::size_t bytes, Placement placement, std::size_t offset);

  // Returns whether the canaries around the data are intact. It removes the sanitizers' marks until the next
  // place().
  bool surroundings_intact() const;

  std::size_t capacity() const { return capacity_; }

 private:
  std::size_t before() const;
  std::size_t behind() const;

  unsigned char *pages_;  // accessible
  std::size_t page_bytes_;
  std::size_t capacity_;
  unsigned char *data_;
  std::size_t bytes_ = 0;
};

}  // namespace rapt::test
