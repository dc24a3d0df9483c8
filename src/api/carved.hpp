// Divides the workspace of a call into arrays.
#pragma once

#include <cstddef>

namespace rapt {
namespace {

// Divides memory into arrays that begin with a cache line. Without memory it counts the bytes.
class Carved {
 public:
  explicit Carved(void *memory) : memory_(static_cast<char *>(memory)) {}

  template <class T>
  T *take(std::size_t count) {
    T *const taken = reinterpret_cast<T *>(memory_ + bytes_);
    bytes_ += (count * sizeof(T) + 63) / 64 * 64;
    return memory_ ? taken : nullptr;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  char *memory_;
  std::size_t bytes_ = 0;
};

}  // namespace
}  // namespace rapt
