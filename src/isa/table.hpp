// Defines the kernel table of an instruction-set level. The table lists the level's parts. cmake/isa.cmake writes
// the file that includes this one. That file defines RAPT_TABLE as the table's name, and RAPT_PARTS as
// PART(vector_f32) PART(softmax_f32) and so on. A level without parts inherits every kernel.
#pragma once

#include "kernels/kernels.hpp"

namespace rapt::level {
#define PART(name) extern const KernelTable name;
RAPT_PARTS
#undef PART
}  // namespace rapt::level

extern "C" const rapt::KernelTable *const RAPT_TABLE[];
constinit const rapt::KernelTable *const RAPT_TABLE[] = {
#define PART(name) &rapt::level::name,
    RAPT_PARTS
#undef PART
    nullptr,
};
