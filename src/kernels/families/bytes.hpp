// Provides the dot kernels of 8-bit elements that all instruction-set levels share.
#pragma once

#include "kernels/byte_dot.hpp"

#define RAPT_FAMILY_dot(kernel) kernel
#include "kernels/part.hpp"
