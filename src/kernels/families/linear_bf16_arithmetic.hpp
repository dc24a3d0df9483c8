// Provides the linear layers in bf16 arithmetic, for all instruction-set levels.
#pragma once

#include "kernels/linear/linear_in_bf16.hpp"

#define RAPT_FAMILY_linear_in_bf16(kernel) kernel
#include "kernels/part.hpp"
