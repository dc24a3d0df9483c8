// The shared body of attention's gradient.
#pragma once

#include "kernels/attention/backward/attention_backward.hpp"

#define RAPT_FAMILY_attention_backward(kernel) kernel
#include "kernels/part.hpp"
