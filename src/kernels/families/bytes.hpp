// The shared bodies of bytes.
#pragma once

#include "kernels/byte_dot.hpp"

#define RAPT_FAMILY_dot(kernel) kernel
#include "kernels/part.hpp"
