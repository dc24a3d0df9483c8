// Allocates memory between two inaccessible pages.
#pragma once

#include <cstddef>

namespace rapt::test {

enum class Placement {
  ends_at_guard,   // the data ends `offset` bytes before the page behind it
  begins_at_guard  // the data begins `offset` bytes after the page before it
};

// A canary element is a NaN in f32 and f64, and "visible" in a mask, so reading outside a row changes the
// result. Writing outside a row changes the canary bytes.
inline constexpr unsigned char canary = 0xff;

// Returns the bytes that an emulator needs between the data and a guard page. It is 0 on a CPU.
std::size_t guard_distance();

// Canary bytes fill the data and up to `watched` bytes on each side.
class GuardedBuffer {
 public:
  static constexpr std::size_t watched = 256;

  GuardedBuffer(std::size_t bytes, Placement placement, std::size_t offset);
  ~GuardedBuffer();
  GuardedBuffer(GuardedBuffer &&other) noexcept;
  GuardedBuffer(const GuardedBuffer &) = delete;
  GuardedBuffer &operator=(const GuardedBuffer &) = delete;
  GuardedBuffer &operator=(GuardedBuffer &&) = delete;

  void *data() const { return data_; }
  bool surroundings_intact() const;

 private:
  unsigned char *pages_;  // first byte between the guard pages
  std::size_t page_bytes_;
  unsigned char *data_;
  std::size_t bytes_;
};

// Returns whether all bytes are still canary bytes.
bool is_canary(const void *begin, std::size_t bytes);

}  // namespace rapt::test
