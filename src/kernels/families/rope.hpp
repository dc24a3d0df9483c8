// Provides rope, which all instruction-set levels share.
#pragma once

#include "kernels/rope.hpp"

#define RAPT_FAMILY_rope(kernel) kernel
#include "kernels/part.hpp"
