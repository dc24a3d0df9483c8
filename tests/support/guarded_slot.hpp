// Guarded memory that is mapped once and used for call after call. A GuardedBuffer costs a search and a
// clearing each time, which is too much where a call takes less than a microsecond.
#pragma once

#include <cstddef>

#include "support/guarded_buffer.hpp"

namespace rapt::test {

class GuardedSlot {
 public:
  static constexpr std::size_t watched = 128;  // canary bytes on either side of the data

  // Room for data of up to `capacity` bytes, its offset included.
  explicit GuardedSlot(std::size_t capacity);
  ~GuardedSlot();
  GuardedSlot(const GuardedSlot &) = delete;
  GuardedSlot &operator=(const GuardedSlot &) = delete;

  // Where `bytes` bytes of data lie now: all canary, and canaries around them. Address and memory sanitizers
  // are told that what lies around the data must not be used.
  unsigned char *place(std::size_t bytes, Placement placement, std::size_t offset);

  // Nothing around the data was written. Takes the sanitizers' marks away until the next place().
  bool surroundings_intact() const;

  std::size_t capacity() const { return capacity_; }

 private:
  std::size_t before() const;
  std::size_t behind() const;

  unsigned char *pages_;  // what may be touched
  std::size_t page_bytes_;
  std::size_t capacity_;
  unsigned char *data_;
  std::size_t bytes_ = 0;
};

}  // namespace rapt::test
