// The shared body of attention in bf16 arithmetic.
#pragma once

#include "kernels/attention/attention_in_bf16.hpp"

#define RAPT_FAMILY_attention_in_bf16(kernel) kernel
#include "kernels/part.hpp"
