// Checks the range of tasks and the workspace of a call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/strided.hpp"

namespace rapt {
namespace {

struct Tasks {
  std::size_t first;
  std::size_t last;
  bool all = false;  // the range is all tasks, and `last` is not yet set

  // Returns whether the range is within `count` tasks. If `all` is set, first sets `last` to `count`.
  bool fit(std::size_t count) {
    if (all) last = count;
    return first <= last && last <= count;
  }
};
inline constexpr Tasks all_tasks{0, 0, true};

// Kernels need a workspace at a multiple of this, for which a call's workspace has room.
inline constexpr std::size_t workspace_alignment = 64;

struct Workspace {
  void *data;
  std::size_t size;

  bool holds(std::size_t bytes) const { return data && size >= bytes; }
  // Returns the part of the workspace that a call may write.
  Strided memory(std::size_t bytes) const { return {data, bytes, 1}; }
  void *aligned() const {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    return static_cast<char *>(data) + (0 - address) % workspace_alignment;
  }
};

}  // namespace
}  // namespace rapt
