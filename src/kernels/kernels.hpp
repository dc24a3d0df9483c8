// The table of kernels that each level fills, made from kernels.def.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/softmax_rows.hpp"
#include "contract/no_fast_math.hpp"

namespace rapt {

struct AttentionCall;

// Null where a level lacks a kernel and the next lower one's serves.
struct KernelTable {
#define KERNEL(name, result, parameters, arguments) result(*name) parameters;
#include "kernels/kernels.def"
#undef KERNEL
};

}  // namespace rapt
