// Provides the linear layers that all instruction-set levels share.
#pragma once

#include "kernels/linear/linear.hpp"

#define RAPT_FAMILY_linear(kernel) kernel
#include "kernels/part.hpp"
