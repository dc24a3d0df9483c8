// The shared body of attention.
#pragma once

#include "kernels/attention/attention.hpp"

#define RAPT_FAMILY_attention(kernel) kernel
#include "kernels/part.hpp"
