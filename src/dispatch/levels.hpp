// The levels compiled in, in the order of level_needs.
#pragma once

#include <cstddef>

#include "kernels/kernels.hpp"

namespace rapt {

// The parts of a level; the last one is null.
const KernelTable *const *parts_of_level(std::size_t index);

}  // namespace rapt
