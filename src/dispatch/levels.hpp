// The levels compiled in, weakest first.
#pragma once

#include <cstddef>

#include "dispatch/requirements.hpp"
#include "kernels/kernels.hpp"

namespace rapt {

struct Level : LevelNeeds {
  const KernelTable *const *parts;  // ends with null
};

std::size_t level_count();
Level level(std::size_t index);

}  // namespace rapt
