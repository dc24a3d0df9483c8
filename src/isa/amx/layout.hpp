// Hands out the memory of the workspace to the data of level amx. call/attention_workspace.hpp has the sizes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/attention_workspace.hpp"
#include "contract/types.hpp"

namespace {

inline constexpr std::size_t most_tiles_of_batch = rapt::tiles_of_batch(1);

// Hands out consecutive parts of a workspace.
class Bytes {
 public:
  explicit Bytes(void *first) : next_(static_cast<char *>(first)) {}
  template <class T>
  T *reserve(std::size_t bytes) {
    char *const at = next_;
    next_ += bytes;
    return reinterpret_cast<T *>(at);
  }

 private:
  char *next_;
};

}  // namespace
