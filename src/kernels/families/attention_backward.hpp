// Provides the kernels for attention's gradient that all instruction-set levels share.
#pragma once

#include "kernels/attention/backward/attention_backward.hpp"

#define RAPT_FAMILY_attention_backward(kernel) kernel
#include "kernels/part.hpp"
