// Lists the compiled levels, in the order of level_needs.
#pragma once

#include <cstddef>

#include "kernels/kernels.hpp"

namespace rapt {

// Returns the parts of a level; the last pointer is null.
const KernelTable *const *parts_of_level(std::size_t index);

}  // namespace rapt
