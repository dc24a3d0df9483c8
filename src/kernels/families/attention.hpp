// Provides the attention kernels that all instruction-set levels share.
#pragma once

#include "kernels/attention/attention.hpp"

#define RAPT_FAMILY_attention(kernel) kernel
#include "kernels/part.hpp"
